// Coefficients of a step of AdamW, and sums of rows.
//
// Loshchilov & Hutter, arXiv 1711.05101, algorithm 2, in the order of operations of torch.optim.AdamW (2.x, CPU, one
// tensor at a time): decay first, then
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = w - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)

/** Hyperparameters of one step. */
export interface AdamWSettings {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Weight decay, decoupled: the weights lose `learningRate * decay` of themselves. */
  readonly decay: number;
  /** Step number of these weights, from 1. */
  readonly step: number;
  /** Factor for the gradient: clipping, and the mean over accumulated batches. */
  readonly scale: number;
}

/** Factors of the inner loop, each rounded to float32 once. */
export interface AdamWCoefficients {
  readonly scale: number;
  readonly keep: number;
  readonly mixM: number;
  readonly keepV: number;
  readonly mixV: number;
  readonly correctV: number;
  readonly epsilon: number;
  readonly rate: number;
}

const f = Math.fround;

/** Coefficients of a step; powers and roots are computed in float64. */
export function adamwCoefficients(settings: AdamWSettings): AdamWCoefficients {
  const { learningRate, beta1, beta2, epsilon, decay, step, scale } = settings;
  return {
    scale: f(scale),
    keep: f(1 - learningRate * decay),
    mixM: f(1 - beta1),
    keepV: f(beta2),
    mixV: f(1 - beta2),
    correctV: f(1 / Math.sqrt(1 - beta2 ** step)),
    epsilon: f(epsilon),
    rate: f(learningRate / (1 - beta1 ** step)),
  };
}

/** Weights, their gradient and the two moments, of one length. */
export interface AdamWArrays {
  readonly weights: Float32Array;
  readonly gradient: Float32Array;
  readonly first: Float32Array;
  readonly second: Float32Array;
}

/** Elements per partial sum; fixed, so the order of a sum does not depend on memory. */
export const SUM_BLOCK = 32_768;

/**
 * Adds rows [N, D] to the rows `ids` of a matrix [V, D], in order; ids may repeat. Plain loops suffice: a batch has few
 * rows, far apart.
 * @throws RangeError if an id is not a row of the matrix
 */
export function addRows(dense: Float32Array, ids: ArrayLike<number>, rows: Float32Array, width: number): void {
  for (let n = 0; n < ids.length; n++) {
    const to = (ids[n] ?? 0) * width;
    if (!(to >= 0 && to + width <= dense.length)) throw new RangeError(`there is no row ${ids[n]}`);
    const from = n * width;
    for (let d = 0; d < width; d++) dense[to + d] = (dense[to + d] ?? 0) + (rows[from + d] ?? 0);
  }
}
