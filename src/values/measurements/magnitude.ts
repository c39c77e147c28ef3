// Magnitude of an expert's change: the average row MAV (mean absolute value) over all its deltas. Its inverse is the
// expert's weight in a magnitude-adjusted average (arXiv 2410.01335, 3.4).
//
// A row is an input feature: a weight [out, in] has `in` rows, each a mean over `out`. A vector is one row. The paper
// does not specify which tensors count; here all floating-point tensors do, each row once. Values of single rows are
// not needed: the rows of a tensor sum to (sum of |delta|) / out.
import { CheckpointError, isFloatDType, type Shape } from "../../core/index.js";
import { type Job, totalStatistics } from "../../weights/index.js";
import { leavesOf, type Value } from "../expressions/expression.js";
import type { Binding, Labelled, Measuring } from "./measurement.js";

/** One tensor of an expert and of its base. */
export interface MeasuredTensor {
  readonly tensor: string;
  readonly shape: Shape;
  readonly value: Value;
  readonly base: Value;
}

/** The average row MAV of an expert's change: [magnitude]. */
export interface MagnitudeMeasurement extends Labelled {
  readonly kind: "magnitude";
  /** Name of the base. */
  readonly against: string;
  readonly tensors: readonly MeasuredTensor[];
}

/**
 * Number of rows of a tensor and of elements per row; matrices stacked along leading axes count separately.
 * @param transposed whether the matrix is stored [in, out]
 */
export function rowsOf(shape: Shape, transposed = false): { rows: number; length: number } {
  const [height, width] = transposed ? [shape.at(-1), shape.at(-2)] : [shape.at(-2), shape.at(-1)];
  if (shape.length === 0) return { rows: 1, length: 1 };
  if (height === undefined || width === undefined) return { rows: 1, length: shape[0] ?? 1 };
  return { rows: shape.slice(0, -2).reduce((product, extent) => product * extent, width), length: height };
}

/** Whether a tensor counts in the magnitude: floating point, with elements. */
function isCounted({ value, base, shape }: MeasuredTensor, { tensor }: Binding): boolean {
  const leaves = [...leavesOf(value), ...leavesOf(base)];
  return leaves.every((leaf) => isFloatDType(tensor(leaf).dtype)) && shape.every((extent) => extent > 0);
}

/**
 * Measures the average row MAV of an expert's delta, in one streaming pass.
 *
 * Differences in float32 from the stored values, sums in float64 in a fixed order: the same on any number of threads.
 * @throws CheckpointError if the expert equals its base, or a delta is not finite
 */
export function* measureMagnitude({ label, tensors }: MagnitudeMeasurement, binding: Binding): Measuring<number[]> {
  const counted = tensors.filter((tensor) => isCounted(tensor, binding));
  const sums: number[] = [];
  yield {
    jobs: counted.map(({ tensor, value, base }): Job => {
      return { kind: "delta", name: tensor, value: binding.evaluation(value), minus: binding.evaluation(base) };
    }),
    onTotal: (job, total) => {
      const { sumAbsolute, nonFinite } = totalStatistics(total as readonly Float64Array[]);
      if (nonFinite > 0) throw notFinite(counted[job]?.tensor ?? "", label, nonFinite);
      sums[job] = sumAbsolute;
    },
  };
  let sumOfRows = 0;
  let rowCount = 0;
  counted.forEach(({ shape, base }, i) => {
    const transposed = leavesOf(base).some((leaf) => binding.tensor(leaf).transposed);
    const { rows, length } = rowsOf(shape, transposed);
    sumOfRows += (sums[i] ?? 0) / length;
    rowCount += rows;
  });
  if (sumOfRows > 0) return [sumOfRows / rowCount];
  throw new CheckpointError(
    `${label} is identical to the base, so the inverse of its magnitude is infinite. Check the path, or give weights as numbers.`,
  );
}

function notFinite(tensor: string, label: string, count: number): CheckpointError {
  return new CheckpointError(
    `${tensor} of ${label} has ${count} elements whose difference from the base is not finite, so its magnitude is undefined. Fix the expert, or give weights as numbers.`,
    { tensor, actual: `${count} non-finite` },
  );
}
