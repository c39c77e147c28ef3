// Exact order statistics of magnitudes by counting. The bits of |x| as float32 sort like the numbers: one pass counts
// upper halves, a second the lower halves of those that contain a rank.

import type { CountJob, Job } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { added, type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** Magnitudes at given ranks among all elements of several values. */
export interface OrderMeasurement extends Labelled {
  readonly kind: "order";
  readonly values: readonly Value[];
  /** Ranks from 0 at the smallest. A negative rank gives 0, a rank past the end infinity. */
  readonly ranks: readonly number[];
  /** The result from these magnitudes; default they themselves. */
  readonly combine?: (found: readonly number[]) => readonly number[];
}

/** The smallest of the int(share * count) largest non-zero magnitudes. */
export interface LargestMeasurement extends Labelled {
  readonly kind: "largest";
  readonly values: readonly Value[];
  readonly share: number;
}

export function* measureOrder(measurement: OrderMeasurement, binding: Binding): Measuring<readonly number[]> {
  const { ranks, combine = (found) => found } = measurement;
  const upper = yield* countUpper(measurement, binding);
  return combine(yield* atRanks(measurement, binding, upper, ranks));
}

export function* measureLargest(measurement: LargestMeasurement, binding: Binding): Measuring<number[]> {
  const { label, values, share } = measurement;
  let nonZero = 0;
  const jobs = values.map((value): Job => ({ kind: "signs", name: label, value: binding.evaluation(value) }));
  yield {
    jobs,
    onTotal: (_, total) => {
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

/** Counts of the 16-bit keys that occur. */
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

  /** The key that contains a rank, and the rank within it; undefined past the end. */
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
    onTotal: (_, total) => counts.add(total as Uint32Array),
  };
  return counts;
}

/** Magnitudes at ranks, from the counts of upper halves. */
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
  yield { jobs, onTotal: (job, total) => lower.get(jobs[job]?.upper ?? 0)?.add(total as Uint32Array) };
  return found.map((half) => {
    if (!half) return Number.POSITIVE_INFINITY;
    const key = lower.get(half.key)?.find(half.rest)?.key ?? 0;
    const magnitude = new Float32Array(Uint32Array.of(((half.key << 16) | key) >>> 0).buffer)[0] ?? 0;
    if (Number.isNaN(magnitude)) throw notFinite(id);
    return magnitude;
  });
}
