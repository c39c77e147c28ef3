// Numbers for each row or column of matrices, from the dot products of values within it.
import type { Shape } from "../../kit/index.js";
import type { Value } from "../expressions/expression.js";
import { type GramJob, partOf } from "../streaming/program.js";
import { concatenate } from "../streaming/results.js";
import { type Binding, type Combine, combined, type Labelled, type Measuring, notFinite } from "./measurement.js";

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
