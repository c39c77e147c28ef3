// Normalizers and splitters, run here where their regular expressions are known to be harmless, else in the guarded
// process. A call of that costs as much as some 200 words.
import { CheckpointError, GuardError, guarded, isObject } from "../../core/index.js";
import { makeParts } from "./package.js";
import type { Part } from "./tokenizer-json.js";

const guardedText = guarded<typeof import("./guarded.js")>("#guarded-text");

// What published tokenizers are put together from.
const WORDS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SPELT_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const CASED = (suffix: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${suffix}`;
const SLASHED_REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Regular expressions of published tokenizers; none of them tries more than one way over a run of characters. */
const TRUSTED: ReadonlySet<string> = new Set([
  // Llama 3
  `${CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${REST}`,
  `${SPELT_CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${REST}`,
  // Qwen 2 to 3
  `${CONTRACTIONS}|${WORDS}|\\p{N}|${REST}`,
  // Qwen 3.5
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  // GPT-2
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  // Mistral's Tekken
  `${CASED("")}|\\p{N}|${SLASHED_REST}`,
  // o200k, as in gpt-oss
  `${CASED(`${CONTRACTIONS}?`)}|\\p{N}{1,3}|${SLASHED_REST}`,
  // BLOOM
  " ?[^(\\s|[.,!?…。，、।۔،])]+",
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

// More than any published tokenizer lengthens a text.
const MOST_GROWTH = 100;

function isTrusted(part: Part | undefined): boolean {
  let growth = 1;
  const visit = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(visit);
    if (!isObject(value)) return true;
    if (typeof value.content === "string") growth *= Math.max(1, value.content.length);
    if (typeof value.prepend === "string") growth *= Math.max(1, value.prepend.length);
    return Object.entries(value).every(([key, inner]) =>
      key === "Regex" ? typeof inner === "string" && TRUSTED.has(inner) : visit(inner),
    );
  };
  return visit(part) && growth <= MOST_GROWTH;
}

/**
 * What normalizes as a part says.
 * @param original the part as its file has it, by which it is trusted
 * @param said the same in the words of the package
 * @throws {CheckpointError} if it is not valid
 */
export function makeNormalizer(original: Part | undefined, said: Part | undefined): (text: string) => string {
  if (!said) return (text) => text;
  const { normalizer } = makeParts({ normalizer: said });
  if (isTrusted(original)) return (text) => normalizer?.normalize(text) ?? text;
  const json = JSON.stringify(said);
  return (text) => bounded(text, (seconds) => guardedText("normalize", [json, text], seconds));
}

/** What splits as a part says: the pieces of a text, of which the first may be special. Parameters as above. */
export function makeSplitter(
  original: Part | undefined,
  said: Part | undefined,
): (text: string, isFirst: boolean) => string[] {
  if (!said) return (text) => [text];
  const { preTokenizer } = makeParts({ preTokenizer: said });
  const split = isTrusted(original)
    ? (text: string, isFirst: boolean) =>
        preTokenizer?.pre_tokenize_text(text, { section_index: isFirst ? 0 : 1 }) ?? [text]
    : guardedSplitter(JSON.stringify(said));
  return (text, isFirst) => split(text, isFirst).filter(Boolean);
}

function guardedSplitter(json: string): (text: string, isFirst: boolean) => string[] {
  return (text, isFirst) => bounded(text, (seconds) => guardedText("split", [json, text, isFirst], seconds));
}

/** Characters a second that the slowest sound tokenizer reads at least. */
const SLOWEST = 20_000;
const SECONDS = 10;

function bounded<T>(text: string, work: (seconds: number) => T): T {
  try {
    return work(Math.ceil(SECONDS + text.length / SLOWEST));
  } catch (error) {
    if (!(error instanceof GuardError)) throw error;
    const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text);
    throw new CheckpointError(
      `the tokenizer ${error.message} over ${shown}; an expression in its tokenizer.json is broken or was made to hang`,
      {},
      error,
    );
  }
}
