// From logits to the next token: greedy, or drawn from what temperature, top-k and top-p leave.
import type { Random } from "../core/random.js";

export interface SamplingOptions {
  /** Divides the logits; 0, the default, always takes the most likely token. */
  readonly temperature?: number | undefined;
  /** Only the k most likely tokens; default all. */
  readonly topK?: number | undefined;
  /** Only the most likely tokens that together reach this probability (arXiv 1904.09751); default 1, all. */
  readonly topP?: number | undefined;
}

/** Draws a token. Ties are ordered by id, so equal logits and equal chance give equal tokens. */
export function sampleToken(logits: Float32Array, options: SamplingOptions, random: Random): number {
  const { temperature = 0, topK = logits.length, topP = 1 } = options;
  if (temperature === 0) return largest(logits);
  const order = mostLikely(logits, Math.max(1, Math.min(topK, logits.length)));
  const most = logits[order[0] as number] as number;
  const shares = order.map((id) => Math.exp(((logits[id] as number) - most) / temperature));
  const total = shares.reduce((sum, share) => sum + share, 0);
  let kept = 0;
  let mass = 0;
  // The token that crosses the line still belongs to the nucleus.
  while (kept < shares.length && mass < topP * total) mass += shares[kept++] as number;
  let rest = random.float() * mass;
  for (let i = 0; i < kept; i++) {
    rest -= shares[i] as number;
    if (rest < 0) return order[i] as number;
  }
  return order[Math.max(0, kept - 1)] as number;
}

function largest(logits: Float32Array): number {
  let best = 0;
  for (let id = 1; id < logits.length; id++) if ((logits[id] as number) > (logits[best] as number)) best = id;
  return best;
}

/** Ids of the `count` largest logits, the largest first. */
export function mostLikely(logits: Float32Array, count: number): number[] {
  const before = (a: number, b: number) => (logits[b] as number) - (logits[a] as number) || a - b;
  if (count > FEW) return Array.from(logits.keys()).sort(before).slice(0, count);
  const found: number[] = [];
  for (let id = 0; id < logits.length; id++) {
    if (found.length === count && before(id, found.at(-1) as number) > 0) continue;
    let at = found.length;
    while (at > 0 && before(id, found[at - 1] as number) < 0) at--;
    found.splice(at, 0, id);
    if (found.length > count) found.pop();
  }
  return found;
}

// Above this, sorting all is faster than inserting one by one.
const FEW = 64;

/** Natural log-probabilities of the most likely tokens. */
export function topLogprobs(logits: Float32Array, count: number): { id: number; logprob: number }[] {
  const order = mostLikely(logits, Math.min(count, logits.length));
  const most = logits[order[0] as number] as number;
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0);
  return order.map((id) => ({ id, logprob: (logits[id] as number) - most - Math.log(total) }));
}
