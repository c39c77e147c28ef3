// Order statistics of magnitudes, exact, by counting: the bits of |x| as float32 are in the order of the numbers, so one
// pass counts the upper halves, and a second the lower halves of those in which a rank falls. Nothing is held but counts.

import type { CountJob, Job } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { added, type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** The magnitudes of given ranks among all elements of some values, together. */
export interface OrderMeasurement extends Labelled {
  readonly kind: "order";
  readonly values: readonly Value[];
  /** Ranks counted from 0 at the smallest. One below 0 is 0; one beyond the last is infinity. */
  readonly ranks: readonly number[];
}

/** The smallest magnitude that is among the largest `share` of the non-zero elements, int(share * count) of them. */
export interface LargestMeasurement extends Labelled {
  readonly kind: "largest";
  readonly values: readonly Value[];
  readonly share: number;
}

export function* measureOrder(measurement: OrderMeasurement, binding: Binding): Measuring<number[]> {
  const upper = yield* countUpper(measurement, binding);
  return yield* atRanks(measurement, binding, upper, measurement.ranks);
}

export function* measureLargest(measurement: LargestMeasurement, binding: Binding): Measuring<number[]> {
  const { label, values, share } = measurement;
  let nonZero = 0;
  const jobs = values.map((value): Job => ({ kind: "signs", name: label, value: binding.evaluation(value) }));
  yield {
    jobs,
    take: (_, total) => {
      const [positive = 0, negative = 0] = added(total, 2);
      nonZero += positive + negative;
    },
  };
  const upper = yield* countUpper(measurement, binding);
  return yield* atRanks(measurement, binding, upper, [upper.total - Math.floor(share * nonZero)]);
}

interface Counted {
  readonly label: string;
  readonly values: readonly Value[];
}

/** How often each 16-bit key occurs, where it does. */
class Counts {
  readonly #counts = new Map<number, number>();
  total = 0;

  /** @param pairs key, count, key, count, ... */
  add(pairs: Uint32Array): void {
    for (let i = 0; i < pairs.length; i += 2) {
      const [key = 0, count = 0] = [pairs[i], pairs[i + 1]];
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
      this.total += count;
    }
  }

  /** The key in which a rank falls, and its rank there; undefined beyond the last. */
  find(rank: number): { readonly key: number; readonly rest: number } | undefined {
    if (rank >= this.total) return undefined;
    let rest = Math.max(0, rank);
    for (const key of [...this.#counts.keys()].sort((a, b) => a - b)) {
      const count = this.#counts.get(key) ?? 0;
      if (rest < count) return { key, rest };
      rest -= count;
    }
    return undefined;
  }
}

function* countUpper({ label, values }: Counted, binding: Binding): Measuring<Counts> {
  const counts = new Counts();
  yield {
    jobs: values.map((value): CountJob => ({ kind: "count", name: label, value: binding.evaluation(value) })),
    take: (_, total) => counts.add(total as Uint32Array),
  };
  return counts;
}

/** The magnitudes of ranks, given the counts of upper halves. */
function* atRanks(
  { id, label, values }: Counted & { readonly id: string },
  binding: Binding,
  upper: Counts,
  ranks: readonly number[],
): Measuring<number[]> {
  const found = ranks.map((rank) => upper.find(rank));
  const wanted = [...new Set(found.flatMap((half) => (half ? [half.key] : [])))];
  const lower = new Map(wanted.map((key) => [key, new Counts()]));
  const jobs = wanted.flatMap((key) =>
    values.map((value): CountJob => ({ kind: "count", name: label, value: binding.evaluation(value), upper: key })),
  );
  yield { jobs, take: (job, total) => lower.get(jobs[job]?.upper ?? 0)?.add(total as Uint32Array) };
  return found.map((half) => {
    if (!half) return Number.POSITIVE_INFINITY;
    const key = lower.get(half.key)?.find(half.rest)?.key ?? 0;
    const magnitude = new Float32Array(Uint32Array.of(((half.key << 16) | key) >>> 0).buffer)[0] ?? 0;
    if (Number.isNaN(magnitude)) throw notFinite(id);
    return magnitude;
  });
}
