// Order statistics of magnitudes, exact, by counting: the bits of |x| as float32 are in the order of the numbers, so one
// pass counts the upper halves, and a second the lower halves of those in which a rank falls. Nothing is held but counts.
import type { Value } from "../../source/expression.js";
import type { CountJob, Job } from "../../streaming/program.js";
import { addUp } from "../../streaming/results.js";
import { added, type Binding, type JobTotal, type Measuring } from "./measurement.js";

/** The magnitudes of given ranks among all elements of some values, together. */
export interface OrderMeasurement {
  readonly id: string;
  readonly kind: "order";
  /** For people. */
  readonly label: string;
  readonly values: readonly Value[];
  /** Ranks counted from 0 at the smallest. One below 0 is 0; one beyond the last is infinity. */
  readonly ranks: readonly number[];
}

/** The smallest magnitude that is among the largest `share` of the non-zero elements, int(share * count) of them. */
export interface LargestMeasurement {
  readonly id: string;
  readonly kind: "largest";
  readonly label: string;
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
  const elements = upper.reduce((sum, count) => sum + count, 0);
  return yield* atRanks(measurement, binding, upper, [elements - Math.floor(share * nonZero)]);
}

interface Counted {
  readonly label: string;
  readonly values: readonly Value[];
}

const HALF = 65_536;

function* countUpper({ label, values }: Counted, binding: Binding): Measuring<Float64Array> {
  const counts = new Float64Array(HALF);
  yield {
    jobs: values.map((value): CountJob => ({ kind: "count", name: label, value: binding.evaluation(value) })),
    take: (_, total: JobTotal) => {
      addUp(counts, total as Float64Array);
    },
  };
  return counts;
}

/** The magnitudes of ranks, given the counts of upper halves. */
function* atRanks(
  { label, values }: Counted,
  binding: Binding,
  upper: Float64Array,
  ranks: readonly number[],
): Measuring<number[]> {
  const elements = upper.reduce((sum, count) => sum + count, 0);
  const found = ranks.map((rank) => (rank >= elements ? undefined : halfOf(upper, Math.max(0, rank))));
  const wanted = [...new Set(found.flatMap((half) => (half ? [half.at] : [])))];
  const lower = new Map(wanted.map((at) => [at, new Float64Array(HALF)]));
  const jobs = wanted.flatMap((at) =>
    values.map((value): CountJob => ({ kind: "count", name: label, value: binding.evaluation(value), upper: at })),
  );
  yield {
    jobs,
    take: (job, total) => {
      addUp(lower.get(jobs[job]?.upper ?? 0) as Float64Array, total as Float64Array);
    },
  };
  return found.map((half) => {
    if (!half) return Number.POSITIVE_INFINITY;
    const { at } = halfOf(lower.get(half.at) as Float64Array, half.rest);
    return new Float32Array(Uint32Array.of(((half.at << 16) | at) >>> 0).buffer)[0] ?? 0;
  });
}

/** Where a rank falls among counts, and its rank there. */
function halfOf(counts: Float64Array, rank: number): { at: number; rest: number } {
  let rest = rank;
  let at = 0;
  while (at < HALF - 1 && rest >= (counts[at] ?? 0)) rest -= counts[at++] ?? 0;
  return { at, rest };
}
