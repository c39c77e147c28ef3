// From logits to the next token: greedy, or sampled with temperature, top-k, top-p and min-p. In linear time, as sorting the
// vocabulary would take longer than a small model.
import { type Random, usageError } from "../kit/index.js";

export interface SamplingOptions {
  /** Divides the logits before sampling. Default: 0, which takes the most likely token. */
  readonly temperature?: number | undefined;
  /** Sample from the k most likely tokens. Default: all. */
  readonly topK?: number | undefined;
  /** Sample from the most likely tokens that together have this probability (arXiv 1904.09751). Default: 1. */
  readonly topP?: number | undefined;
  /** Sample from tokens whose probability is at least this share of the highest one's (arXiv 2407.01082). Default: 0. */
  readonly minP?: number | undefined;
}

/**
 * Samples a token. Top-k is applied before top-p, and min-p last. Ties are ordered by id, so the result depends only on logits and random
 * numbers.
 * @returns undefined if a logit is not a number
 */
export function sampleToken(
  logits: Float32Array,
  { temperature = 0, topK = logits.length, topP = 1, minP = 0 }: SamplingOptions,
  random: Pick<Random, "float">,
): number | undefined {
  const best = largest(logits);
  if (best === undefined || temperature === 0) return best;
  const most = logits[best] as number;
  const shares = new Float64Array(logits.length);
  for (let id = 0; id < shares.length; id++) shares[id] = Math.exp(((logits[id] as number) - most) / temperature);
  if (topK < shares.length) keepOnly(shares, first(shares, topK, Number.POSITIVE_INFINITY));
  if (topP < 1) keepOnly(shares, first(shares, shares.length, topP * total(shares)));
  // The largest share is 1.
  if (minP > 0) for (let id = 0; id < shares.length; id++) if ((shares[id] as number) < minP) shares[id] = 0;
  let rest = random.float() * total(shares);
  for (let id = 0; id < shares.length; id++) {
    rest -= shares[id] as number;
    if (rest < 0) return id;
  }
  return best;
}

/** Ids of the `count` largest logits, the largest first. */
export function mostLikely(logits: Float32Array, count: number): number[] {
  if (count === 0) return [];
  const best = count === 1 ? largest(logits) : undefined;
  if (best !== undefined) return [best];
  const values = new Float64Array(logits);
  // NaN is less likely than everything.
  for (let id = 0; id < values.length; id++) if (Number.isNaN(values[id])) values[id] = Number.NEGATIVE_INFINITY;
  const found = first(values, count, Number.POSITIVE_INFINITY);
  // The difference of infinities is NaN; the order is then by id.
  return found.sort((a, b) => (values[b] as number) - (values[a] as number) || a - b);
}

/** Natural log-probabilities of the most likely tokens. */
export function topLogprobs(logits: Float32Array, count: number): { id: number; logprob: number }[] {
  const order = mostLikely(logits, Math.min(count, logits.length));
  const most = logits[order[0] as number] as number;
  const mass = logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0);
  return order.map((id) => ({ id, logprob: (logits[id] as number) - most - Math.log(mass) }));
}

/** How likely a token of a text is, and the most likely ones in its place; natural log-probabilities. */
export interface TokenScores {
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

/** The scores of a token from its logits and its log-probability. @param count number of most likely tokens */
export function scoresAt(logits: Float32Array, id: number, count: number, logprob: number): TokenScores {
  const mass = (logits[id] as number) - logprob;
  const top = mostLikely(logits, Math.min(count, logits.length)).map((other) => ({
    id: other,
    // Exactly the same, as a token is the most likely one where its number is the largest.
    logprob: other === id ? logprob : (logits[other] as number) - mass,
  }));
  return { logprob, top };
}

/** Index of the largest logit, the first where several are equal; undefined if one is not a number. */
function largest(logits: Float32Array): number | undefined {
  let best = 0;
  for (let id = 0; id < logits.length; id++) {
    if (Number.isNaN(logits[id])) return undefined;
    if ((logits[id] as number) > (logits[best] as number)) best = id;
  }
  return best;
}

/** Indices of the largest values, the first of equal ones: at least one, until there are `count` or they reach `mass`. */
function first(values: Float64Array, count: number, mass: number): number[] {
  const least = boundary(values, count, mass);
  const found: number[] = [];
  let sum = 0;
  for (let at = 0; at < values.length; at++) {
    const value = values[at] as number;
    if (!(value > least)) continue;
    found.push(at);
    sum += value;
  }
  for (let at = 0; at < values.length && found.length < count && (sum < mass || found.length === 0); at++) {
    if (values[at] !== least) continue;
    found.push(at);
    sum += least;
  }
  return found;
}

/**
 * The smallest of the largest values that together are `count` or reach `mass`: Hoare's quickselect, with a sum next to the
 * count.
 */
function boundary(values: Float64Array, count: number, mass: number): number {
  // Only the first `length` values are still candidates.
  const candidates = values.slice();
  let length = candidates.length;
  let pivot = Number.NaN;
  let [taken, sum] = [0, 0];
  while (length > 0) {
    pivot = candidates[length >> 1] as number;
    let [above, equal, reached] = [0, 0, sum];
    for (let i = 0; i < length; i++) {
      const value = candidates[i] as number;
      if (value > pivot) {
        above++;
        reached += value;
      } else if (value === pivot) equal++;
    }
    const isAbove = above > 0 && (taken + above >= count || reached >= mass);
    if (!isAbove) {
      taken += above + equal;
      sum = reached + equal * pivot;
      if (taken >= count || sum >= mass) break;
    }
    let kept = 0;
    for (let i = 0; i < length; i++) {
      const value = candidates[i] as number;
      if (isAbove ? value > pivot : value < pivot) candidates[kept++] = value;
    }
    length = kept;
  }
  return pivot;
}

/** Sets all other values to 0. */
function keepOnly(values: Float64Array, kept: readonly number[]): void {
  const copies = kept.map((at) => values[at] as number);
  values.fill(0);
  for (const [i, at] of kept.entries()) values[at] = copies[i] as number;
}

function total(values: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number;
  return sum;
}

/** @throws LayergraftError if an option that is given is not a whole number, or too small */
export function requireWhole(options: Readonly<Record<string, number | undefined>>, least: number): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) continue;
    throw usageError(`${name} is ${value}; it must be a whole number, at least ${least}`);
  }
}

/** @throws LayergraftError if an option that is given is not a number from 0 to `most` */
export function requireNumber(options: Readonly<Record<string, number | undefined>>, most: number): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || (Number.isFinite(value) && value >= 0 && value <= most)) continue;
    const range = Number.isFinite(most) ? ` from 0 to ${most}` : ", at least 0";
    throw usageError(`${name} is ${value}; it must be a number${range}`);
  }
}
