// Files that a person writes as YAML or JSON: reading them, and reporting all their faults at once, each with its line.
// Knows no schema; a caller checks the value and says what is wrong with it, and where.

import {
  Composer,
  type CST,
  type Document,
  type DocumentOptions,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  type ParsedNode,
  Parser,
  type SchemaOptions,
  type YAMLMap,
  type YAMLParseError,
} from "yaml";
import type { z } from "zod";
import { didYouMean, isSystemError, RecipeError, readBounded, shorten } from "../core/index.js";

/** What is wrong with a value, and where in it. */
export interface Fault {
  readonly path: readonly PropertyKey[];
  /** Where it stands, if that is not the path that the message begins with. */
  readonly at?: readonly PropertyKey[];
  readonly message: string;
}

/** What a check makes of a value: the checked value, or faults. */
export interface Checked<T> {
  readonly value?: T;
  readonly faults: readonly Fault[];
}

// A file of a page is 3 kB; this keeps a wrong argument, such as a weight file, from being read whole.
const MAX_BYTES = 5_000_000;

/**
 * Reads the text of such a file.
 * @param kind what it should be, such as "recipe", for messages
 * @throws {RecipeError} if it is missing, a folder, or too large
 */
export async function readSettingsText(file: string, kind: string): Promise<string> {
  try {
    const tooLarge = () => new RecipeError(`${file} is too large to be a ${kind}`, [], { file });
    return (await readBounded(file, MAX_BYTES, tooLarge)).toString("utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new RecipeError(`${file} does not exist`, [], { file });
    if (isSystemError(error, "EISDIR")) throw new RecipeError(`${file} is a folder; give a ${kind} file`, [], { file });
    throw error;
  }
}

export interface ParseSettingsOptions<T> {
  /** Name of the file, for messages. */
  readonly file: string;
  /** What it should be, such as "recipe". */
  readonly kind: string;
  readonly check: (value: unknown) => Checked<T>;
}

/** Does what goes wrong where a file nests without end. @throws {RecipeError} then */
function refusingEndless<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    // What the parser throws when it refuses aliases of aliases, or an alias within itself exhausts the stack.
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    const message = `${file} has an alias within itself or too many aliases; write it out plainly`;
    throw new RecipeError(message, [], { file });
  }
}

/**
 * Parses the text of such a file and checks it.
 * @throws {RecipeError} with every fault and its line
 */
export function parseSettings<T>(text: string, { file, kind, check }: ParseSettingsOptions<T>): T {
  const document = openSettings(text, file);
  const { value, faults } = check(document.value);
  if (value !== undefined) return value;
  throw new RecipeError(`${file} is not a valid ${kind}:`, document.inLines(faults), { file });
}

/** The text of such a file as a value, and where in it things stand. */
export interface SettingsText {
  readonly value: unknown;
  /** The fault with its line, or the line of what is closest to it: `line 3: models[0]: ...`. */
  readonly locate: (fault: Fault) => string;
  /** Faults with their lines, in the order of the file, each once. */
  readonly inLines: (faults: readonly Fault[]) => readonly string[];
  /** The line on which a path stands, or the closest that does. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

// Far beyond what a person writes; what reads a file may recurse so deep, and may look at every entry for every other.
const MOST_LEVELS = 100;
const MOST_ENTRIES = 10_000;
const MOST_TOKENS = 300_000;

/** A parser that stops before nesting, a list or the whole is too large for what comes after it. */
class BoundedParser extends Parser {
  readonly #file: string;
  readonly #lineAt: (offset: number) => number;
  #tokens = 0;

  constructor(file: string, lines: LineCounter) {
    super(lines.addNewLine);
    this.#file = file;
    this.#lineAt = (offset) => lines.linePos(offset).line;
  }

  override *next(source: string): Generator<CST.Token, void> {
    yield* super.next(source);
    const top = this.stack.at(-1);
    if (this.stack.length > MOST_LEVELS) this.#refuse(`nests more than ${MOST_LEVELS} levels deep`);
    if (top && "items" in top && top.items.length > MOST_ENTRIES) {
      this.#refuse(`lists more than ${MOST_ENTRIES.toLocaleString("en-US")} entries`);
    }
    if (++this.#tokens > MOST_TOKENS) this.#refuse("holds more than a settings file can");
  }

  #refuse(what: string): never {
    const file = this.#file;
    throw new RecipeError(`${file} ${what} at line ${this.#lineAt(this.offset)}; write less`, [], { file });
  }
}

type ParsedDocument = Document.Parsed<ParsedNode>;

/** The document of a text, whatever is wrong with it. @throws {RecipeError} if it is too deep or too large */
function readDocument(text: string, file: string, options: DocumentOptions & SchemaOptions = {}) {
  const lines = new LineCounter();
  const tokens = new BoundedParser(file, lines).parse(text);
  const [document, next] = new Composer(options).compose(tokens, true, text.length);
  return { document: document as ParsedDocument, next, lineAt: (offset: number) => lines.linePos(offset).line };
}

/**
 * Reads such a text, without any check of what it says.
 * @param options how to read YAML, where that is not as version 1.2 says
 * @throws {RecipeError} where it is no YAML, too deep, or too large
 */
export function openSettings(text: string, file: string, options: DocumentOptions & SchemaOptions = {}): SettingsText {
  const { document, next, lineAt } = readDocument(text, file, options);
  if (document.errors.length > 0) {
    const faults = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${syntaxFault(error, text)}`);
    throw new RecipeError(`${file} is not valid YAML:`, [...new Set(faults)], { file });
  }
  if (next) {
    const line = lineAt(next.range[0]);
    const message = `${file} holds several documents, the second from line ${line}; keep one, or put each into a file of its own`;
    throw new RecipeError(message, [], { file });
  }
  const lineOf = linesOf(document, lineAt);
  const locate = (fault: Fault): string => {
    const line = lineOf(fault.at ?? fault.path);
    return line === undefined ? formatFault(fault) : `line ${line}: ${formatFault(fault)}`;
  };
  const inLines = (faults: readonly Fault[]) => {
    const found = faults.map((fault) => ({ line: lineOf(fault.at ?? fault.path) ?? 0, text: locate(fault) }));
    return [...new Set(found.sort((a, b) => a.line - b.line).map(({ text }) => text))];
  };
  return { value: refusingEndless(file, () => document.toJS({ maxAliasCount: 100 })), locate, inLines, lineOf };
}

/** Finds the line on which a path stands, or the closest part of it that exists: what is missing is at what lacks it. */
function linesOf(
  document: ParsedDocument,
  lineAt: (offset: number) => number,
): (path: readonly PropertyKey[]) => number | undefined {
  const indexes = new Map<unknown, ReadonlyMap<string, Pair>>();
  const pairOf = (node: YAMLMap, key: string): Pair | undefined => {
    let index = indexes.get(node);
    if (!index) {
      index = new Map(node.items.map((pair) => [isScalar(pair.key) ? String(pair.key.value) : "", pair]));
      indexes.set(node, index);
    }
    return index.get(key);
  };
  return (path) => {
    let node: unknown = document.contents;
    // A field is where its name stands; its value may begin a line below.
    let place: unknown = node;
    for (const key of path) {
      const pair = isMap(node) ? pairOf(node, String(key)) : undefined;
      node = isSeq(node) ? node.items[Number(key)] : pair?.value;
      if (!pair && !isNode(node)) break;
      place = pair?.key ?? node;
    }
    return isNode(place) && place.range ? lineAt(place.range[0]) : undefined;
  };
}

/** What the parser complains of, for people who do not know its words. */
function syntaxFault({ code, message, pos }: YAMLParseError, text: string): string {
  const key = /^[^:\n]+/.exec(text.slice(pos[0]))?.[0].trim();
  if (code === "DUPLICATE_KEY") return `${shorten(key ?? "")} stands here a second time; keep one of the two`;
  if (code === "BLOCK_AS_IMPLICIT_KEY" || code === "MULTILINE_IMPLICIT_KEY") {
    return "this value goes on with another field; check how far this line and the one after it are indented, and put quotes around text with a colon";
  }
  if (code === "TAB_AS_INDENT") return "a tab stands in the indentation; use spaces";
  if (code === "BAD_INDENT") return "this line is not indented as far as those that it belongs to";
  return message;
}

/** The line on which a field stands, such as `models[1].weight`, or the closest that does. */
export function lineOfField(text: string, field: string): number | undefined {
  const { document, lineAt } = readDocument(text, "the file");
  const path = field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
  return linesOf(document, lineAt)(path);
}

/** `models[0].weight: must be a number` */
export function formatFault({ path, message }: Fault): string {
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}

/** `models[0].weight` */
export function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map((key, i) => (typeof key === "number" ? `[${key}]` : `${i ? "." : ""}${shorten(String(key))}`))
    .join("");
}

/**
 * Names the field that a misspelt one was meant to be, or where a field belongs that is not one here.
 * @param known fields by their names, or by their paths, such as `optimizer.lr`
 */
export function withHint(fault: Fault, known: readonly string[]): Fault {
  const unknown = /^unknown field "(.*)"$/.exec(fault.message)?.[1];
  if (unknown === undefined) return fault;
  const leafOf = (field: string) => field.slice(field.lastIndexOf(".") + 1);
  const places = known
    .filter((field) => field.endsWith(`.${unknown}`))
    .map((field) => field.slice(0, -unknown.length - 1));
  const isField = known.some((field) => leafOf(field) === unknown);
  const elsewhere = places.filter((place) => place !== formatPath(fault.path));
  if (elsewhere.length > 0)
    return { ...fault, message: `${fault.message}; it belongs under ${elsewhere.join(" or ")}` };
  if (isField) return { ...fault, message: `${fault.message}; it is a field, but not of this place` };
  return { ...fault, message: `${fault.message}${didYouMean(unknown, known.map(leafOf))}` };
}

/**
 * Issues of a schema (parsed with `reportInput`) as a person wants them: within a union, those of the variant that was
 * meant, which is the one with the deepest complaint.
 */
export function faultsOfIssues(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): Fault[] {
  return issues.flatMap((issue): Fault[] => {
    const path = [...base, ...issue.path];
    const isMissing = issue.input === undefined && (issue.code === "invalid_type" || issue.code === "invalid_union");
    // A recipe without a method lacks it, but which methods there are says more.
    if (isMissing || (issue.code === "custom" && issue.input === undefined)) return [{ path, message: "is missing" }];
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const variants = issue.errors.map((variant) => faultsOfIssues(variant, path));
      const depth = (faults: Fault[]) => Math.max(...faults.map((fault) => fault.path.length));
      const deepest = variants.toSorted((a, b) => depth(b) - depth(a))[0];
      if (deepest && depth(deepest) > path.length) return deepest;
      // A mapping with an unknown field complains at its own level, and still says more than the union does.
      const precise = variants.find((faults) => faults.every((fault) => fault.message.startsWith("unknown field")));
      return precise ?? [{ path, message: issue.message }];
    }
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        path,
        at: [...path, key],
        message: `unknown field ${JSON.stringify(shorten(key))}`,
      }));
    }
    return [{ path, message: inWords(issue.message) }];
  });
}

/** What a kind of value is called by those who write YAML. */
const KINDS: Readonly<Record<string, string>> = {
  ...{ array: "a list", object: "a mapping", record: "a mapping", map: "a mapping", string: "text" },
  ...{ number: "a number", int: "a whole number", boolean: "true or false", null: "nothing", NaN: "not a number" },
};

/** A schema's own message without what only programmers know. */
function inWords(message: string): string {
  const wrong = /^Invalid input: expected (\w+), received (\w+)$/.exec(message);
  const [wanted, found] = [KINDS[wrong?.[1] ?? ""], KINDS[wrong?.[2] ?? ""]];
  // Of a number that is not whole the kind is right.
  if (wanted && (found === undefined || wrong?.[1] === "int")) return `must be ${wanted}`;
  if (wanted) return `must be ${wanted}, not ${found}`;
  return message.replace(/^(Invalid (input|option)|Too (small|big)): /, "");
}
