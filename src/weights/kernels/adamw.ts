// One step of AdamW in plain TypeScript: what the kernels of assembly/adamw.ts compute, bit for bit, and what they are
// tested against. Not the optimizer, which knows parameters by name and is in train/.
//
// Loshchilov & Hutter, arXiv 1711.05101, algorithm 2, in the order of operations of torch.optim.AdamW (2.x, CPU, one
// tensor at a time): decay first, then
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = w - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)

/** What one step is made with. */
export interface AdamWSettings {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Weight decay, decoupled: the weights lose `learningRate * decay` of themselves. */
  readonly decay: number;
  /** How many steps these weights will have made after this one, counted from 1. */
  readonly step: number;
  /** What the gradient is multiplied by first: clipping, and the mean over accumulated batches. */
  readonly scale: number;
}

/** The numbers that the inner loop multiplies by, each rounded to float32 once. */
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

/** Coefficients of a step; powers and roots are taken in float64. */
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

/** One step in place on the elements from `begin`; the gradient stays as it is. */
export function adamw(arrays: AdamWArrays, coefficients: AdamWCoefficients, begin = 0): void {
  const { weights, gradient, first, second } = arrays;
  const { scale, keep, mixM, keepV, mixV, correctV, epsilon, rate } = coefficients;
  for (let i = begin; i < weights.length; i++) {
    const g = f((gradient[i] ?? 0) * scale);
    const oldM = first[i] ?? 0;
    const m = f(oldM + f(mixM * f(g - oldM)));
    const v = f(f((second[i] ?? 0) * keepV) + f(f(mixV * g) * g));
    const root = f(f(f(Math.sqrt(v)) * correctV) + epsilon);
    first[i] = m;
    second[i] = v;
    weights[i] = f(f((weights[i] ?? 0) * keep) - f(f(rate * m) / root));
  }
}

/** Elements that are summed up together; the order of a sum must not depend on how much memory there is. */
export const SUM_BLOCK = 32_768;

/** a = a + b in float32, from `begin`. */
export function add(a: Float32Array, b: Float32Array, begin = 0): void {
  for (let i = begin; i < a.length; i++) a[i] = (a[i] ?? 0) + (b[i] ?? 0);
}

/**
 * Adds rows [N, D] to the rows of a matrix [V, D] that `ids` name, one after the other; the same row may be named often.
 * Plain loops only: a batch names few rows, and they are far apart.
 * @throws RangeError if a row is named that the matrix does not have
 */
export function addRows(dense: Float32Array, ids: ArrayLike<number>, rows: Float32Array, width: number): void {
  for (let n = 0; n < ids.length; n++) {
    const to = (ids[n] ?? 0) * width;
    if (!(to >= 0 && to + width <= dense.length)) throw new RangeError(`there is no row ${ids[n]}`);
    const from = n * width;
    for (let d = 0; d < width; d++) dense[to + d] = (dense[to + d] ?? 0) + (rows[from + d] ?? 0);
  }
}
