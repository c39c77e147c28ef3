// Files that a person writes as YAML or JSON: reading them, and reporting all their faults at once, each with its line.
// Knows no schema; a caller checks the value and says what is wrong with it, and where.
import { readFile, stat } from "node:fs/promises";
import { isMap, isNode, LineCounter, parseDocument, type YAMLParseError } from "yaml";
import type { z } from "zod";
import { isSystemError, RecipeError } from "./errors.js";
import { closest } from "./format.js";

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
    const { size } = await stat(file);
    if (size > MAX_BYTES) throw new RecipeError(`${file} is too large to be a ${kind}`, [], { file });
    return await readFile(file, "utf8");
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

/**
 * Parses the text of such a file and checks it.
 * @throws {RecipeError} with every fault and its line
 */
export function parseSettings<T>(text: string, options: ParseSettingsOptions<T>): T {
  return refusingEndless(options.file, () => parseText(text, options));
}

/** Does what goes wrong where a file nests without end. @throws {RecipeError} then */
function refusingEndless<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    // What the parsers throw when they refuse aliases of aliases, or when nesting exhausts the stack.
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    const message = `${file} nests too deep, or has an alias within itself or too many; write it out plainly`;
    throw new RecipeError(message, [], { file });
  }
}

function parseText<T>(text: string, { file, kind, check }: ParseSettingsOptions<T>): T {
  const document = openSettings(text, file);
  const { value, faults } = check(document.value);
  if (value !== undefined) return value;
  throw new RecipeError(`${file} is not a valid ${kind}:`, faults.map(document.locate), { file });
}

/** The text of such a file as a value, and where in it things stand. */
export interface SettingsText {
  readonly value: unknown;
  /** The fault with its line, or the line of what is closest to it: `line 3: models[0]: ...`. */
  readonly locate: (fault: Fault) => string;
  /** The line on which a path stands, or the closest that does. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

/** Reads such a text, without any check of what it says. @throws {RecipeError} where it is no YAML */
export function openSettings(text: string, file: string): SettingsText {
  return refusingEndless(file, () => openText(text, file));
}

function openText(text: string, file: string): SettingsText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => lines.linePos(offset).line;
  if (document.errors.length > 0) {
    const faults = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${syntaxFault(error, text)}`);
    throw new RecipeError(`${file} is not valid YAML:`, [...new Set(faults)], { file });
  }
  const lineOf = (path: readonly PropertyKey[]): number | undefined => {
    // The closest part of the file that exists; a missing field is reported at the mapping that lacks it.
    for (let depth = path.length; depth >= 0; depth--) {
      const node = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
      if (!isNode(node) || !node.range) continue;
      // A field is where its name stands; its value may begin a line below.
      const parent = depth < 2 ? document.contents : document.getIn(path.slice(0, depth - 1), true);
      const key = isMap(parent) ? parent.items.find((pair) => pair.value === node)?.key : undefined;
      return lineAt(isNode(key) && key.range ? key.range[0] : node.range[0]);
    }
    return undefined;
  };
  const locate = (fault: Fault): string => {
    const line = lineOf(fault.at ?? fault.path);
    return line === undefined ? formatFault(fault) : `line ${line}: ${formatFault(fault)}`;
  };
  return { value: document.toJS({ maxAliasCount: 100 }), locate, lineOf };
}

/** What the parser complains of, for people who do not know its words. */
function syntaxFault({ code, message, pos }: YAMLParseError, text: string): string {
  const key = /^[^:\n]+/.exec(text.slice(pos[0]))?.[0].trim();
  if (code === "DUPLICATE_KEY") return `${key} stands here a second time; keep one of the two`;
  if (code === "BLOCK_AS_IMPLICIT_KEY" || code === "MULTILINE_IMPLICIT_KEY") {
    return "this value goes on with another field; check how far this line and the one after it are indented, and put quotes around text with a colon";
  }
  if (code === "TAB_AS_INDENT") return "a tab stands in the indentation; use spaces";
  if (code === "BAD_INDENT") return "this line is not indented as far as those that it belongs to";
  return message;
}

/** The line on which a field stands, such as `models[1].weight`, or the closest that does. */
export function lineOfField(text: string, field: string): number | undefined {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const path = field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
  for (let depth = path.length; depth > 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

/** `models[0].weight: must be a number` */
export function formatFault({ path, message }: Fault): string {
  if (path.length === 0) return message;
  const text = path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i ? "." : ""}${String(key)}`)).join("");
  return `${text}: ${message}`;
}

/** Whether a value nests deeper than so many levels; what contains itself does. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

/** Names the field that a misspelt one was meant to be. */
export function withHint(fault: Fault, known: readonly string[]): Fault {
  const unknown = /^unknown field "(.*)"$/.exec(fault.message)?.[1];
  const meant = unknown && closest(unknown, known);
  return meant ? { ...fault, message: `${fault.message}; did you mean ${meant}?` } : fault;
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
        message: `unknown field ${JSON.stringify(key)}`,
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
