// Normalizers and pre-tokenizers. They run here if their regular expressions are known to be safe, else in the guarded
// process, where a call costs as much as some 200 words.
import { CheckpointError, GuardError, guarded, isObject } from "../../core/index.js";
import { SPLIT_PATTERNS } from "../../weights/index.js";
import { makeParts } from "./hf-tokenizers.js";
import type { Part } from "./tokenizer-json.js";

const guardedText = guarded<typeof import("./guarded-functions.js")>("#guarded-text");

/** Regular expressions of published tokenizers that run in place. */
const TRUSTED: ReadonlySet<string> = new Set([
  ...Object.values(SPLIT_PATTERNS),
  // Single classes, as in T5, XLM-R, DeepSeek and Falcon
  " {2,}",
  "\\s+",
  "\\n",
  "[\\r\\n]",
  "\\p{N}",
  "\\p{N}+",
  "\\p{N}{1,3}",
  "\\d",
  "\\d+",
  "[0-9][0-9][0-9]",
  "\\s?\\p{L}+",
  "\\s?\\p{P}+",
  "[一-龥ࠀ-一가-퟿]+",
  "[一-龥぀-ゟ゠-ヿ]+",
]);

/** A text may grow by this factor, more than in any published tokenizer, plus this many characters. */
export const MAX_GROWTH = 100;
export const FREE_GROWTH = 10_000;

/** The factor by which a part may lengthen a text. */
function growthOf(part: Readonly<Record<string, unknown>>): number {
  // Every byte becomes a character; repeated, characters beyond ASCII become two each time.
  if (part.type === "ByteLevel") return 3;
  const added = [part.content, part.prepend, part.replacement].map((text) =>
    typeof text === "string" ? text.length : 0,
  );
  // An empty pattern matches between all characters.
  const stays = isObject(part.pattern) && part.pattern.String === "" ? 1 : 0;
  return Math.max(1, stays + Math.max(...added));
}

function isTrusted(part: Part | undefined): boolean {
  let growth = 1;
  const visit = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(visit);
    if (!isObject(value)) return true;
    growth *= growthOf(value);
    return Object.entries(value).every(([key, inner]) =>
      key === "Regex" ? typeof inner === "string" && TRUSTED.has(inner) : visit(inner),
    );
  };
  return visit(part) && growth <= MAX_GROWTH;
}

/**
 * Makes the function that normalizes texts.
 * @param original the part of the file, by which it is trusted
 * @param translated the same part for the package
 * @throws CheckpointError if it is not valid
 */
export function makeNormalizer(
  original: Part | undefined,
  translated: Part | undefined,
): (texts: readonly string[]) => string[] {
  if (!translated) return (texts) => [...texts];
  const { normalizer } = makeParts({ normalizer: translated });
  if (isTrusted(original)) return (texts) => texts.map((text) => normalizer?.normalize(text) ?? text);
  const json = JSON.stringify(translated);
  return (texts) => bounded(texts, (seconds) => guardedText("normalize", [json, texts], seconds));
}

/** Makes the function that splits a text into pieces. Parameters as above. */
export function makeSplitter(
  original: Part | undefined,
  translated: Part | undefined,
): (text: string, isFirst: boolean) => string[] {
  if (!translated) return (text) => [text];
  const { preTokenizer } = makeParts({ preTokenizer: translated });
  const split = isTrusted(original)
    ? (text: string, isFirst: boolean) =>
        preTokenizer?.pre_tokenize_text(text, { section_index: isFirst ? 0 : 1 }) ?? [text]
    : guardedSplitter(JSON.stringify(translated));
  return (text, isFirst) => split(text, isFirst).filter(Boolean);
}

function guardedSplitter(json: string): (text: string, isFirst: boolean) => string[] {
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
    throw error instanceof GuardError ? broken(error.message, error) : error;
  }
  if (lengthOf(changed) > MAX_GROWTH * length + FREE_GROWTH) throw broken(`made ${lengthOf(changed)} characters`);
  return changed;
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}
