// Computes the factors of changed weights on threads, and keeps them in a file until their places are known.

import { open } from "node:fs/promises";
import { writeFully } from "../../kit/files/index.js";
import { CheckpointError, elementCount } from "../../kit/index.js";
import type { Resolver } from "../../tensor/expressions/index.js";
import {
  type Job,
  type LowRankFactors,
  type LowRankJob,
  memoryPerThread,
  type Program,
  resultsByJob,
  runProgram,
  type StreamOptions,
  totalStatistics,
} from "../../tensor/streaming/index.js";
import { changeOf, type ExtractOptions, isEmbedding, mostRank, type Pair } from "./plan-extraction.js";

// More than a merge's, as sketches of large weights at high ranks take more than streaming does.
const DECOMPOSITION_MEMORY = 1_000_000_000;

/** A tensor that differs from the base's, and the squared Frobenius norm of the difference. */
export interface ChangedPair extends Pair {
  readonly squaredChange: number;
}

/**
 * The tensors that differ from the base's.
 * @throws CheckpointError if values are infinite or NaN
 */
export async function measureChanges(
  pairs: readonly Pair[],
  resolver: Resolver,
  controls: StreamOptions,
): Promise<ChangedPair[]> {
  const jobs = pairs.map((pair): Job => {
    return { kind: "delta", name: pair.tensor, value: resolver.evaluation(changeOf(pair)) };
  });
  const program = { inputs: resolver.inputs, outputs: [], jobs };
  const results = resultsByJob(await runProgram(program, { ...controls, phase: "comparing" }), jobs.length);
  return pairs.flatMap((pair, i) => {
    const { sumSquares, nonFinite } = totalStatistics(results[i] ?? []);
    if (nonFinite > 0 || !Number.isFinite(sumSquares)) {
      const { tensor } = pair;
      throw new CheckpointError(
        `the change of ${tensor} has infinite or NaN values, so it has no low-rank approximation. Find them with diff.`,
        { tensor },
      );
    }
    return sumSquares > 0 ? [{ ...pair, squaredChange: sumSquares }] : [];
  });
}

/** Factors of a weight, as PEFT names them: A [rank, in] and then B [out, rank], float32, from a byte of the file. */
export interface StoredFactors {
  readonly rank: number;
  readonly offset: number;
  readonly gains: Float64Array;
}

/**
 * Decomposes changes.
 * @param path a new file for the factors
 * @returns by weight, in the order given
 * @throws CancelledError if the signal fires
 */
export async function decompose(
  changed: readonly ChangedPair[],
  path: string,
  resolver: Resolver,
  options: ExtractOptions,
): Promise<StoredFactors[]> {
  const { energy = 1, seed = 0 } = options;
  // Large weights first: one that begins last would keep a single thread busy.
  const order = [...changed.keys()].sort((a, b) => elementsOf(changed[b]) - elementsOf(changed[a]));
  const jobs = order.map((i): LowRankJob => {
    const pair = changed[i] as ChangedPair;
    const value = resolver.evaluation(changeOf(pair));
    const rank = mostRank(options, pair.shape);
    return { kind: "low-rank", name: pair.tensor, value, squares: pair.squaredChange, rank, energy, seed };
  });
  const program: Program = { inputs: resolver.inputs, outputs: [], jobs };
  const stored: StoredFactors[] = [];
  const handle = await open(path, "wx");
  const stop = new AbortController();
  let [end, writing, failure] = [0, Promise.resolve(), undefined as { readonly error: unknown } | undefined];
  const keep = (index: number, factors: LowRankFactors) => {
    const at = order[index] as number;
    const arrays = forPeft(factors, changed[at] as ChangedPair);
    const offset = end;
    end += arrays.reduce((sum, one) => sum + one.byteLength, 0);
    stored[at] = { rank: factors.rank, offset, gains: factors.gains };
    writing = writing
      .then(async () => {
        let place = offset;
        for (const array of arrays) {
          await writeFully(handle, array, place);
          place += array.byteLength;
        }
      })
      .catch((error: unknown) => {
        failure ??= { error };
        stop.abort();
      });
  };
  try {
    await runProgram(program, {
      phase: "extracting",
      threads: options.threads,
      onProgress: options.onProgress,
      memory: options.memory ?? Math.max(DECOMPOSITION_MEMORY, memoryPerThread(program)),
      signal: options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal,
      onPiece: (index, payload) => keep(index, payload as LowRankFactors),
    });
  } catch (error) {
    throw failure ? failure.error : error;
  } finally {
    await writing;
    await handle.close();
  }
  if (failure) throw failure.error;
  return stored;
}

const elementsOf = (pair: Pair | undefined) => elementCount(pair?.shape ?? []);

/** A [rank, in], then B [out, rank]. A matrix that is stored [in, out], or looked up, is (B A)^T. */
function forPeft({ rank, left, right }: LowRankFactors, pair: Pair): Float32Array[] {
  const { shape } = pair;
  const transposed = pair.transposed || isEmbedding(pair);
  const [rows = 0, columns = 0] = shape;
  return transposed ? [transpose(left, rows, rank), transpose(right, rank, columns)] : [right, left];
}

function transpose(values: Float32Array, rows: number, columns: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) out[j * rows + i] = values[i * columns + j] as number;
  return out;
}
