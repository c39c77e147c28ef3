// How far an expert moved from its base, as one number: the average, over all rows of all its deltas, of the rows' mean
// absolute value (MAV). Its inverse is the expert's weight in a magnitude-adjusted average (arXiv 2410.01335, 3.4).
//
// A row is an input feature: on a weight [out, in], the mean over the out axis, so `in` rows. A vector is one row. The
// paper does not say which tensors enter; here all floating-point tensors do, each row counted once. Summed that way
// no single row's value is needed: the rows of a tensor sum to (sum of |delta|) / out.
import { isFloatDType } from "../core/dtype.js";
import { CheckpointError } from "../core/errors.js";
import type { Shape } from "../core/shape.js";
import { NO_DELTA } from "../kernels/kernels.js";
import type { Leaf, Measured, Value } from "../source/expression.js";
import { Resolver, type Sources } from "../source/resolve.js";
import type { Program } from "../streaming/program.js";
import { resultsByJob, totalStatistics } from "../streaming/results.js";
import { type RunOptions, runProgram } from "../streaming/run.js";

/** One tensor of an expert and of its base. */
export interface MeasuredTensor {
  readonly tensor: string;
  readonly shape: Shape;
  readonly value: Value;
  readonly base: Leaf;
}

/** Rows of a tensor and how many elements each has; matrices stacked along leading axes count as several matrices. */
export function rowsOf(shape: Shape): { rows: number; length: number } {
  const length = shape.at(-2);
  const columns = shape.at(-1);
  if (columns === undefined) return { rows: 1, length: 1 };
  if (length === undefined) return { rows: 1, length: columns };
  return { rows: shape.slice(0, -2).reduce((product, extent) => product * extent, columns), length };
}

/** Whether a tensor counts in the magnitude: floating point, with elements. */
export function countsInMagnitude(sources: Sources, { base, shape }: MeasuredTensor): boolean {
  const dtype = sources.get(base.source)?.tensors.get(base.tensor)?.dtype;
  return dtype !== undefined && isFloatDType(dtype) && shape.every((extent) => extent > 0);
}

/** The program that measures; its jobs stand in the order of the tensors. */
export function magnitudeProgram(tensors: readonly MeasuredTensor[], sources: Sources, measured: Measured): Program {
  const resolver = new Resolver(sources, measured);
  const jobs = tensors.map(({ tensor, value, base }) => ({
    kind: "delta" as const,
    name: tensor,
    value: resolver.evaluation(value),
    minus: resolver.evaluation(base),
  }));
  return { inputs: resolver.inputs, outputs: [], jobs };
}

/**
 * Measures the average row MAV of an expert's delta, in one streaming pass.
 *
 * Differences in float32 from the stored values, sums in float64 in a fixed order: the same on any number of threads.
 * @param label what to call the expert in errors
 * @throws {CheckpointError} if the expert equals its base, or a delta is not finite
 */
export async function measureMagnitude(
  label: string,
  tensors: readonly MeasuredTensor[],
  sources: Sources,
  measured: Measured,
  options: RunOptions,
): Promise<number> {
  const counted = tensors.filter((tensor) => countsInMagnitude(sources, tensor));
  const outcome = await runProgram(magnitudeProgram(counted, sources, measured), options);
  const statistics = resultsByJob(outcome, counted.length).map(totalStatistics);

  let sumOfRows = 0;
  let rowCount = 0;
  counted.forEach(({ tensor, shape }, i) => {
    const { sumAbsolute, nonFinite } = statistics[i] ?? NO_DELTA;
    if (nonFinite > 0) {
      throw new CheckpointError(
        `${tensor} of ${label} has ${nonFinite} elements whose difference from the base is not finite, so its magnitude is undefined; repair the expert, or give weights as numbers`,
        { tensor, actual: `${nonFinite} non-finite` },
      );
    }
    const { rows, length } = rowsOf(shape);
    sumOfRows += sumAbsolute / length;
    rowCount += rows;
  });
  if (sumOfRows === 0) {
    throw new CheckpointError(
      `${label} is identical to the base, so the inverse of its magnitude is infinite; is it the right checkpoint? Else give weights as numbers`,
    );
  }
  return sumOfRows / rowCount;
}
