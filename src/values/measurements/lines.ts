// Numbers for each row or column of matrices, from the dot products of values within it.
import type { Shape } from "../../core/index.js";
import { type GramJob, partOf } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";
import { concatenate } from "./row-changes.js";

/** Factors for the op `scale-lines`. The id names everything that `combine` depends on. */
export interface LinesMeasurement extends Labelled {
  readonly kind: "lines";
  readonly values: readonly Value[];
  readonly shape: Shape;
  readonly axis: "rows" | "columns";
  /**
   * @param product of values i <= k of one matrix in a line
   * @returns factors, [values that are scaled, lines]
   */
  readonly combine: (product: (line: number, i: number, k: number) => number, lines: number) => Float32Array;
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
    return combine((line, i, k) => products[line * pairs + first(i) + k] ?? 0, products.length / pairs);
  });
  return concatenate(factors, Float32Array);
}
