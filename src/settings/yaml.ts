// YAML as a value, and the lines of what it says; bounded before anything recurses over it.

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
import { isDeeperThan, RecipeError, shorten } from "../core/index.js";
import { formatProblem, MOST_LEVELS, type Problem } from "./check-schema.js";
import type { SettingsKind, SettingsText } from "./settings-file.js";

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

// Far beyond what a person writes; code that reads settings may look at every entry for every other.
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
 * @param options how to read YAML, where that differs from version 1.2
 * @throws {RecipeError} if it is not YAML, too deep, or too large
 */
export function openSettings(text: string, file: string, options: DocumentOptions & SchemaOptions = {}): SettingsText {
  const { document, next, lineAt } = readDocument(text, file, options);
  if (document.errors.length > 0) {
    const problems = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${syntaxProblem(error, text)}`);
    throw new RecipeError(`${file} is not valid YAML:`, [...new Set(problems)], { file });
  }
  if (next) {
    const line = lineAt(next.range[0]);
    const message = `${file} holds several documents, the second from line ${line}; keep one, or put each into a file of its own`;
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
  const value: unknown = refusingEndless(file, () => document.toJS({ maxAliasCount: 100 }));
  if (isDeeperThan(value, MOST_LEVELS))
    throw new RecipeError(`${file} nests too deep, or contains itself`, [], { file });
  return { value, inLines, lineOf };
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
function syntaxProblem({ code, message, pos }: YAMLParseError, text: string): string {
  const key = /^[^:\n]+/.exec(text.slice(pos[0]))?.[0].trim();
  if (code === "DUPLICATE_KEY") return `${shorten(key ?? "")} stands here a second time; keep one of the two`;
  if (code === "BLOCK_AS_IMPLICIT_KEY" || code === "MULTILINE_IMPLICIT_KEY") {
    return "this value goes on with another field; check how far this line and the one after it are indented, and put quotes around text with a colon";
  }
  if (code === "TAB_AS_INDENT") return "a tab stands in the indentation; use spaces";
  if (code === "BAD_INDENT") return "this line is not indented as far as those that it belongs to";
  return message;
}

/**
 * Parses the text of such a file and checks it; `file` is for messages.
 * @throws {RecipeError} with every problem and its line
 */
export function parseSettings<T>(text: string, file: string, kind: SettingsKind<T>): T {
  return checkedIn(openSettings(text, file), file, kind);
}

/** The checked value of a text. @throws {RecipeError} with every problem and its line */
export function checkedIn<T>(document: SettingsText, file: string, { kind, check }: SettingsKind<T>): T {
  const { value, problems } = check(document.value);
  if (value !== undefined) return value;
  throw new RecipeError(`${file} is not a valid ${kind}:`, document.inLines(problems), { file });
}
