// What a measurement is made of: passes over the weights, each a set of jobs whose results it takes, until it knows its
// numbers.

import { CheckpointError } from "../../core/index.js";
import { type AnalyzedPiece, addUp, type CheckpointTensor, type Evaluation, type Job } from "../../weights/index.js";
import type { Leaf, Value } from "../expressions/expression.js";

/** What all measurements of a plan have. */
export interface Labelled {
  /** By which values refer to its result. */
  readonly id: string;
  /** What is measured, for people. */
  readonly label: string;
}

/** What a measurement needs to know of the sources. */
export interface Binding {
  readonly evaluation: (value: Value) => Evaluation;
  readonly tensor: (leaf: Leaf) => CheckpointTensor;
}

/** What a job reports, put together over its pieces: numbers per piece, or the sum of its payloads. */
export type JobTotal = readonly Float64Array[] | Float64Array | Uint32Array | AnalyzedPiece;

/** One pass over weights. */
export interface Pass {
  readonly jobs: readonly Job[];
  /** Takes the total of a job as soon as it is known; jobs end in any order. */
  readonly take: (job: number, total: JobTotal) => void;
}

/** Yields passes and returns the numbers found, or a mask. */
export type Measuring<Result> = Generator<Pass, Result, void>;

/** Sums of squares and products of values with each other, as a matrix. */
export function* products(name: string, values: readonly Value[], binding: Binding): Measuring<number[][]> {
  let packed: Float64Array = new Float64Array();
  yield {
    jobs: [{ kind: "gram", name, values: values.map(binding.evaluation) }],
    take: (_, total) => {
      packed = total as Float64Array;
    },
  };
  if (!packed.every(Number.isFinite)) throw notFinite(name);
  const matrix = values.map(() => values.map(() => 0));
  let at = 0;
  for (let i = 0; i < values.length; i++) {
    for (let j = i; j < values.length; j++) {
      const product = packed[at++] ?? 0;
      (matrix[i] as number[])[j] = product;
      (matrix[j] as number[])[i] = product;
    }
  }
  return matrix;
}

/** What is measured is undefined where a source is not finite. */
export function notFinite(what: string): CheckpointError {
  return new CheckpointError(
    `${what} cannot be measured: a source holds values that are infinite or NaN there; layergraft analyze finds them`,
  );
}

/** The per-piece numbers of a job, added up. */
export function added(total: JobTotal, count: number): Float64Array {
  return (total as readonly Float64Array[]).reduce((sum, piece) => addUp(sum, piece), new Float64Array(count));
}
