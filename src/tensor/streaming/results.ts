// What pieces report, and its sums.
import { type Piece, RESULTS_PER_PIECE } from "./pieces.js";

export interface PieceResults {
  readonly pieces: readonly Piece[];
  /** `RESULTS_PER_PIECE` numbers per piece, in order. */
  readonly results: Float64Array;
}

/** The numbers of each job's pieces, in order. */
export function resultsByJob({ pieces, results }: PieceResults, jobs: number): Float64Array[][] {
  const lists = Array.from({ length: jobs }, (): Float64Array[] => []);
  pieces.forEach((piece, i) => {
    lists[piece.job]?.push(results.subarray(i * RESULTS_PER_PIECE, (i + 1) * RESULTS_PER_PIECE));
  });
  return lists;
}

/** Sums over the difference of two arrays, in the order in which pieces report them. */
export interface DeltaStatistics {
  /** Sum of |a - b| over the finite differences. */
  readonly sumAbsolute: number;
  /** Sum of (a - b)^2 over the finite differences. */
  readonly sumSquares: number;
  /** Sum of b^2 over the finite differences, to normalise the other sums. */
  readonly sumSquaresOfB: number;
  /** Largest finite |a - b|. */
  readonly largest: number;
  /** Elements whose difference is not zero, non-finite differences included. */
  readonly differing: number;
  /** Elements whose difference is infinite or NaN. */
  readonly nonFinite: number;
}

const LARGEST = 3;

/** Adds the numbers of a range to those of another, in place. */
export function addDelta(total: Float64Array, piece: Float64Array): Float64Array {
  const largest = Math.max(total[LARGEST] ?? 0, piece[LARGEST] ?? 0);
  addUp(total, piece)[LARGEST] = largest;
  return total;
}

/** The statistics of a delta job from those of its pieces. */
export function totalStatistics(pieces: readonly Float64Array[]): DeltaStatistics {
  const total = pieces.reduce((sum, piece) => addDelta(sum, piece), new Float64Array(6));
  const [sumAbsolute = 0, sumSquares = 0, sumSquaresOfB = 0, largest = 0, differing = 0, nonFinite = 0] = total;
  return { sumAbsolute, sumSquares, sumSquaresOfB, largest, differing, nonFinite };
}

/** How many elements differ, and the first that does (-1 for none), from the pieces of a comparing job. */
export function totalDifferences(pieces: readonly Float64Array[]): { differing: number; first: number } {
  const differing = pieces.reduce((sum, piece) => sum + (piece[0] ?? 0), 0);
  return { differing, first: pieces.find((piece) => (piece[1] ?? -1) >= 0)?.[1] ?? -1 };
}

/** Counters and their counts. Those of a piece fit 32 bits; their sums, of tensors with more than 2^32 elements, do not. */
export type CounterPairs = Uint32Array | Float64Array;

/** Merges the counts of two ranges; both, and the result, are key, count, ... by ascending key. */
export function addCounts(a: CounterPairs, b: CounterPairs): Float64Array {
  const sum = new Float64Array(a.length + b.length);
  let [i, j, at] = [0, 0, 0];
  while (i < a.length || j < b.length) {
    const [x, y] = [a[i] ?? Number.POSITIVE_INFINITY, b[j] ?? Number.POSITIVE_INFINITY];
    sum[at++] = Math.min(x, y);
    sum[at++] = (x <= y ? (a[i + 1] ?? 0) : 0) + (y <= x ? (b[j + 1] ?? 0) : 0);
    if (x <= y) i += 2;
    if (y <= x) j += 2;
  }
  return sum.subarray(0, at);
}

/** Adds numbers up in place, element by element. */
export function addUp(total: Float64Array, piece: Float64Array): Float64Array {
  for (let i = 0; i < total.length; i++) total[i] = (total[i] ?? 0) + (piece[i] ?? 0);
  return total;
}

export function concatenate<Rows extends Float32Array | Float64Array>(
  lists: readonly Rows[],
  List: new (length: number) => Rows,
): Rows {
  const all = new List(lists.reduce((sum, list) => sum + list.length, 0));
  let at = 0;
  for (const list of lists) {
    all.set(list, at);
    at += list.length;
  }
  return all;
}
