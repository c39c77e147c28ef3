// BLEU of a corpus, equal to sacreBLEU 2.6.0's. Papineni et al., ACL 2002; smoothing: Chen and Cherry, WMT 2014.
import { type BleuTokenizer, bleuTokenizer } from "./bleu-tokenizers.js";
import { countNgrams, formatSignature, stripEnd, sumOverLines } from "./segments.js";

export interface BleuOptions {
  /** How lines are cut into tokens; default "13a". Case is kept. */
  readonly tokenize?: BleuTokenizer;
  /** Leave out orders that the hypotheses are too short for; default false. For single sentences. */
  readonly effectiveOrder?: boolean;
}

export interface BleuScore {
  /** From 0 to 100. */
  readonly score: number;
  /** Of 1-grams to 4-grams, in percent. */
  readonly precisions: readonly number[];
  /** N-grams of the hypotheses that occur in the references, by order. */
  readonly counts: readonly number[];
  /** N-grams of the hypotheses, by order. */
  readonly totals: readonly number[];
  /** exp(1 - referenceLength / hypothesisLength) where the hypotheses are shorter, else 1. */
  readonly brevityPenalty: number;
  /** Tokens of the hypotheses. */
  readonly hypothesisLength: number;
  /** Tokens of the references. */
  readonly referenceLength: number;
  /** How the score was made, as sacreBLEU prints it. */
  readonly signature: string;
}

const ORDERS = 4;
/** What sacreBLEU takes for the logarithm of zero. */
const LOG_ZERO = -9999999999;

/**
 * BLEU of a corpus: clipped n-gram counts summed over all lines, then combined. An order without a match is smoothed
 * as sacreBLEU does by default ("exp"): each such order doubles s, and its precision is 100 / (s total).
 * @param references one per hypothesis
 * @throws RecipeError where counts of lines differ, or the tokenizer is unknown
 */
export function corpusBleu(
  hypotheses: readonly string[],
  references: readonly string[],
  options: BleuOptions = {},
): BleuScore {
  return bleuFromStatistics(sumOverLines(hypotheses, references, bleuStatistics(options)), options);
}

/**
 * What a line contributes: [hypothesis length, reference length, four counts, four totals]. The sum over lines makes
 * the score of any set of them, which is what a bootstrap needs.
 */
export function bleuStatistics(options: BleuOptions = {}): (hypothesis: string, reference: string) => number[] {
  const tokenize = bleuTokenizer(options.tokenize ?? "13a");
  return (hypothesis, reference) => {
    const [tokens, others] = [tokenize(stripEnd(hypothesis)), tokenize(stripEnd(reference))];
    const counts: number[] = [];
    const totals: number[] = [];
    for (let order = 1; order <= ORDERS; order++) {
      const allowed = countNgrams(others, order, " ");
      let count = 0;
      for (const [ngram, times] of countNgrams(tokens, order, " ")) count += Math.min(times, allowed.get(ngram) ?? 0);
      counts.push(count);
      totals.push(Math.max(0, tokens.length - order + 1));
    }
    return [tokens.length, others.length, ...counts, ...totals];
  };
}

/** The score that summed statistics make. */
export function bleuFromStatistics(sums: readonly number[], options: BleuOptions = {}): BleuScore {
  const [hypothesisLength = 0, referenceLength = 0] = sums;
  const counts = sums.slice(2, 2 + ORDERS);
  const totals = sums.slice(2 + ORDERS, 2 + 2 * ORDERS);
  const signature = formatSignature({
    case: "mixed",
    eff: options.effectiveOrder ? "yes" : "no",
    tok: options.tokenize ?? "13a",
    smooth: "exp",
  });
  const isShort = hypothesisLength < referenceLength;
  const brevityPenalty = !isShort ? 1 : hypothesisLength > 0 ? Math.exp(1 - referenceLength / hypothesisLength) : 0;
  const precisions: number[] = new Array(ORDERS).fill(0);
  const common = { precisions, counts, totals, brevityPenalty, hypothesisLength, referenceLength, signature };
  if (counts.every((count) => count === 0)) return { score: 0, ...common };

  let smoothing = 1;
  let orders = ORDERS;
  for (let i = 0; i < ORDERS; i++) {
    const [count = 0, total = 0] = [counts[i], totals[i]];
    if (total === 0) break;
    if (options.effectiveOrder) orders = i + 1;
    if (count === 0) smoothing *= 2;
    precisions[i] = count > 0 ? (100 * count) / total : 100 / (smoothing * total);
  }
  const logs = precisions.slice(0, orders).map((precision) => (precision === 0 ? LOG_ZERO : Math.log(precision)));
  const score = brevityPenalty * Math.exp(logs.reduce((sum, log) => sum + log, 0) / orders);
  return { score, ...common };
}
