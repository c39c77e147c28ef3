// Measurements that a method combines: numbers from products, sums or signs of values, or from products in each row or column.

import type { Shape } from "../../kit/index.js";
import type { Value } from "../expressions/expression.js";
import { type GramJob, type Job, partOf, type SignsJob } from "../streaming/program.js";
import { concatenate, type DeltaStatistics, totalStatistics } from "../streaming/results.js";
import { type Binding, type Combine, combined, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** Dot products of values: symmetric, [values, values], float64. */
export type Gram = readonly (readonly number[])[];

/** Sums over the elements of each value. */
export type Totals = readonly DeltaStatistics[];

/** Elements of each value. */
export type Signs = readonly { readonly positive: number; readonly negative: number }[];

/** Numbers from the dot products of values. */
export interface GramMeasurement extends Labelled {
  readonly kind: "gram";
  readonly values: readonly Value[];
  /** Whether only the diagonal is needed; the other products are 0. Default: false. */
  readonly diagonal?: boolean;
  /** Without it, all products, row by row. A plan always has it. */
  readonly combine?: Combine<Gram, readonly number[]>;
}

/** Numbers from sums over the elements of each value, such as its L1 norm. */
export interface TotalsMeasurement extends Labelled {
  /** Magnitudes and owners of layers are reported as what they are. */
  readonly kind: "totals" | "magnitude" | "ownership";
  readonly values: readonly Value[];
  /** Subtracted from each of them, which gives sums over these, too. */
  readonly minus?: readonly Value[];
  /** Name of the base of a magnitude. */
  readonly against?: string;
  readonly combine: Combine<Totals, readonly number[]>;
}

/** Numbers from the counts of positive and negative elements of each value. */
export interface SignsMeasurement extends Labelled {
  readonly kind: "signs";
  readonly values: readonly Value[];
  readonly combine: Combine<Signs, readonly number[]>;
}

export function* measureGram(measurement: GramMeasurement, binding: Binding): Measuring<readonly number[]> {
  const { id, values, diagonal = false, combine } = measurement;
  const [total] = yield { jobs: [{ kind: "gram", name: id, values: values.map(binding.evaluation), diagonal }] };
  const packed = total as Float64Array;
  if (!packed.every(Number.isFinite)) throw notFinite(id);
  const matrix = values.map(() => values.map(() => 0));
  let at = 0;
  for (let i = 0; i < values.length; i++) {
    for (let j = i; j < values.length; j++) {
      const product = packed[at++] ?? 0;
      (matrix[i] as number[])[j] = product;
      (matrix[j] as number[])[i] = product;
    }
  }
  return combine ? combined(combine, matrix) : matrix.flat();
}

export function* measureTotals(
  { id, label, values, minus, combine }: TotalsMeasurement,
  binding: Binding,
): Measuring<readonly number[]> {
  const jobs = values.map((value, i): Job => {
    const base = minus?.[i];
    const job = { kind: "delta" as const, name: label, value: binding.evaluation(value) };
    return base ? { ...job, minus: binding.evaluation(base) } : job;
  });
  const totals = (yield { jobs }).map((total) => totalStatistics(total as readonly Float64Array[]));
  const broken = totals.findIndex(({ nonFinite }) => nonFinite > 0);
  if (broken >= 0) throw notFinite(id, values[broken]);
  return combined(combine, totals);
}

export function* measureSigns(
  { label, values, combine }: SignsMeasurement,
  binding: Binding,
): Measuring<readonly number[]> {
  const jobs = values.map((value): SignsJob => ({ kind: "signs", name: label, value: binding.evaluation(value) }));
  const totals = yield { jobs };
  const counts = values.map((_, i) => {
    const [positive = 0, negative = 0] = (totals[i] ?? []) as Float64Array;
    return { positive, negative };
  });
  return combined(combine, counts);
}

/** Dot products of values within each row or column of one matrix. */
export interface Lines {
  readonly lines: number;
  /** Of values i <= k. */
  readonly product: (line: number, i: number, k: number) => number;
}

/** Factors for the op `scale-lines`. */
export interface LinesMeasurement extends Labelled {
  readonly kind: "lines";
  readonly values: readonly Value[];
  readonly shape: Shape;
  readonly axis: "rows" | "columns";
  /** Makes factors, [values that are scaled, lines]. */
  readonly combine: Combine<Lines, Float32Array>;
}

/** The factors of one matrix after the other. */
export function* measureLines(measurement: LinesMeasurement, binding: Binding): Measuring<Float32Array> {
  const { id, values, shape, axis, combine } = measurement;
  const matrices = shape.slice(0, -2).reduce((product, extent) => product * extent, 1);
  const evaluations = values.map(binding.evaluation);
  const jobs = Array.from({ length: matrices }, (_, i): GramJob => {
    return { kind: "gram", name: id, values: evaluations.map((one) => partOf(one, i, matrices)), axis };
  });
  const pairs = (values.length * (values.length + 1)) / 2;
  const first = (i: number) => i * values.length - (i * (i - 1)) / 2 - i;
  const factors = (yield { jobs }).map((total) => {
    const products = total as Float64Array;
    if (!products.every(Number.isFinite)) throw notFinite(id);
    const product = (line: number, i: number, k: number) => products[line * pairs + first(i) + k] ?? 0;
    return combined(combine, { lines: products.length / pairs, product });
  });
  return concatenate(factors, Float32Array);
}
