// chrF and chrF++ of a corpus, equal to sacreBLEU 2.6.0's. Popovic, WMT 2015 and 2017.
import { words } from "./python-text.js";
import { countNgrams, formatSignature, type References, referenceCount, referencesOf, sumVectors } from "./segments.js";

export interface ChrfOptions {
  /** Longest character n-gram; default 6. */
  readonly characterOrder?: number;
  /** Longest word n-gram; default 0, which is chrF; 2 is chrF++. */
  readonly wordOrder?: number;
  /** How many times recall counts what precision does; default 2. */
  readonly beta?: number;
  /** Compare without case; default false. */
  readonly lowercase?: boolean;
  /** Let character n-grams hold white space; default false. */
  readonly whitespace?: boolean;
  /** Average over all orders, absent ones as 1e-16, as chrF++.py does; default false: over orders that occur. */
  readonly epsilonSmoothing?: boolean;
}

export interface ChrfScore {
  /** From 0 to 100. */
  readonly score: number;
  /** `chrF2`, `chrF2++`: beta, and a + per order of words. */
  readonly name: string;
  /** How the score was made, as sacreBLEU prints it. */
  readonly signature: string;
}

/** chrF++ is chrF with words up to two. */
export const CHRF_PLUS_PLUS: ChrfOptions = { wordOrder: 2 };

const EPSILON = 1e-16;
/** Python's string.punctuation. */
const PUNCTUATION = new Set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");

/**
 * chrF of a corpus: n-gram matches summed over all lines, of several references the best one per line.
 * @param references one per hypothesis, or streams of references, each as long as the hypotheses
 * @throws RecipeError where counts of lines differ
 */
export function corpusChrf(
  hypotheses: readonly string[],
  references: References,
  options: ChrfOptions = {},
): ChrfScore {
  const lines = referencesOf(hypotheses, references);
  const statistics = chrfStatistics(options);
  const sums = sumVectors(hypotheses.map((hypothesis, i) => statistics(hypothesis, lines[i] ?? [])));
  return chrfFromStatistics(sums, options, referenceCount(lines));
}

/** What a line contributes: per order, n-grams of the hypothesis, of the reference, and in both; characters first. */
export function chrfStatistics(
  options: ChrfOptions = {},
): (hypothesis: string, references: readonly string[]) => number[] {
  const ngrams = (line: string) => ngramsOf(options.lowercase ? line.toLowerCase() : line, options);
  return (hypothesis, references) => {
    const own = ngrams(hypothesis);
    let best: { score: number; statistics: number[] } = { score: -1, statistics: [] };
    for (const reference of references) {
      const others = ngrams(reference);
      const statistics = own.flatMap((counts, order) => matches(counts, others[order] ?? new Map()));
      const score = fScore(statistics, options);
      if (score > best.score) best = { score, statistics };
    }
    return best.statistics;
  };
}

/** The score that summed statistics make. `nrefs` is for the signature. */
export function chrfFromStatistics(sums: readonly number[], options: ChrfOptions = {}, nrefs = "1"): ChrfScore {
  const { characterOrder = 6, wordOrder = 0, beta = 2 } = options;
  return {
    score: fScore(sums, options),
    name: `chrF${beta}${"+".repeat(wordOrder)}`,
    signature: formatSignature({
      nrefs,
      case: options.lowercase ? "lc" : "mixed",
      eff: options.epsilonSmoothing ? "no" : "yes",
      nc: characterOrder,
      nw: wordOrder,
      space: options.whitespace ? "yes" : "no",
    }),
  };
}

function ngramsOf(line: string, { characterOrder = 6, wordOrder = 0, whitespace }: ChrfOptions): Map<string, number>[] {
  const letters = [...(whitespace ? line : words(line).join(""))];
  const byCharacters = Array.from({ length: characterOrder }, (_, i) => countNgrams(letters, i + 1, ""));
  if (wordOrder === 0) return byCharacters;
  const separated = words(line).flatMap(separatePunctuation);
  return [...byCharacters, ...Array.from({ length: wordOrder }, (_, i) => countNgrams(separated, i + 1, " "))];
}

/** One sign of punctuation goes off a word: from its end or, where there is none, from its beginning. */
function separatePunctuation(word: string): string[] {
  const letters = [...word];
  if (letters.length === 1) return [word];
  const [first = "", last = ""] = [letters[0], letters.at(-1)];
  if (PUNCTUATION.has(last)) return [letters.slice(0, -1).join(""), last];
  if (PUNCTUATION.has(first)) return [first, letters.slice(1).join("")];
  return [word];
}

function matches(own: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): [number, number, number] {
  let [all, both, others] = [0, 0, 0];
  for (const [ngram, count] of own) {
    all += count;
    both += Math.min(count, other.get(ngram) ?? 0);
  }
  for (const count of other.values()) others += count;
  // N-grams of an order that the reference is too short for do not count as misses.
  return [other.size > 0 ? all : 0, others, both];
}

function fScore(statistics: readonly number[], { beta = 2, epsilonSmoothing }: ChrfOptions): number {
  const factor = beta ** 2;
  const orders = statistics.length / 3;
  let [smoothed, precisions, recalls, present] = [0, 0, 0, 0];
  for (let order = 0; order < orders; order++) {
    const [own = 0, other = 0, both = 0] = statistics.slice(3 * order, 3 * order + 3);
    const precision = own > 0 ? both / own : EPSILON;
    const recall = other > 0 ? both / other : EPSILON;
    const denominator = factor * precision + recall;
    smoothed += denominator > 0 ? ((1 + factor) * precision * recall) / denominator : EPSILON;
    if (own > 0 && other > 0) {
      precisions += precision;
      recalls += recall;
      present++;
    }
  }
  if (epsilonSmoothing) return (100 * smoothed) / orders;
  const precision = present === 0 ? 0 : precisions / present;
  const recall = present === 0 ? 0 : recalls / present;
  return precision + recall === 0 ? 0 : (100 * ((1 + factor) * precision * recall)) / (factor * precision + recall);
}
