// Mask of the rows that an expert changed by at least a threshold.
import { isFloatDType, type Shape } from "../../core/index.js";
import type { AnalyzedPiece } from "../../weights/index.js";
import { type Leaf, leavesOf, type Value } from "../expressions/expression.js";
import type { Binding, Labelled, Measuring } from "./measurement.js";
import { analyzeJobs, type RowAxis, rowMeans } from "./row-changes.js";

/** Marks the rows whose mean absolute change is at least `threshold`. */
export interface RowsMeasurement extends Labelled {
  readonly kind: "rows";
  readonly tensor: string;
  readonly shape: Shape;
  readonly value: Value;
  readonly base: Value;
  readonly axis: RowAxis;
  readonly threshold: number;
}

/** One byte per row: 1 where the mean absolute change is at least the threshold, or is not a number. */
export function* measureRows(measurement: RowsMeasurement, binding: Binding): Measuring<Uint8Array> {
  const { tensor, shape, value, base, axis, threshold } = measurement;
  const experts = [binding.evaluation(value)];
  const transposed = leavesOf(base).some((leaf: Leaf) => binding.tensor(leaf).transposed === true);
  const jobs = analyzeJobs({ tensor, shape, transposed }, binding.evaluation(base), experts, axis);
  const totals: AnalyzedPiece[] = [];
  yield {
    jobs,
    onTotal: (job, total) => {
      totals[job] = total as AnalyzedPiece;
    },
  };
  const rows = rowMeans(jobs, totals, 0);
  return Uint8Array.from(rows, (row) => (row < threshold ? 0 : 1));
}

/** Whether a tensor has rows that can be measured. */
export function hasRows(dtype: Parameters<typeof isFloatDType>[0], shape: Shape): boolean {
  return isFloatDType(dtype) && shape.every((extent) => extent > 0);
}
