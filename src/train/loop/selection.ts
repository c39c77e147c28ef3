// What of a model is trained, as people write it: `layers 0-4, 30-31`, `all but layers 0-4`, `attention of layers 5-9 and
// embeddings`. A text to a set of tensor names; what matches nothing is an error. Freezes nothing itself.
import { closest, formatRanges, formatSome, own, RecipeError } from "../../core/index.js";
import { blockOf, compareParts, type Part } from "../../weights/index.js";

/** Layers from `first` to `last`, both included, counted from 0 at the input. */
export type LayerRange = readonly [first: number, last: number];

/** Parts, of all layers and outside them, or of some layers. An empty list of parts means whole layers. */
export interface SelectionTerm {
  readonly parts: readonly string[];
  readonly layers?: readonly LayerRange[];
}

export interface Selection {
  readonly terms: readonly SelectionTerm[];
  /** What is taken away from the terms again. */
  readonly but: readonly SelectionTerm[];
}

/** A tensor's place, as far as a selection asks for it. */
export interface Selectable {
  readonly layer: number | null;
  readonly part: Part;
}

/** Words that stand for more than one part. */
const GROUPS: Readonly<Record<string, (tensor: Selectable, name: string) => boolean>> = {
  all: () => true,
  layers: ({ layer }) => layer !== null,
  outside: ({ layer }) => layer === null,
  attention: ({ layer, part }) => layer !== null && blockOf(part) === "attention",
  mlp: ({ layer, part }) => layer !== null && blockOf(part) === "mlp",
  embeddings: ({ part }) => part === "embed_tokens" || part === "position_embeddings",
  head: ({ part }) => part === "lm_head",
  norms: ({ part }) => part.endsWith("_norm"),
  biases: (_, name) => name.endsWith(".bias"),
};

/** The words of the language besides parts' and modules' own names. */
export const SELECTION_WORDS: readonly string[] = Object.keys(GROUPS);

const KEYWORDS = new Set(["layer", "layers", "and", "but", "except", "of", "in", "only"]);

// Whole numbers that no model's layers reach; longer digits would lose precision.
const MAX_DIGITS = 6;

/**
 * Reads a selection.
 *
 *     selection = list ["only"] [("but" | "except") list]
 *     list      = term {("," | "and") term}
 *     term      = "layers" range {("," | "and") range}
 *               | word {"and" word} [("of" | "in") "layers" range {("," | "and") range}]
 *     range     = number ["-" number]
 *
 * A word is one of `all`, `layers`, `outside`, `attention`, `mlp`, `embeddings`, `head`, `norms`, `biases`, or a part or
 * module such as `q_proj`. `of layers` holds for all words that `and` joins before it; after a comma, a new term begins.
 * @param field where it stands, for errors
 * @throws {RecipeError} that says what was expected, and where
 */
export function parseSelection(text: string, field = "train"): Selection {
  const tokens = text.match(/[A-Za-z_][\w.]*|\d+|[^\s]/g) ?? [];
  const reader = new Reader(tokens, text, field);
  const terms = readList(reader);
  reader.skip("only");
  const but = reader.skip("but", "except") ? readList(reader) : [];
  if (reader.peek() !== undefined) throw reader.problem("a comma, and, but, or the end");
  return { terms, but };
}

class Reader {
  readonly #tokens: readonly string[];
  readonly #text: string;
  readonly #field: string;
  #at = 0;

  constructor(tokens: readonly string[], text: string, field: string) {
    this.#tokens = tokens;
    this.#text = text;
    this.#field = field;
  }

  peek(ahead = 0): string | undefined {
    return this.#tokens[this.#at + ahead];
  }

  /** Takes the next token if it is one of these. */
  skip(...wanted: string[]): boolean {
    const next = this.peek();
    if (next === undefined || !wanted.includes(next)) return false;
    this.#at++;
    return true;
  }

  take(): string {
    return this.#tokens[this.#at++] ?? "";
  }

  isWord(ahead = 0): boolean {
    const next = this.peek(ahead);
    return next !== undefined && /^[A-Za-z_]/.test(next) && (next === "layers" || !KEYWORDS.has(next));
  }

  isNumber(ahead = 0): boolean {
    return /^\d/.test(this.peek(ahead) ?? "");
  }

  problem(expected: string): RecipeError {
    const found = this.peek();
    const before = this.#tokens.slice(Math.max(0, this.#at - 3), this.#at).join(" ");
    const where = `${found === undefined ? "the end" : JSON.stringify(found)}${before === "" ? "" : ` after "${before}"`}`;
    return new RecipeError(
      `${this.#field}: ${JSON.stringify(this.#text)} has ${where}, where ${expected} is expected; write for example "layers 0-4, 30-31", "all but layers 0-4" or "attention and embeddings"`,
      [],
      { field: this.#field, expected, actual: found ?? "the end" },
    );
  }
}

function readList(reader: Reader): SelectionTerm[] {
  const terms = [readTerm(reader)];
  while (reader.skip(",", "and")) terms.push(readTerm(reader));
  return terms;
}

function readTerm(reader: Reader): SelectionTerm {
  const isLayers = reader.peek() === "layers" || reader.peek() === "layer";
  if (isLayers && (reader.isNumber(1) || reader.peek() === "layer")) {
    reader.take();
    return { parts: [], layers: readRanges(reader) };
  }
  if (!reader.isWord()) throw reader.problem("layers, a part such as q_proj, or a word such as attention");
  const parts = [reader.take()];
  while (reader.peek() === "and" && reader.isWord(1) && !(reader.peek(1) === "layers" && reader.isNumber(2))) {
    reader.take();
    parts.push(reader.take());
  }
  if (!reader.skip("of", "in")) return { parts };
  if (!reader.skip("layers", "layer")) throw reader.problem("layers");
  return { parts, layers: readRanges(reader) };
}

function readRanges(reader: Reader): LayerRange[] {
  const ranges = [readRange(reader)];
  while ((reader.peek() === "," || reader.peek() === "and") && reader.isNumber(1)) {
    reader.take();
    ranges.push(readRange(reader));
  }
  return ranges;
}

function readRange(reader: Reader): LayerRange {
  const first = readNumber(reader);
  if (!reader.skip("-")) return [first, first];
  const last = readNumber(reader);
  if (first > last) throw reader.problem(`layers in ascending order, ${last}-${first},`);
  return [first, last];
}

function readNumber(reader: Reader): number {
  if (!reader.isNumber() || (reader.peek() ?? "").length > MAX_DIGITS) throw reader.problem("a layer's number");
  return Number(reader.take());
}

/** The text of a selection, which reads as the same selection. */
export function formatSelection({ terms, but }: Selection): string {
  const list = (some: readonly SelectionTerm[]) => some.map(formatTerm).join(", ");
  return but.length > 0 ? `${list(terms)} but ${list(but)}` : list(terms);
}

function formatTerm({ parts, layers }: SelectionTerm): string {
  const ranges = layers?.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
  if (parts.length === 0) return `layers ${ranges}`;
  return `${parts.join(" and ")}${ranges === undefined ? "" : ` of layers ${ranges}`}`;
}

/** The module that a tensor belongs to, by its last name: `q_proj` of `model.layers.0.self_attn.q_proj.weight`. */
function moduleOf(name: string): string {
  const module = name.replace(/\.(weight|bias)$/, "");
  return module.slice(module.lastIndexOf(".") + 1);
}

export interface ResolveSelectionOptions {
  /** Places of the model's tensors by name, as of `Checkpoint.tensors`. */
  readonly tensors: ReadonlyMap<string, Selectable>;
  /** Number of the model's layers. */
  readonly layers: number;
  /** Where the selection stands, for errors; default `train`. */
  readonly field?: string;
}

/**
 * The names of the tensors that a selection means, in the order of the model.
 * @throws {RecipeError} if a term, or all of it, matches nothing, or a layer is not there
 */
export function resolveSelection(
  selection: Selection | string,
  { tensors, layers, field = "train" }: ResolveSelectionOptions,
): ReadonlySet<string> {
  const parsed = typeof selection === "string" ? parseSelection(selection, field) : selection;
  const model = { tensors, layers, field };
  const taken = new Set(parsed.terms.flatMap((term) => matches(term, model)));
  for (const name of parsed.but.flatMap((term) => matches(term, model))) taken.delete(name);
  if (taken.size === 0) {
    throw new RecipeError(`${field}: nothing is left of ${JSON.stringify(formatSelection(parsed))}`, [], { field });
  }
  return new Set([...tensors.keys()].filter((name) => taken.has(name)));
}

type Model = Required<ResolveSelectionOptions>;

function matches(term: SelectionTerm, { tensors, layers, field }: Model): string[] {
  const beyond = term.layers?.find(([, last]) => last >= layers)?.[1];
  if (beyond !== undefined) {
    throw new RecipeError(
      `${field}: there is no layer ${beyond}; the model has ${layers}, counted 0 to ${layers - 1}`,
      [],
      { field, expected: `at most ${layers - 1}`, actual: String(beyond) },
    );
  }
  const isInLayers = ({ layer }: Selectable) =>
    term.layers === undefined ||
    (layer !== null && term.layers.some(([first, last]) => first <= layer && layer <= last));
  const parts = term.parts.length > 0 ? term.parts : ["layers"];
  return parts.flatMap((part) => {
    const group = own(GROUPS, part);
    const isOfPart = group ?? ((tensor: Selectable, name: string) => tensor.part === part || moduleOf(name) === part);
    const ofPart = [...tensors].filter(([name, tensor]) => isOfPart(tensor, name));
    if (ofPart.length === 0) throw unknownPart(part, tensors, field);
    const found = ofPart.filter(([, tensor]) => isInLayers(tensor));
    if (found.length === 0) {
      const ranges = formatTerm({ ...term, parts: [part] });
      throw new RecipeError(`${field}: ${ranges} matches nothing; ${whereItIs(part, ofPart)}`, [], { field });
    }
    return found.map(([name]) => name);
  });
}

function whereItIs(part: string, found: readonly (readonly [string, Selectable])[]): string {
  const layers = [...new Set(found.flatMap(([, { layer }]) => layer ?? []))].sort((a, b) => a - b);
  return layers.length > 0 ? `${part} is in layers ${formatRanges(layers)}` : `${part} is in no layer`;
}

function unknownPart(part: string, tensors: ReadonlyMap<string, Selectable>, field: string): RecipeError {
  const isTied = part === "head" || part === "lm_head";
  const parts = [...new Set([...tensors.values()].map((tensor) => tensor.part))].sort(compareParts);
  const modules = [...new Set([...tensors.keys()].map(moduleOf))];
  const meant = closest(part, [...SELECTION_WORDS, ...parts, ...modules]);
  const hint = isTied
    ? "its output head is the embedding, so write embeddings"
    : `${meant === undefined ? "" : `did you mean ${meant}? `}it has ${SELECTION_WORDS.join(", ")}, ${formatSome(parts, 20)}`;
  return new RecipeError(`${field}: the model has no ${part}; ${hint}`, [], { field, actual: part });
}
