// The best low-rank approximation of a matrix, in float64: from sketches where the rank is small beside the matrix, else
// from all of its singular values.

import type { Kernels } from "../../kernels/index.js";
import type { Random } from "../../kit/index.js";
import { decomposeExactly, eigenBytes, exactKernelBytes } from "./exact-decomposition.js";
import { PANEL } from "./panels.js";
import { BATCH, type RowSource } from "./row-batches.js";
import { Sketch } from "./sketch.js";

/** A matrix as left [rows, rank] times right [rank, columns], row-major. */
export interface LowRankFactors {
  readonly rank: number;
  readonly left: Float32Array;
  readonly right: Float32Array;
  /** Squared Frobenius norm that each rank adds, largest first, [rank]. */
  readonly gains: Float64Array;
}

export interface LowRankOptions {
  /** Largest rank. */
  readonly rank: number;
  /** Share of the squared norm to keep with the smallest rank that does; 1 for all of `rank`. */
  readonly energy: number;
  readonly random: Random;
}

// Directions beyond the rank: with them the last ones that are kept converge, too.
const EXTRA = 16;
// The first rank of a search.
const FIRST_SEARCH = 64;
// Sketches with more than this share of the smaller side take longer than the exact decomposition.
const MAX_SKETCHED = 1 / 3;

const isSketched = (rank: number, { rows, columns }: Pick<RowSource, "rows" | "columns">) =>
  rank + EXTRA <= MAX_SKETCHED * Math.min(rows, columns);

/** Bytes that an approximation of this rank needs. */
export function lowRankBytes(matrix: Pick<RowSource, "rows" | "columns">, rank: number): number {
  const { rows, columns } = matrix;
  const smaller = Math.min(rows, columns);
  const most = Math.min(rank, smaller);
  const factors = 4 * most * (rows + columns);
  if (!isSketched(most, matrix)) return 8 * (5 * smaller ** 2 + columns * (smaller + BATCH)) + factors;
  const size = most + EXTRA;
  return 8 * (2 * columns * size + 3 * size ** 2 + BATCH * (columns + size)) + 4 * rows * size + factors;
}

/** Bytes of these that are memory of kernels, which has 4 GiB. */
export function lowRankKernelBytes(matrix: Pick<RowSource, "rows" | "columns">, rank: number): number {
  const { rows, columns } = matrix;
  const most = Math.min(rank, rows, columns);
  if (!isSketched(most, matrix)) return exactKernelBytes(matrix, most);
  const size = most + EXTRA;
  const held = 8 * (2 * columns * size + BATCH * (columns + size));
  return held + Math.max(eigenBytes(size), 8 * most * (size + PANEL));
}

/** Approximates a matrix. The result depends on its values and the random numbers alone. */
export function lowRank(kernels: Kernels, matrix: RowSource, options: LowRankOptions): LowRankFactors {
  const { energy, random } = options;
  const most = Math.min(options.rank, matrix.rows, matrix.columns);
  const target = energy * matrix.squares;
  const rankFor = (gains: Float64Array) => (energy < 1 ? smallestRank(gains, target) : most);
  let rank = energy < 1 ? Math.min(FIRST_SEARCH, most) : most;
  for (let known: readonly Float64Array[] = []; isSketched(rank, matrix); ) {
    const found = kernels.borrow(() => {
      const sketch = new Sketch(kernels, matrix, rank + EXTRA);
      sketch.start(known, random);
      sketch.iterate();
      const { values, vectors } = sketch.solve();
      const gains = values.subarray(0, rank);
      const kept = rankFor(gains) ?? (rank === most ? most : undefined);
      return kept === undefined ? { gains, directions: sketch.directions() } : sketch.factors(values, vectors, kept);
    });
    if ("left" in found) return found;
    known = found.directions;
    rank = Math.min(most, nextRank(found.gains, target));
  }
  return kernels.borrow(() => decomposeExactly(kernels, matrix, (gains) => Math.min(most, rankFor(gains) ?? most)));
}

/** The smallest number of leading entries whose sum reaches a target; undefined if none does. */
function smallestRank(gains: Float64Array, target: number): number | undefined {
  let sum = 0;
  for (const [i, gain] of gains.entries()) {
    sum += gain;
    if (sum >= target) return i + 1;
  }
  return undefined;
}

/** The rank to try after one that keeps too little. */
function nextRank(gains: Float64Array, target: number): number {
  const sum = gains.reduce((total, gain) => total + gain, 0);
  // No further rank adds more than the last one, so at least this many are missing.
  const missing = Math.ceil((target - sum) / (gains.at(-1) ?? 0));
  return Math.max(2 * gains.length, gains.length + missing);
}
