// Parses YAML, bounded in depth and size, and finds the lines of its fields. Writes YAML that other programs read alike.

import {
  Composer,
  CST,
  Document,
  type DocumentOptions,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  type ParsedNode,
  Parser,
  type SchemaOptions,
  visit,
  type YAMLMap,
  type YAMLParseError,
} from "yaml";
import { formatLocated, type LocatedProblem, RecipeError } from "../errors.js";
import { isDeeperThan } from "../json.js";
import { keepFloat } from "../numbers/index.js";
import { shorten } from "../printing/format.js";
import { formatProblem, MAX_LEVELS, type Problem } from "./check-schema.js";
import { requireKind } from "./file-kinds.js";
import type { SettingsKind, SettingsText } from "./settings-file.js";

/** @throws RecipeError for aliases that expand without end */
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

// Far above what people write; readers may compare all entries with each other.
const MAX_ENTRIES = 10_000;
const MAX_TOKENS = 300_000;

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
    if (this.stack.length > MAX_LEVELS) this.#refuse(`nests more than ${MAX_LEVELS} levels deep`);
    if (top && "items" in top && top.items.length > MAX_ENTRIES) {
      this.#refuse(`lists more than ${MAX_ENTRIES.toLocaleString("en-US")} entries`);
    }
    if (++this.#tokens > MAX_TOKENS) this.#refuse("is too long for a settings file");
  }

  #refuse(what: string): never {
    const file = this.#file;
    throw new RecipeError(`${file} ${what} at line ${this.#lineAt(this.offset)}; shorten it`, [], { file });
  }
}

type ParsedDocument = Document.Parsed<ParsedNode>;

/** The rules of PyYAML, which mergekit uses: `yes` is true, `<<` merges mappings, `y` and `n` are strings. */
const PYYAML: DocumentOptions & SchemaOptions = {
  version: "1.1",
  customTags: (tags) =>
    tags.map((tag) => {
      if (typeof tag === "string" || tag.collection || tag.tag !== "tag:yaml.org,2002:bool" || !tag.test) return tag;
      return { ...tag, test: new RegExp(`(?=..)${tag.test.source}`) };
    }),
};

/** Parses a text, valid or not. @throws RecipeError if it is too deep or too large */
function readDocument(text: string, file: string, options: DocumentOptions & SchemaOptions = {}) {
  const lines = new LineCounter();
  const tokens = [...new BoundedParser(file, lines).parse(text)];
  const [document, next] = new Composer(options).compose(tokens, true, text.length);
  return { tokens, document: document as ParsedDocument, next, lineAt: (offset: number) => lines.linePos(offset).line };
}

/**
 * Parses a text without checking its value.
 * @param rules YAML 1.2, or those of PyYAML
 * @throws RecipeError if it is not valid YAML, too deep, or too large
 */
export function openSettings(text: string, file: string, rules: "YAML 1.2" | "PyYAML" = "YAML 1.2"): SettingsText {
  const { tokens, document, next, lineAt } = readDocument(text, file, rules === "PyYAML" ? PYYAML : {});
  const broken = document.errors.map((error) => ({ line: lineAt(error.pos[0]), message: syntaxProblem(error, text) }));
  // The other errors follow from a bracket that is not closed.
  const open = broken.length > 0 ? unclosedBracket(tokens) : undefined;
  if (open) broken.splice(0, broken.length, { line: lineAt(open.offset), message: unclosed(open.source) });
  const invalid = broken.length > 0 ? broken : keyProblems(document, lineAt);
  if (invalid.length > 0) throw new RecipeError(`${file} is not valid YAML:`, distinct(invalid), { file });
  if (next) {
    const line = lineAt(next.range[0]);
    const message = `${file} has several documents, the second from line ${line}; keep one, or put each into its own file`;
    throw new RecipeError(message, [], { file });
  }
  const lineOf = linesOf(document, lineAt);
  const inLines = (problems: readonly Problem[]) => {
    const found = problems.map((one) => ({ line: lineOf(one.at ?? one.path), message: formatProblem(one) }));
    return distinct(found.sort((a, b) => (a.line ?? 0) - (b.line ?? 0))).map(formatLocated);
  };
  const value: unknown = withFiniteAliases(file, () => document.toJS({ maxAliasCount: 100 }));
  if (isDeeperThan(value, MAX_LEVELS))
    throw new RecipeError(`${file} nests more than ${MAX_LEVELS} levels deep, or contains itself`, [], { file });
  keepFloats(document.contents, value);
  return { value, inLines, lineOf };
}

/** Keeps which whole numbers are written as floats: Python's YAML tells 2.0 from 2. */
function keepFloats(node: unknown, value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const entries = isMap(node)
    ? node.items.map((pair): [string, unknown] => [isScalar(pair.key) ? String(pair.key.value) : "", pair.value])
    : isSeq(node)
      ? node.items.map((item, i): [string, unknown] => [String(i), item])
      : [];
  for (const [key, inner] of entries) {
    if (!isScalar(inner)) keepFloats(inner, (value as Readonly<Record<string, unknown>>)[key]);
    else if (typeof inner.value === "number" && /^[^x]*[.eE]/.test(inner.source ?? "")) keepFloat(value, key);
  }
}

function distinct(problems: readonly LocatedProblem[]): LocatedProblem[] {
  return [...new Map(problems.map((problem) => [formatLocated(problem), problem])).values()];
}

/** Keys that have no value in JavaScript: the library throws for a merge of something else, and prints lists as text. */
function keyProblems(document: ParsedDocument, lineAt: (offset: number) => number): LocatedProblem[] {
  const problems: LocatedProblem[] = [];
  const merges = document.schema.tags.some(({ tag }) => tag === "tag:yaml.org,2002:merge");
  const target = (node: unknown) => (isAlias(node) ? node.resolve(document) : node);
  visit(document, {
    Pair(_, { key, value }) {
      const line = lineAt(isNode(key) ? (key.range?.[0] ?? 0) : 0);
      if (isCollection(target(key)))
        problems.push({ line, message: "the name of a field must be text, not a list or mapping" });
      if (!isScalar(key)) return;
      const isMerge = typeof key.value === "symbol" || (merges && key.type === "PLAIN" && key.value === "<<");
      const merged = target(value);
      const sources = isSeq(merged) ? merged.items.map(target) : [merged];
      if (isMerge && !sources.every(isMap))
        problems.push({ line, message: "<< takes a mapping, or a list of mappings" });
    },
  });
  return problems;
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

const CLOSING: Readonly<Record<string, string>> = { "[": "]", "{": "}" };
const unclosed = (bracket: string) => `the ${bracket} on this line has no ${CLOSING[bracket]}; add it`;

/** The last bracket that is opened and not closed. */
function unclosedBracket(tokens: readonly CST.Token[]): CST.SourceToken | undefined {
  const open: CST.SourceToken[] = [];
  for (const token of tokens) {
    if (token.type !== "document") continue;
    CST.visit(token, ({ key, value }) => {
      for (const one of [key, value]) {
        if (one?.type === "flow-collection" && !one.end.some(({ type }) => type.endsWith("-end"))) open.push(one.start);
      }
    });
  }
  return open.at(-1);
}

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

/**
 * Parses and checks the text of a settings file; `file` is for messages.
 * @throws RecipeError with every problem and its line
 */
export function parseSettings<T>(text: string, file: string, kind: SettingsKind<T>): T {
  return checkedIn(openSettings(text, file), file, kind);
}

/** The checked value of a text. @throws RecipeError with every problem and its line */
export function checkedIn<T>(document: SettingsText, file: string, { kind, check }: SettingsKind<T>): T {
  const { value, problems } = check(document.value);
  if (value !== undefined) return value;
  requireKind(document.value, file, kind);
  throw new RecipeError(`${file} is not a valid ${kind}:`, document.inLines(problems), { file });
}

/**
 * A value as YAML. Texts that YAML 1.1 takes for something else (`no`, `1_000`, `2026-01-31`) are quoted, as PyYAML and thus
 * accelerate, huggingface_hub and mergekit read that version. A list of numbers is one line.
 */
export function yamlText(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false, compat: "yaml-1.1" });
  visit(document, {
    Seq: (_, list) => {
      list.flow = list.items.every((item) => isScalar(item) && typeof item.value === "number");
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}
