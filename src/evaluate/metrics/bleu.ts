// BLEU of a corpus, equal to sacreBLEU 2.6.0's. Papineni et al., ACL 2002; smoothing: Chen and Cherry, WMT 2014.
import { RecipeError } from "../../core/index.js";
import { type BleuTokenizer, bleuTokenizer, type Pieces } from "./bleu-tokenizers.js";
import { stripEnd } from "./python-text.js";
import { countNgrams, formatSignature, type References, referenceCount, referencesOf, sumVectors } from "./segments.js";

export type BleuSmoothing = "none" | "floor" | "add-k" | "exp";

export interface BleuOptions {
  /** How lines are cut into tokens; default "13a". Case is kept unless `lowercase`. */
  readonly tokenize?: BleuTokenizer;
  /** The pieces of the subword model, which "flores101" and "flores200" need; see `loadPieces`. */
  readonly pieces?: Pieces;
  /** Compare without case; default false. */
  readonly lowercase?: boolean;
  /** What an order without a match counts as; default "exp": each such order doubles s, precision 100 / (s total). */
  readonly smoothing?: BleuSmoothing;
  /** The constant of "floor" (default 0.1) and "add-k" (default 1). */
  readonly smoothingValue?: number;
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
  /** Tokens of the references; of several, the one closest in length. */
  readonly referenceLength: number;
  /** How the score was made, as sacreBLEU prints it. */
  readonly signature: string;
}

const ORDERS = 4;
const DEFAULT_VALUES = { none: undefined, floor: 0.1, "add-k": 1, exp: undefined } as const;
/** What sacreBLEU takes for the logarithm of zero. */
const LOG_ZERO = -9999999999;

/**
 * BLEU of a corpus: clipped n-gram counts summed over all lines, then combined.
 * @param references one per hypothesis, or streams of references, each as long as the hypotheses
 * @throws RecipeError where counts of lines differ, or a tokenizer is unknown or lacks its model
 */
export function corpusBleu(
  hypotheses: readonly string[],
  references: References,
  options: BleuOptions = {},
): BleuScore {
  const lines = referencesOf(hypotheses, references);
  const statistics = bleuStatistics(options);
  const sums = sumVectors(hypotheses.map((hypothesis, i) => statistics(hypothesis, lines[i] ?? [])));
  return bleuFromStatistics(sums, options, referenceCount(lines));
}

/**
 * What a line contributes: [hypothesis length, reference length, four counts, four totals]. The sum over lines makes
 * the score of any set of them, which is what a bootstrap needs.
 */
export function bleuStatistics(
  options: BleuOptions = {},
): (hypothesis: string, references: readonly string[]) => number[] {
  const tokenize = bleuTokenizer(options.tokenize ?? "13a", options.pieces);
  const prepare = (line: string) => tokenize(stripEnd(options.lowercase ? line.toLowerCase() : line));
  return (hypothesis, references) => {
    const tokens = prepare(hypothesis);
    const others = references.map(prepare);
    const distance = (length: number) => Math.abs(length - tokens.length);
    // The reference length closest to the hypothesis', the shorter one of two that are equally close.
    const [length = 0] = others.map((other) => other.length).sort((a, b) => distance(a) - distance(b) || a - b);
    const counts: number[] = [];
    const totals: number[] = [];
    for (let order = 1; order <= ORDERS; order++) {
      const allowed = others.map((other) => countNgrams(other, order, " "));
      let count = 0;
      for (const [ngram, times] of countNgrams(tokens, order, " ")) {
        count += Math.min(times, Math.max(...allowed.map((one) => one.get(ngram) ?? 0)));
      }
      counts.push(count);
      totals.push(Math.max(0, tokens.length - order + 1));
    }
    return [tokens.length, length, ...counts, ...totals];
  };
}

/** The score that summed statistics make. `nrefs` is for the signature. */
export function bleuFromStatistics(sums: readonly number[], options: BleuOptions = {}, nrefs = "1"): BleuScore {
  const smoothing = options.smoothing ?? "exp";
  if (!Object.hasOwn(DEFAULT_VALUES, smoothing)) {
    throw new RecipeError(`unknown smoothing ${smoothing}; it must be none, floor, add-k or exp`, [], {
      field: "smoothing",
    });
  }
  const value = options.smoothingValue ?? DEFAULT_VALUES[smoothing] ?? 0;
  const [hypothesisLength = 0, referenceLength = 0] = sums;
  const counts = sums.slice(2, 2 + ORDERS);
  const totals = sums.slice(2 + ORDERS, 2 + 2 * ORDERS);
  const signature = formatSignature({
    nrefs,
    case: options.lowercase ? "lc" : "mixed",
    eff: options.effectiveOrder ? "yes" : "no",
    tok: options.tokenize ?? "13a",
    smooth: DEFAULT_VALUES[smoothing] === undefined ? smoothing : `${smoothing}[${value.toFixed(2)}]`,
  });
  const isShort = hypothesisLength < referenceLength;
  const brevityPenalty = !isShort ? 1 : hypothesisLength > 0 ? Math.exp(1 - referenceLength / hypothesisLength) : 0;
  const precisions: number[] = new Array(ORDERS).fill(0);
  const common = { precisions, counts, totals, brevityPenalty, hypothesisLength, referenceLength, signature };
  if (counts.every((count) => count === 0)) return { score: 0, ...common };

  let halving = 1;
  let orders = ORDERS;
  for (let i = 0; i < ORDERS; i++) {
    const added = smoothing === "add-k" && i > 0 ? value : 0;
    const count = (counts[i] ?? 0) + added;
    const total = (totals[i] ?? 0) + added;
    counts[i] = count;
    totals[i] = total;
    if (total === 0) break;
    if (options.effectiveOrder) orders = i + 1;
    if (count > 0) precisions[i] = (100 * count) / total;
    else if (smoothing === "exp") {
      halving *= 2;
      precisions[i] = 100 / (halving * total);
    } else if (smoothing === "floor") precisions[i] = (100 * value) / total;
  }
  const logs = precisions.slice(0, orders).map((precision) => (precision === 0 ? LOG_ZERO : Math.log(precision)));
  const score = brevityPenalty * Math.exp(logs.reduce((sum, log) => sum + log, 0) / orders);
  return { score, ...common };
}
