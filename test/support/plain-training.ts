// AdamW and sums in plain TypeScript, bit-identical to the SIMD kernels.
import type { AdamWArrays, AdamWCoefficients } from "../../src/kernels/adamw.js";

const f = Math.fround;

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

/** a = a + b in float32, from `begin`. */
export function add(a: Float32Array, b: Float32Array, begin = 0): void {
  for (let i = begin; i < a.length; i++) a[i] = (a[i] ?? 0) + (b[i] ?? 0);
}
