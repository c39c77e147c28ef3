// Core Space: Panariello et al., NeurIPS 2025, arXiv 2509.17786. Low-rank changes B_i A_i are the matrices U^T B_i A_i V in
// the space that all B and all A span; these are merged, and U and V^T lead back.
import { Kernels } from "../kernels/kernels.js";
import type { LowRankFactors } from "./low-rank.js";
import { decompose, mergeMatrix } from "./whole-matrix.js";

/** TIES within each matrix, Iso-C, TSV-M. */
export const CORE_RULES = ["ties", "iso", "tsv_m"] as const;

export interface CoreMerge {
  readonly rule: (typeof CORE_RULES)[number];
  /** Share of each matrix that `ties` keeps. */
  readonly density: number;
}

/**
 * Factors of the merged change, whose product is that of the result: A [rank, in] is V^T and B [out, rank] is U times the
 * merged matrix; zeros where the factors span less than `rank`.
 * @param a factors A_i [rank_i, in]
 * @param b factors B_i [out, rank_i], times their scales; none for the merged A alone
 * @param ranks rank of each; `rank` is their sum
 */
export function mergeInCoreSpace(
  a: readonly Float32Array[],
  b: readonly Float32Array[],
  ranks: readonly number[],
  merge: CoreMerge,
): Float32Array {
  const kernels = new Kernels();
  const rank = ranks.reduce((sum, own) => sum + own, 0);
  const input = (a[0]?.length ?? 0) / (ranks[0] ?? 1);
  const starts = ranks.map((_, i) => ranks.slice(0, i).reduce((sum, own) => sum + own, 0));
  const stackedA = new Float32Array(rank * input);
  for (const [i, values] of a.entries()) stackedA.set(values, (starts[i] as number) * input);
  const right = decompose(kernels, { rows: rank, columns: input, values: stackedA });
  const rootsA = rootsOf(right);
  if (b.length === 0) {
    const merged = new Float32Array(rank * input);
    right.right.forEach((x, at) => {
      merged[at] = x / (rootsA[Math.floor(at / input)] as number);
    });
    return merged;
  }
  const output = (b[0]?.length ?? 0) / (ranks[0] ?? 1);
  const stackedB = new Float32Array(output * rank);
  for (const [i, values] of b.entries()) {
    const [start = 0, own = 0] = [starts[i], ranks[i]];
    for (let row = 0; row < output; row++) {
      stackedB.set(values.subarray(row * own, (row + 1) * own), row * rank + start);
    }
  }
  const left = decompose(kernels, { rows: output, columns: rank, values: stackedB });
  const rootsB = rootsOf(left);
  const [u, v] = [left.rank, right.rank];
  // An adapter whose B is zero changes nothing there.
  if (u === 0 || v === 0) return new Float32Array(output * rank);
  // U^T [B_1 ... B_N] is its second factor times the roots, [A_1; ...; A_N] V the first.
  const cores = ranks.map((own, i) => {
    const core = new Float32Array(u * v);
    for (let row = 0; row < u; row++) {
      for (let column = 0; column < v; column++) {
        let sum = 0;
        for (let k = starts[i] as number; k < (starts[i] as number) + own; k++) {
          sum += (left.right[row * rank + k] as number) * (right.left[k * v + column] as number);
        }
        core[row * v + column] = sum * (rootsB[row] as number) * (rootsA[column] as number);
      }
    }
    return core;
  });
  const core = merge.rule === "ties" ? ties(cores, merge.density) : mergeMatrix(kernels, merge.rule, cores, v, 1);
  const merged = new Float32Array(output * rank);
  for (let row = 0; row < output; row++) {
    for (let column = 0; column < v; column++) {
      let sum = 0;
      for (let k = 0; k < u; k++) {
        sum += ((left.left[row * u + k] as number) / (rootsB[k] as number)) * (core[k * v + column] as number);
      }
      merged[row * rank + column] = sum;
    }
  }
  return merged;
}

/** Roots of the singular values, which the two factors share. */
const rootsOf = ({ gains }: LowRankFactors) => Array.from(gains, (gain) => Math.sqrt(Math.sqrt(gain)));

/** TIES: each matrix trimmed to its largest int(density n), signs elected, the mean of what agrees. arXiv 2306.01708. */
function ties(matrices: readonly Float32Array[], density: number): Float32Array {
  const n = matrices[0]?.length ?? 0;
  const kept = Math.floor(density * n);
  const trimmed = matrices.map((values) => {
    const least = kept === 0 ? Infinity : (values.map(Math.abs).sort()[n - kept] as number);
    return values.map((x) => (Math.abs(x) >= least ? x : 0));
  });
  const sums = Float64Array.from({ length: n }, (_, at) => trimmed.reduce((sum, values) => sum + (values[at] ?? 0), 0));
  const majority = Math.sign(sums.reduce((sum, x) => sum + Math.sign(x), 0));
  return Float32Array.from(sums, (sum, at) => {
    const sign = Math.sign(sum) || majority;
    const agreeing = trimmed.flatMap((values) => (Math.sign(values[at] ?? 0) === sign ? [values[at] as number] : []));
    return agreeing.length === 0 ? 0 : agreeing.reduce((total, x) => total + x, 0) / agreeing.length;
  });
}
