// Which tensors a selection such as `layers 0-4, 30-31`, `all but layers 0-4` or `attention of layers 5-9` names.

import { blockOf, compareParts, type Part } from "../../formats/checkpoint/index.js";
import { own, RecipeError } from "../../kit/index.js";
import { didYouMean, formatRanges, formatSome } from "../../kit/printing/index.js";

/** Layers from `first` to `last`, both included, counted from 0 at the input; or so many at one end of the model. */
type LayerRange = readonly [first: number, last: number] | { readonly end: "bottom" | "top"; readonly count: number };

/** Parts of all layers and outside them, or of some layers. Without parts: whole layers. */
interface SelectionTerm {
  readonly parts: readonly string[];
  readonly layers?: readonly LayerRange[];
}

interface Selection {
  readonly terms: readonly SelectionTerm[];
  /** What is left out of the terms. */
  readonly but: readonly SelectionTerm[];
}

/** What a selection reads of a tensor. */
export interface Selectable {
  readonly layer: number | null;
  readonly part: Part;
}

/** Words for more than one part. */
const GROUPS: Readonly<Record<string, (tensor: Selectable, name: string) => boolean>> = {
  all: () => true,
  layers: ({ layer }) => layer !== null,
  outside: ({ layer }) => layer === null,
  attention: ({ layer, part }) => layer !== null && blockOf(part) === "attention",
  mlp: ({ layer, part }) => layer !== null && blockOf(part) === "mlp",
  embeddings: ({ part }) => part === "embed_tokens" || part === "position_embeddings",
  head: ({ part }) => part === "lm_head",
  norms: ({ part }) => part.endsWith("_norm"),
  // Those of all experts in one tensor are parameters without a module of their own, such as `down_proj_bias`.
  biases: ({ part }, name) => name.endsWith(".bias") || (name.endsWith("_bias") && part.endsWith("_proj")),
};

const KEYWORDS = new Set(["layer", "bottom", "top", "and", "but", "except", "of", "in", "only"]);

// No model has a million layers, and longer numbers would lose precision.
const MAX_DIGITS = 6;

/**
 * Reads a selection.
 *
 *     selection = list ["only"] [("but" | "except") list]
 *     list      = term {("," | "and") term}
 *     term      = "layers" range {("," | "and") range}
 *               | word {"and" word} [("of" | "in") "layers" range {("," | "and") range}]
 *     range     = number ["-" number] | ("bottom" | "top") number
 *
 * A word is one of `all`, `layers`, `outside`, `attention`, `mlp`, `embeddings`, `head`, `norms`, `biases`, or a part or
 * module such as `q_proj`. `of layers` applies to all words that `and` joins before it; a comma begins a new term.
 * @param field begins the error's message; none by default
 * @throws RecipeError that says what was expected, and where
 */
export function parseSelection(text: string, field?: string): Selection {
  const tokens: readonly string[] = text.match(/[A-Za-z_][\w.]*|\d+|[^\s]/g) ?? [];
  let at = 0;
  const isNumber = (token = "") => /^\d/.test(token);
  const isRange = (token = "") => isNumber(token) || token === "bottom" || token === "top";
  const isWord = (token = "") => /^[A-Za-z_]/.test(token) && !KEYWORDS.has(token);
  const skip = (...wanted: string[]) => {
    const found = wanted.includes(tokens[at] ?? "");
    if (found) at++;
    return found;
  };
  const problem = (expected: string) => {
    const found = tokens[at] === undefined ? "the end" : JSON.stringify(tokens[at]);
    const before = tokens.slice(Math.max(0, at - 3), at).join(" ");
    return RecipeError.at(
      { field: field ?? "train", expected, actual: tokens[at] ?? "the end" },
      `${field === undefined ? "" : `${field}: `}${JSON.stringify(text)} has ${found}${before && ` after "${before}"`}, where ${expected} is expected. Write, for example, "layers 0-4, 30-31", "all but layers 0-4" or "attention and embeddings"`,
    );
  };

  const number = () => {
    const token = tokens[at];
    if (!isNumber(token) || (token ?? "").length > MAX_DIGITS) throw problem("the number of a layer");
    at++;
    return Number(token);
  };
  const range = (): LayerRange => {
    const end = tokens[at];
    if (end === "bottom" || end === "top") {
      at++;
      const count = number();
      if (count === 0) throw problem("at least one layer");
      return { end, count };
    }
    const first = number();
    const last = skip("-") ? number() : first;
    if (first > last) throw problem(`layers in ascending order, ${last}-${first},`);
    return [first, last];
  };
  const ranges = () => {
    const found = [range()];
    while (isRange(tokens[at + 1]) && skip(",", "and")) found.push(range());
    return found;
  };
  const term = (): SelectionTerm => {
    if (tokens[at] === "layer" || (tokens[at] === "layers" && isRange(tokens[at + 1]))) {
      at++;
      return { parts: [], layers: ranges() };
    }
    const parts: string[] = [];
    do {
      const word = tokens[at];
      if (word === undefined || !isWord(word))
        throw problem("layers, a part such as q_proj, or a word such as attention");
      parts.push(word);
      at++;
    } while (isWord(tokens[at + 1]) && !(tokens[at + 1] === "layers" && isRange(tokens[at + 2])) && skip("and"));
    if (!skip("of", "in")) return { parts };
    if (!skip("layers", "layer")) throw problem("layers");
    return { parts, layers: ranges() };
  };
  const list = () => {
    const terms = [term()];
    while (skip(",", "and")) terms.push(term());
    return terms;
  };

  const terms = list();
  skip("only");
  const but = skip("but", "except") ? list() : [];
  if (at < tokens.length) throw problem("a comma, and, but, or the end");
  return { terms, but };
}

function formatRange(range: LayerRange): string {
  if ("end" in range) return `${range.end} ${range.count}`;
  const [first, last] = range;
  return first === last ? `${first}` : `${first}-${last}`;
}

function formatTerm({ parts, layers }: SelectionTerm): string {
  const ranges = layers?.map(formatRange).join(", ");
  if (parts.length === 0) return `layers ${ranges}`;
  return `${parts.join(" and ")}${ranges === undefined ? "" : ` of layers ${ranges}`}`;
}

/** `q_proj` of `model.layers.0.self_attn.q_proj.weight` */
function moduleOf(name: string): string {
  const module = name.replace(/\.(weight|bias)$/, "");
  return module.slice(module.lastIndexOf(".") + 1);
}

export interface ResolveSelectionOptions {
  /** The model's tensors by name, as in `Checkpoint.tensors`. */
  readonly tensors: ReadonlyMap<string, Selectable>;
  readonly layers: number;
  /** The field of the selection, for errors; default `train`. */
  readonly field?: string;
}

/**
 * The names of the selected tensors, in the order of the model.
 * @throws RecipeError if the selection or a term of it matches nothing, or the model has no such layer
 */
export function resolveSelection(
  text: string,
  { tensors, layers, field = "train" }: ResolveSelectionOptions,
): ReadonlySet<string> {
  const { terms, but } = parseSelection(text, field);
  const model = { tensors, layers, field };
  const selected = new Set(terms.flatMap((term) => matches(term, model)));
  for (const name of but.flatMap((term) => matches(term, model))) selected.delete(name);
  if (selected.size === 0) {
    throw RecipeError.at({ field }, `${field}: ${JSON.stringify(text)} leaves nothing to select`);
  }
  return new Set([...tensors.keys()].filter((name) => selected.has(name)));
}

type Model = Required<ResolveSelectionOptions>;

function matches(term: SelectionTerm, { tensors, layers, field }: Model): string[] {
  const ranges = term.layers?.map((range) => {
    if (!("end" in range)) return range;
    const { end, count } = range;
    return end === "bottom" ? ([0, count - 1] as const) : ([layers - count, layers - 1] as const);
  });
  const tooMany = term.layers?.find((range) => "end" in range && range.count > layers);
  if (tooMany) {
    throw RecipeError.at({ field }, `${field}: ${formatRange(tooMany)} is more than the model's ${layers} layers`);
  }
  const beyond = ranges?.find(([, last]) => last >= layers)?.[1];
  if (beyond !== undefined) {
    const message = `${field}: the model has no layer ${beyond}; its layers are 0 to ${layers - 1}`;
    throw RecipeError.at({ field, expected: `at most ${layers - 1}`, actual: String(beyond) }, message);
  }
  const isInLayers = ({ layer }: Selectable) =>
    ranges === undefined || (layer !== null && ranges.some(([first, last]) => first <= layer && layer <= last));
  const parts = term.parts.length > 0 ? term.parts : ["layers"];
  return parts.flatMap((part) => {
    const group = own(GROUPS, part);
    const isOfPart = group ?? ((tensor: Selectable, name: string) => tensor.part === part || moduleOf(name) === part);
    const ofPart = [...tensors].filter(([name, tensor]) => isOfPart(tensor, name));
    if (ofPart.length === 0) throw unknownPart(part, tensors, field);
    const found = ofPart.filter(([, tensor]) => isInLayers(tensor));
    if (found.length === 0) {
      const asked = formatTerm({ ...term, parts: [part] });
      throw RecipeError.at({ field }, `${field}: ${asked} matches nothing; ${describePlaces(part, ofPart)}`);
    }
    return found.map(([name]) => name);
  });
}

function describePlaces(part: string, found: readonly (readonly [string, Selectable])[]): string {
  const layers = [...new Set(found.flatMap(([, { layer }]) => layer ?? []))].sort((a, b) => a - b);
  return layers.length > 0 ? `${part} is in layers ${formatRanges(layers)}` : `${part} is outside the layers`;
}

function unknownPart(part: string, tensors: ReadonlyMap<string, Selectable>, field: string): RecipeError {
  const isTied = part === "head" || part === "lm_head";
  const parts = [...new Set([...tensors.values()].map((tensor) => tensor.part))].sort(compareParts);
  const modules = [...new Set([...tensors.keys()].map(moduleOf))];
  const words = Object.keys(GROUPS);
  const hint = isTied
    ? ". Its output head is the embedding; write embeddings"
    : `; it has ${[...words, formatSome(parts, 20)].join(", ")}${didYouMean(part, [...words, ...parts, ...modules])}`;
  return RecipeError.at({ field, actual: part }, `${field}: the model has no ${part}${hint}`);
}
