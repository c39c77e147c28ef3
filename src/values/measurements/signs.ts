// Measurements from signs and L1 norms: majority sign, rescale factor.

import { type Job, totalStatistics } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { added, type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** Majority sign over all elements of several values: 1, -1 or 0. */
export interface MajorityMeasurement extends Labelled {
  readonly kind: "majority";
  readonly values: readonly Value[];
}

/** sum|before| / sum|after|: the factor that restores the L1 norm of a sparsified delta. */
export interface RescaleMeasurement extends Labelled {
  readonly kind: "rescale";
  readonly before: Value;
  readonly after: Value;
}

export function* measureMajority({ label, values }: MajorityMeasurement, binding: Binding): Measuring<number[]> {
  let balance = 0;
  const jobs = values.map((value): Job => ({ kind: "signs", name: label, value: binding.evaluation(value) }));
  yield {
    jobs,
    onTotal: (_, total) => {
      const [positive = 0, negative = 0] = added(total, 2);
      balance += positive - negative;
    },
  };
  return [Math.sign(balance)];
}

export function* measureRescale(
  { id, label, before, after }: RescaleMeasurement,
  binding: Binding,
): Measuring<number[]> {
  const sums = [0, 0];
  const jobs = [before, after].map((value): Job => ({ kind: "delta", name: label, value: binding.evaluation(value) }));
  yield {
    jobs,
    onTotal: (job, total) => {
      const { sumAbsolute, nonFinite } = totalStatistics(total as readonly Float64Array[]);
      if (nonFinite > 0) throw notFinite(id);
      sums[job] = sumAbsolute;
    },
  };
  const [all = 0, kept = 0] = sums;
  return [kept > 0 ? all / kept : 1];
}
