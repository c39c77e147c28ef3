// Exact order statistics of magnitudes by counting. The bits of |x| as float32, its key, sort like the numbers. A sample
// shows about where a rank is. A pass over everything counts the keys there and all below. Another pass follows where the
// counter that has the rank has several keys, or if the sample misled.

import { leavesOf, type Value } from "../expressions/expression.js";
import { rowsMatter } from "../streaming/pieces.js";
import { type CountJob, countersOf, type KeyRanges, SAMPLE_RUN } from "../streaming/program.js";
import type { CounterPairs } from "../streaming/results.js";
import { type Binding, type Combine, combined, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** Magnitudes at given ranks among all elements of several values. */
export interface OrderMeasurement extends Labelled {
  readonly kind: "order";
  readonly values: readonly Value[];
  /** Ranks from 0 at the smallest. A negative rank gives 0, a rank past the end infinity. */
  readonly ranks: readonly number[];
  /** Without it, these magnitudes. A plan always has it. */
  readonly combine?: Combine<readonly number[], readonly number[]>;
}

export function* measureOrder(measurement: OrderMeasurement, binding: Binding): Measuring<readonly number[]> {
  const { ranks, combine } = measurement;
  const found = yield* atRanks(measurement, binding, [], (share) => ranks.map((rank) => share * rank));
  const magnitudes = found.map(({ magnitude }) => magnitude);
  return combine ? combined(combine, magnitudes) : magnitudes;
}

/** The magnitude at a rank, and how many elements are smaller and how many have it. */
export interface Found {
  readonly magnitude: number;
  readonly below: number;
  readonly equal: number;
}

/** The keys of a counter, how many are below them, and how many they are. */
interface Counted {
  readonly range: KeyRanges;
  readonly below: number;
  readonly count: number;
}

/** Counters at most: a core's second-level cache has room for them. */
const BINS = 2 ** 18;
const EVERYTHING: KeyRanges = { from: 0, shift: 13, bins: BINS };
const UNKNOWN: Counted = { range: EVERYTHING, below: 0, count: 0 };

/** Fewer elements than this are counted without a sample. */
const SAMPLED = 2 ** 19;
/** A sample has about this many runs, but no more than one in so many elements. */
const RUNS = 2 ** 13;
const RUN_EVERY = 2 ** 14;
/** Distance of a range's ends from the sample's rank, in deviations of a sample of single elements per run. */
const DEVIATIONS = 0.6;

/**
 * The magnitudes at ranks.
 * @param ends first keys above the elements that `ranksOf` wants counted
 * @param ranksOf the ranks among some elements: their share of all, their number, and how many are below each end
 * @param promise what the result begins with where these are the magnitudes
 */
export function* atRanks(
  { id, label, values }: { readonly id: string; readonly label: string; readonly values: readonly Value[] },
  binding: Binding,
  ends: readonly KeyRanges[],
  ranksOf: (share: number, elements: number, below: readonly number[]) => readonly number[],
  promise?: (magnitudes: readonly number[]) => readonly number[],
): Measuring<Found[]> {
  const evaluations = values.map(binding.evaluation);
  const all = evaluations.reduce((sum, { elements }) => sum + elements, 0);
  function* count(wanted: readonly KeyRanges[], every?: number): Measuring<[readonly number[], readonly Counts[]]> {
    const ranges = [...ends, ...wanted];
    const counts = ranges.map((range) => new Counts(range));
    const jobs = evaluations.map((value): CountJob => {
      return { kind: "count", name: label, value, ranges, ...(every ? { every } : {}) };
    });
    const isOne = wanted.every(({ bins }) => bins === 1);
    const promised = isOne ? promise?.(wanted.map(({ from }) => magnitudeOf(from))) : undefined;
    yield { jobs, onTotal: (_, total) => addTo(counts, total as CounterPairs), promised };
    const below = counts.splice(0, ends.length).map((one) => one.below);
    const elements = every ? (counts[0] as Counts).inside : all;
    return [ranksOf(elements / all, elements, below), counts];
  }

  /** By rank: what is there, or where it is. */
  let known: readonly (Found | KeyRanges)[] = [];
  const isRemote = values.flatMap(leavesOf).some((leaf) => binding.tensor(leaf).file.remote);
  if (all >= SAMPLED && !isRemote && !rowsMatter(evaluations)) {
    const [ranks, [sample]] = yield* count([EVERYTHING], Math.max(RUN_EVERY, Math.ceil(all / RUNS)));
    known = ranks.map((rank) => (sample as Counts).around(rank));
  }
  for (;;) {
    const wanted = new Set(known.filter((one) => "shift" in one));
    const ranges = wanted.size > 0 ? [...wanted] : [EVERYTHING];
    const [ranks, counts] = yield* count(ranges);
    known = ranks.map((rank, i) => {
      const before = known[i] ?? EVERYTHING;
      if ("magnitude" in before) return before;
      if (rank >= all) return { magnitude: Number.POSITIVE_INFINITY, below: all, equal: 0 };
      const { range, below, count } = (counts[ranges.indexOf(before)] as Counts).at(rank) ?? UNKNOWN;
      if (range.bins > 1) return range;
      const magnitude = magnitudeOf(range.from);
      if (Number.isNaN(magnitude)) throw notFinite(id);
      return { magnitude, below, equal: count };
    });
    if (known.every((one) => "magnitude" in one)) return [...known];
  }
}

const magnitudeOf = (key: number) => new Float32Array(Uint32Array.of(key).buffer)[0] as number;

/** The counters of a range of keys. */
class Counts {
  readonly range: KeyRanges;
  readonly #bins = new Map<number, number>();
  /** Keys below the range, and in it. */
  below = 0;
  inside = 0;

  constructor(range: KeyRanges) {
    this.range = range;
  }

  add(counter: number, count: number): void {
    if (counter === 0) this.below += count;
    else {
      this.#bins.set(counter - 1, (this.#bins.get(counter - 1) ?? 0) + count);
      this.inside += count;
    }
  }

  /** The keys of the counter with a rank among all elements; undefined if it is not in the range. */
  at(rank: number): Counted | undefined {
    const { from, shift } = this.range;
    const wanted = Math.max(0, rank);
    let { below } = this;
    if (wanted < below) return undefined;
    for (const [bin, count] of [...this.#bins].sort(([a], [b]) => a - b)) {
      if (wanted < below + count) {
        const first = from + (shift === 0 ? bin : Math.floor(bin / 2) * 2 ** shift + (bin % 2));
        const keys = shift === 0 || bin % 2 === 0 ? 1 : 2 ** shift - 1;
        return { range: { from: first, shift: 0, bins: keys }, below, count };
      }
      below += count;
    }
    return undefined;
  }

  /** Keys that probably have a rank's among all elements, from a sample that has it at `rank`. */
  around(rank: number): KeyRanges {
    const share = Math.min(Math.max(rank / this.inside, 0), 1);
    const margin = 1 + DEVIATIONS * Math.sqrt(share * (1 - share) * this.inside * SAMPLE_RUN);
    const { from, shift, bins } = this.range;
    const [first, last] = [this.at(rank - margin)?.range, this.at(rank + margin)?.range];
    if (first?.bins === 1 && first.from === last?.from) return first;
    const binOf = (key: number) => Math.floor(key / 2 ** shift);
    const low = binOf(first?.from ?? from) * 2 ** shift;
    const width = (binOf(last?.from ?? from + (bins - 1) * 2 ** shift) + 1) * 2 ** shift - low;
    const narrowed = Math.max(0, Math.ceil(Math.log2(width / BINS)));
    return { from: low, shift: narrowed, bins: width / 2 ** narrowed };
  }
}

/** Adds pairs of counter and count, by ascending counter, to ranges whose counters follow each other. */
function addTo(counts: readonly Counts[], pairs: CounterPairs): void {
  let [at, first] = [0, 0];
  for (const one of counts) {
    const end = first + countersOf(one.range);
    for (; at < pairs.length && (pairs[at] as number) < end; at += 2) {
      one.add((pairs[at] as number) - first, pairs[at + 1] as number);
    }
    first = end;
  }
}
