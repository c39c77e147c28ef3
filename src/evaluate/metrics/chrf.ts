// chrF and chrF++ of a corpus, equal to sacreBLEU 2.6.0's. Popovic, WMT 2015 and 2017.
import { countNgrams, formatSignature, sumOverLines, words } from "./segments.js";

export interface ChrfOptions {
  /** Longest word n-gram; default 0, which is chrF; 2 is chrF++. */
  readonly wordOrder?: number;
}

export interface ChrfScore {
  /** From 0 to 100. */
  readonly score: number;
  /** `chrF2`, `chrF2++`: beta, and a + for each order of words. */
  readonly name: string;
  /** How the score was made, as sacreBLEU prints it. */
  readonly signature: string;
}

/** chrF++ is chrF with words up to two. */
export const CHRF_PLUS_PLUS: ChrfOptions = { wordOrder: 2 };

/** Longest character n-gram. */
const CHARACTER_ORDER = 6;
/** How many times recall counts what precision does. */
const BETA = 2;
/** Python's string.punctuation. */
const PUNCTUATION = new Set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");

/**
 * chrF of a corpus: n-gram matches summed over all lines, averaged over the orders that occur.
 * @param references one per hypothesis
 * @throws RecipeError where counts of lines differ
 */
export function corpusChrf(
  hypotheses: readonly string[],
  references: readonly string[],
  options: ChrfOptions = {},
): ChrfScore {
  return chrfFromStatistics(sumOverLines(hypotheses, references, chrfStatistics(options)), options);
}

/** What a line contributes: per order, n-grams of the hypothesis, of the reference, and in both; characters first. */
export function chrfStatistics({
  wordOrder = 0,
}: ChrfOptions = {}): (hypothesis: string, reference: string) => number[] {
  return (hypothesis, reference) => {
    const others = ngramsOf(reference, wordOrder);
    return ngramsOf(hypothesis, wordOrder).flatMap((counts, order) => matches(counts, others[order] ?? new Map()));
  };
}

/** The score that summed statistics make. */
export function chrfFromStatistics(sums: readonly number[], { wordOrder = 0 }: ChrfOptions = {}): ChrfScore {
  return {
    score: fScore(sums),
    name: `chrF${BETA}${"+".repeat(wordOrder)}`,
    signature: formatSignature({ case: "mixed", eff: "yes", nc: CHARACTER_ORDER, nw: wordOrder, space: "no" }),
  };
}

function ngramsOf(line: string, wordOrder: number): Map<string, number>[] {
  const letters = [...words(line).join("")];
  const byCharacters = Array.from({ length: CHARACTER_ORDER }, (_, i) => countNgrams(letters, i + 1, ""));
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

function fScore(statistics: readonly number[]): number {
  let [precisions, recalls, present] = [0, 0, 0];
  for (let at = 0; at < statistics.length; at += 3) {
    const [own = 0, other = 0, both = 0] = statistics.slice(at, at + 3);
    if (own === 0 || other === 0) continue;
    precisions += both / own;
    recalls += both / other;
    present++;
  }
  if (precisions + recalls === 0) return 0;
  const [precision, recall] = [precisions / present, recalls / present];
  return (100 * ((1 + BETA ** 2) * precision * recall)) / (BETA ** 2 * precision + recall);
}
