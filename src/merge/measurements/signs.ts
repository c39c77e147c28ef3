// Numbers that follow from sums over the elements of values.

import { type Job, totalStatistics } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { added, type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** The sign that most elements have, of several values together: 1, -1, or 0. */
export interface MajorityMeasurement extends Labelled {
  readonly kind: "majority";
  readonly values: readonly Value[];
}

/** sum|before| / sum|after|: by what a sparser delta must be scaled to keep its L1 norm. */
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
    take: (_, total) => {
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
    take: (job, total) => {
      const { sumAbsolute, nonFinite } = totalStatistics(total as readonly Float64Array[]);
      if (nonFinite > 0) throw notFinite(id);
      sums[job] = sumAbsolute;
    },
  };
  const [all = 0, kept = 0] = sums;
  return [kept > 0 ? all / kept : 1];
}
