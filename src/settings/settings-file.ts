// Reads YAML and JSON files that people write, and reports all problems at once with their lines.

import { dirname } from "node:path";
import { isDeeperThan, isSystemError, RecipeError, readBounded } from "../core/index.js";
import { type Checked, formatProblem, MOST_LEVELS, type Problem } from "./check-schema.js";

// Well above real files of a few kB; a wrong argument, such as a weight file, is not read whole.
const MAX_BYTES = 5_000_000;

/**
 * Reads the text of a settings file.
 * @param kind its kind for messages, such as "recipe"
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

/** A kind of settings file. @param kind its name for messages, such as "recipe" */
export interface SettingsKind<T> {
  readonly kind: string;
  readonly check: (value: unknown) => Checked<T>;
}

/** The checked value of a file. */
export interface LocatedSettings<T> {
  readonly value: T;
  /** The folder of the file, for relative paths. */
  readonly folder: string;
  /** The line of a field, such as `models[1].weight`, or of its closest parent. */
  readonly lineOf: (field: string) => number | undefined;
}

/** The text of such a file as a value, and where in it things stand. */
export interface SettingsText {
  readonly value: unknown;
  /** Problems with their lines, in the order of the file, each once. */
  readonly inLines: (problems: readonly Problem[]) => readonly string[];
  /** The line on which a path stands, or the closest that does. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

/** What reads YAML, loaded when it is needed: its library takes as long to load as a small merge takes to plan. */
export const loadYaml = () => import("./yaml.js");

/**
 * Reads and checks a settings file.
 * @throws {RecipeError} with every problem and its line
 */
export async function readSettings<T>(file: string, kind: SettingsKind<T>): Promise<LocatedSettings<T>> {
  const [{ checkedIn, openSettings }, text] = await Promise.all([loadYaml(), readSettingsText(file, kind.kind)]);
  const document = openSettings(text, file);
  return {
    value: checkedIn(document, file, kind),
    folder: dirname(file),
    lineOf: (field) => document.lineOf(pathOf(field)),
  };
}

<<<<<<< HEAD
/** Checks such settings given as a value. @throws {RecipeError} with every problem */
=======
/**
 * Parses and checks the text of a settings file; `file` is for messages.
 * @throws {RecipeError} with every problem and its line
 */
export function parseSettings<T>(text: string, file: string, kind: SettingsKind<T>): T {
  return checkedIn(openSettings(text, file), file, kind);
}

function checkedIn<T>(document: SettingsText, file: string, { kind, check }: SettingsKind<T>): T {
  const { value, problems } = check(document.value);
  if (value !== undefined) return value;
  throw new RecipeError(`${file} is not a valid ${kind}:`, document.inLines(problems), { file });
}

/** Checks settings that are given as a value. @throws {RecipeError} with every problem */
>>>>>>> 80f6cc7 (Word the engine, core and settings plainly)
export function checkSettings<T>(value: unknown, { kind, check }: SettingsKind<T>): T {
  if (isDeeperThan(value, MOST_LEVELS))
    throw new RecipeError(`the ${kind} nests more than ${MOST_LEVELS} levels deep, or contains itself`);
  const { value: checked, problems } = check(value);
  if (checked !== undefined) return checked;
  throw new RecipeError(`This is not a valid ${kind}:`, problems.map(formatProblem));
}

/** `["models", 1, "weight"]` of `models[1].weight`. */
function pathOf(field: string): PropertyKey[] {
  return field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
}
<<<<<<< HEAD
=======

/** @throws {RecipeError} for aliases that expand without end */
function withFiniteAliases<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    // The parser refuses too many aliases, and an alias within itself exhausts the stack.
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    const message = `${file} has an alias within itself or too many aliases; write the values out`;
    throw new RecipeError(message, [], { file });
  }
}

/** The value of a text, with its lines. */
export interface SettingsText {
  readonly value: unknown;
  /** Problems with their lines, in the order of the file, without repetitions. */
  readonly inLines: (problems: readonly Problem[]) => readonly string[];
  /** The line of a path, or of its closest parent. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

// Far above what people write. Readers of a file recurse so deep, and may compare all entries with each other.
const MOST_LEVELS = 100;
const MOST_ENTRIES = 10_000;
const MOST_TOKENS = 300_000;

/** A parser that refuses too deep nesting, too long lists and too many tokens. */
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
    if (++this.#tokens > MOST_TOKENS) this.#refuse("is too long for a settings file");
  }

  #refuse(what: string): never {
    const file = this.#file;
    throw new RecipeError(`${file} ${what} at line ${this.#lineAt(this.offset)}; shorten it`, [], { file });
  }
}

type ParsedDocument = Document.Parsed<ParsedNode>;

/** Parses a text, valid or not. @throws {RecipeError} if it is too deep or too large */
function readDocument(text: string, file: string, options: DocumentOptions & SchemaOptions = {}) {
  const lines = new LineCounter();
  const tokens = new BoundedParser(file, lines).parse(text);
  const [document, next] = new Composer(options).compose(tokens, true, text.length);
  return { document: document as ParsedDocument, next, lineAt: (offset: number) => lines.linePos(offset).line };
}

/**
 * Parses a text without checking its value.
 * @param options of the YAML parser; default YAML 1.2
 * @throws {RecipeError} if it is not valid YAML, too deep, or too large
 */
export function openSettings(text: string, file: string, options: DocumentOptions & SchemaOptions = {}): SettingsText {
  const { document, next, lineAt } = readDocument(text, file, options);
  if (document.errors.length > 0) {
    const problems = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${syntaxProblem(error, text)}`);
    throw new RecipeError(`${file} is not valid YAML:`, [...new Set(problems)], { file });
  }
  if (next) {
    const line = lineAt(next.range[0]);
    const message = `${file} has several documents, the second from line ${line}; keep one, or put each into its own file`;
    throw new RecipeError(message, [], { file });
  }
  const lineOf = linesOf(document, lineAt);
  const inLines = (problems: readonly Problem[]) => {
    const found = problems.map((problem) => ({
      line: lineOf(problem.at ?? problem.path),
      text: formatProblem(problem),
    }));
    const sorted = found.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
    return [...new Set(sorted.map(({ line, text }) => (line === undefined ? text : `line ${line}: ${text}`)))];
  };
  const value: unknown = withFiniteAliases(file, () => document.toJS({ maxAliasCount: 100 }));
  if (isDeeperThan(value, MOST_LEVELS))
    throw new RecipeError(`${file} nests more than ${MOST_LEVELS} levels deep, or contains itself`, [], { file });
  return { value, inLines, lineOf };
}

/** Finds the line of a path, or of the closest parent that exists. */
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
    // The location of a field is that of its key; its value may begin a line below.
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

/** The parser's errors in plain words. */
function syntaxProblem({ code, message, pos }: YAMLParseError, text: string): string {
  const key = /^[^:\n]+/.exec(text.slice(pos[0]))?.[0].trim();
  if (code === "DUPLICATE_KEY") return `${shorten(key ?? "")} is repeated here; keep one of the two`;
  if (code === "BLOCK_AS_IMPLICIT_KEY" || code === "MULTILINE_IMPLICIT_KEY") {
    return "this value is followed by another field; check the indentation of this line and the next, and quote text that contains a colon";
  }
  if (code === "TAB_AS_INDENT") return "the indentation has a tab; use spaces";
  if (code === "BAD_INDENT") return "the indentation of this line does not match the lines around it";
  return message;
}
>>>>>>> 80f6cc7 (Word the engine, core and settings plainly)
