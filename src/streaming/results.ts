// What pieces report, put together per job. Sums are formed in the order of the pieces, so that they are the same on any
// number of threads.
import { addStatistics, type DeltaStatistics, NO_DELTA } from "../kernels/kernels.js";
import { type Piece, RESULTS_PER_PIECE } from "./program.js";

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

export function packStatistics(s: DeltaStatistics): readonly number[] {
  return [s.sumAbsolute, s.sumSquares, s.sumSquaresOfB, s.largest, s.differing, s.nonFinite];
}

function unpackStatistics(numbers: Float64Array): DeltaStatistics {
  const [sumAbsolute = 0, sumSquares = 0, sumSquaresOfB = 0, largest = 0, differing = 0, nonFinite = 0] = numbers;
  return { sumAbsolute, sumSquares, sumSquaresOfB, largest, differing, nonFinite };
}

/** The statistics of a delta job from those of its pieces. */
export function totalStatistics(pieces: readonly Float64Array[]): DeltaStatistics {
  return pieces.map(unpackStatistics).reduce(addStatistics, NO_DELTA);
}

/** How many elements differ, and the first that does (-1 for none), from the pieces of a comparing job. */
export function totalDifferences(pieces: readonly Float64Array[]): { differing: number; first: number } {
  const differing = pieces.reduce((sum, piece) => sum + (piece[0] ?? 0), 0);
  return { differing, first: pieces.find((piece) => (piece[1] ?? -1) >= 0)?.[1] ?? -1 };
}
