// Normalizers and pre-tokenizers. They run here if their regular expressions are known to be safe, else in the guarded
// process, where a call costs as much as some 200 words.

import { SPLIT_PATTERNS } from "../formats/gguf/index.js";
import { CheckpointError, GuardError, guarded, isObject } from "../kit/index.js";
import { isLinear } from "./linear-expression.js";
import { type Normalizer, readNormalizer, readReplace } from "./normalizers.js";
import { readPreTokenizer } from "./pre-tokenizers.js";
import type { TokenizerPart } from "./tokenizer-json.js";

const guardedText = guarded<typeof import("./guarded-functions.js")>("#guarded-text");

/** Published expressions run in place, and those whose form shows that they are fast. */
const PUBLISHED: ReadonlySet<string> = new Set(Object.values(SPLIT_PATTERNS));
const isFast = (expression: string) => PUBLISHED.has(expression) || isLinear(expression);

/** A text may grow by this factor, more than in any published tokenizer, plus this many characters. */
export const MAX_GROWTH = 100;
export const FREE_GROWTH = 10_000;

/** The factor by which a part may lengthen a text. */
function growthOf(part: Readonly<Record<string, unknown>>): number {
  // Every byte becomes a character; repeated, characters beyond ASCII become two each time.
  if (part.type === "ByteLevel" || part.type === "BertNormalizer") return 3;
  // A table replaces a byte by up to 100.
  if (part.type === "Precompiled") return MAX_GROWTH;
  const added = [part.content, part.prepend].map((text) => (typeof text === "string" ? text.length : 0));
  // An empty pattern matches between all characters.
  const stays = isObject(part.pattern) && part.pattern.String === "" ? 1 : 0;
  return Math.max(1, stays + Math.max(...added));
}

function isTrusted(part: TokenizerPart | undefined): boolean {
  let growth = 1;
  const visit = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(visit);
    if (!isObject(value)) return true;
    growth *= growthOf(value);
    return Object.entries(value).every(([key, inner]) =>
      key === "Regex" ? typeof inner === "string" && isFast(inner) : visit(inner),
    );
  };
  return visit(part) && growth <= MAX_GROWTH;
}

/**
 * Makes the function that normalizes texts.
 * @throws CheckpointError if the part is not valid or not supported
 */
export function makeNormalizer(part: TokenizerPart | undefined): (texts: readonly string[]) => string[] {
  return part ? guardedNormalizer(part, "normalize", readNormalizer) : (texts) => [...texts];
}

/** Makes the function of a decoder that replaces what a pattern matches. */
export function makeReplacer(part: TokenizerPart): (text: string) => string {
  const replace = guardedNormalizer(part, "replace", readReplace);
  return (text) => replace([text])[0] ?? text;
}

function guardedNormalizer(
  part: TokenizerPart,
  name: "normalize" | "replace",
  read: (part: TokenizerPart) => Normalizer,
) {
  const normalize = read(part);
  if (isTrusted(part)) return (texts: readonly string[]) => texts.map(normalize);
  const json = JSON.stringify(part);
  return (texts: readonly string[]) => bounded(texts, (seconds) => guardedText(name, [json, texts], seconds));
}

/** Makes the function that splits a text into pieces, none of them empty. */
export function makeSplitter(part: TokenizerPart | undefined): (text: string, isFirst: boolean) => string[] {
  if (!part) return (text) => [text];
  const split = readPreTokenizer(part);
  if (isTrusted(part)) return (text, isFirst) => split({ text, isFirst }).map((piece) => piece.text);
  const json = JSON.stringify(part);
  return (text, isFirst) => bounded([text], (seconds) => guardedText("split", [json, text, isFirst], seconds));
}

/** Characters per second of the slowest correct tokenizer. */
const SLOWEST = 20_000;
const SECONDS = 10;

function bounded(texts: readonly string[], work: (seconds: number) => string[]): string[] {
  const length = lengthOf(texts);
  const [first = ""] = texts;
  const shown = JSON.stringify(first.length > 40 ? `${first.slice(0, 40)}...` : first);
  const broken = (what: string, cause?: unknown) =>
    new CheckpointError(
      `the tokenizer ${what} on ${shown}; an expression in its tokenizer.json is broken or was made to hang`,
      {},
      cause,
    );
  let changed: string[];
  try {
    changed = work(Math.ceil(SECONDS + length / SLOWEST));
  } catch (error) {
    if (error instanceof GuardError) throw broken(error.message, error);
    // V8 compiles an expression when it first runs, and refuses one that is too large.
    throw error instanceof SyntaxError ? broken("failed", error) : error;
  }
  if (lengthOf(changed) > MAX_GROWTH * length + FREE_GROWTH) throw broken(`made ${lengthOf(changed)} characters`);
  return changed;
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}
