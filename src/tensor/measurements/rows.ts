// Masks of the rows that an expert changed by at least a threshold, and the threshold that keeps a share of the changes.
import { elementCount, groupBy, isFloatDType, type Shape } from "../../kit/index.js";
import { type Leaf, leavesOf, type Value } from "../expressions/expression.js";
import { concatenate } from "../streaming/results.js";
import type { AnalyzedPiece } from "../streaming/row-statistics.js";
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
  /** A number, or the id of the `RowCutMeasurement` that finds it. */
  readonly threshold: number | string;
}

/** The mean absolute change of the smallest row that stays if the largest rows with a share of all elements stay. */
export interface RowCutMeasurement extends Labelled {
  readonly kind: "row-cut";
  readonly tensors: readonly Pick<RowsMeasurement, "tensor" | "shape" | "value" | "base">[];
  readonly axis: RowAxis;
  /** Share of the elements of all tensors together. */
  readonly share: number;
}

/** One byte per row: 1 where the mean absolute change is at least the threshold, or is not a number. */
export function* measureRows(measurement: RowsMeasurement, binding: Binding): Measuring<Uint8Array> {
  const { axis, threshold } = measurement;
  const at = typeof threshold === "number" ? threshold : (binding.numbers(threshold)[0] ?? 0);
  const rows = (yield* measureChanges([measurement], axis, binding))[0] ?? new Float32Array();
  return Uint8Array.from(rows, (row) => (row < at ? 0 : 1));
}

/** One number; infinity if no row stays. Rows that are not numbers are the largest. */
export function* measureRowCut(
  { tensors, axis, share }: RowCutMeasurement,
  binding: Binding,
): Measuring<readonly number[]> {
  const changes = yield* measureChanges(tensors, axis, binding);
  const elements = tensors.map(({ shape }) => elementCount(shape));
  // By width of a row, as a model has a hundred million rows and few widths.
  const byWidth = groupBy([...changes.entries()], ([i, own]) => (elements[i] as number) / own.length);
  const lists = [...byWidth].map(([width, all]) => {
    const rows = concatenate(
      all.map(([, own]) => own),
      Float32Array,
    );
    const sorted = rows.map((change) => (Number.isNaN(change) ? Number.POSITIVE_INFINITY : change)).sort();
    return { width, sorted, left: sorted.length };
  });
  const wanted = Math.round(share * elements.reduce((sum, count) => sum + count, 0));
  let [kept, cut] = [0, Number.POSITIVE_INFINITY];
  while (kept < wanted) {
    let largest: (typeof lists)[number] | undefined;
    for (const list of lists) if (list.left > 0 && !(largest && topOf(largest) >= topOf(list))) largest = list;
    if (!largest) break;
    cut = topOf(largest);
    kept += largest.width;
    largest.left--;
  }
  return [cut];
}

const topOf = ({ sorted, left }: { readonly sorted: Float32Array; readonly left: number }) =>
  sorted[left - 1] as number;

/** Mean absolute change of every row, by tensor. */
function* measureChanges(
  tensors: RowCutMeasurement["tensors"],
  axis: RowAxis,
  binding: Binding,
): Measuring<Float32Array[]> {
  const jobsOf = tensors.map(({ tensor, shape, value, base }) => {
    const leaves = leavesOf(base).map((leaf: Leaf) => binding.tensor(leaf));
    const transposed = leaves.some((leaf) => leaf.transposed === true);
    const part = leaves[0]?.part ?? "other";
    return analyzeJobs(
      { tensor, shape, part, transposed },
      binding.evaluation(base),
      [binding.evaluation(value)],
      axis,
    );
  });
  const totals = (yield { jobs: jobsOf.flat() }) as readonly AnalyzedPiece[];
  let at = 0;
  return jobsOf.map((jobs) => {
    const own = totals.slice(at, at + jobs.length);
    at += jobs.length;
    return rowMeans(jobs, own, 0);
  });
}

/** Whether a tensor has rows that can be measured. */
export function hasRows(dtype: Parameters<typeof isFloatDType>[0], shape: Shape): boolean {
  return isFloatDType(dtype) && shape.every((extent) => extent > 0);
}
