// Cuts what is kept of some values out of the order of their magnitudes, and counts it.
import { groupBy } from "../../kit/index.js";
import type { Measured, Value } from "../expressions/expression.js";
import { cutIntoPieces } from "../streaming/pieces.js";
import type { Evaluation, TiesJob } from "../streaming/program.js";
import type { Binding, Labelled, Measuring } from "./measurement.js";
import { atRanks, type Found } from "./order-statistics.js";

/**
 * The smallest and the largest magnitude that is kept of the elements of several values, and how many are kept among how
 * many; then, for each value of an exact cut, the index before which elements with the smallest magnitude are kept, and the
 * index from which those with the largest are.
 */
export interface CutMeasurement extends Labelled {
  readonly kind: "cut";
  readonly values: readonly Value[];
  /** Labels of the models whose changes they are. */
  readonly of: readonly string[];
  /** How many to keep, or which share of those that are not zero. */
  readonly keep: number | { readonly share: number };
  /** How many larger ones to drop. Without it the largest magnitude is not measured, and infinite. */
  readonly above?: number;
  /**
   * Whether as many are kept as asked for: of equal magnitudes the first, in the order of the values and of their elements,
   * count as larger. Otherwise all that equal the smallest or largest magnitude are kept.
   */
  readonly isExact: boolean;
}

/** Places of a cut's results; those of value i follow from `PLACES + 2 * i` on. */
export const CUT = { low: 0, high: 1, kept: 2, among: 3, places: 4 } as const;

const NOTHING: Found = { magnitude: Number.POSITIVE_INFINITY, below: 0, equal: 0 };

export function* measureCut(measurement: CutMeasurement, binding: Binding): Measuring<readonly number[]> {
  const { label, values, keep, above, isExact } = measurement;
  const evaluations = values.map(binding.evaluation);
  const elements = evaluations.reduce((sum, one) => sum + one.elements, 0);
  // Below the first end are zeros, below the second numbers.
  const ends = typeof keep === "number" ? [] : [1, 0x7f800001].map((from) => ({ from, shift: 0, bins: 0 }));
  let [wanted, among] = [0, 0];
  const [low = NOTHING, high = NOTHING] = yield* atRanks(
    measurement,
    binding,
    ends,
    (share, all, [zeros = 0, numbers = all]) => {
      among = numbers - zeros;
      wanted = typeof keep === "number" ? share * keep : Math.floor(keep.share * among);
      const top = share * (above ?? 0);
      return [all - top - wanted, ...(above === undefined ? [] : [all - top - 1])];
    },
    isExact ? undefined : ([low = 0, high = Number.POSITIVE_INFINITY]) => [low, high],
  );
  const aboveLow = elements - low.below - low.equal;
  const aboveHigh = above === undefined ? 0 : elements - high.below - high.equal;
  const kept = aboveLow + (low.magnitude > 0 ? low.equal : 0) - aboveHigh;
  if (!isExact) return [low.magnitude, high.magnitude, kept, among];
  // How many elements at each end count as larger than what follows.
  const dropped = above ?? 0;
  const [atLow, atHigh] = [dropped + wanted - aboveLow, dropped - aboveHigh];
  const all = values.map(() => Number.POSITIVE_INFINITY);
  const isWhole = low.magnitude === 0 || atLow >= low.equal;
  const before = isWhole ? all : yield* indexesOf(label, evaluations, low.magnitude, atLow);
  const from = atHigh === 0 ? values.map(() => 0) : yield* indexesOf(label, evaluations, high.magnitude, atHigh);
  const places = values.flatMap((_, i) => [before[i] as number, from[i] as number]);
  return [low.magnitude, high.magnitude, Math.min(wanted, kept), among, ...places];
}

/** By value, the index before which the first `count` elements with a magnitude are: infinite in all values but the last. */
function* indexesOf(
  name: string,
  evaluations: readonly Evaluation[],
  magnitude: number,
  count: number,
): Measuring<number[]> {
  const jobs = evaluations.map((value): TiesJob => ({ kind: "ties", name, value, magnitude }));
  const counted = (yield { jobs }) as readonly (readonly Float64Array[])[];
  let rest = count;
  for (const [i, job] of jobs.entries()) {
    for (const [at, { begin, end }] of cutIntoPieces([job]).entries()) {
      const own = counted[i]?.[at]?.[0] ?? 0;
      if (rest < own) {
        const [[found] = []] = (yield { jobs: [{ ...job, within: { begin, end }, nth: rest }] }) as typeof counted;
        return evaluations.map((_, k) => (k < i ? Number.POSITIVE_INFINITY : k > i ? 0 : (found?.[1] as number)));
      }
      rest -= own;
    }
  }
  return evaluations.map(() => Number.POSITIVE_INFINITY);
}

/** How much a threshold keeps. */
export interface KeptShare {
  /** Whose changes: the recipe's names for models, such as `models[0]`. */
  readonly of: readonly string[];
  /** Share that the recipe asks for. */
  readonly asked: number;
  /** Share that is kept; zeros are no part of it. */
  readonly kept: number;
}

/** What the cuts among measurements keep; cuts of the same elements, tensor by tensor, count together. */
export function keptShares(
  measurements: readonly (CutMeasurement | { readonly kind: string })[],
  measured: Measured,
): KeptShare[] {
  const cuts = measurements.filter((one): one is CutMeasurement => one.kind === "cut");
  return [...groupBy(cuts, ({ of }) => of.join()).values()].flatMap((all): KeptShare[] => {
    const [{ of } = { of: [] }] = all;
    let [asked, kept, among] = [0, 0, 0];
    for (const { id, keep } of all) {
      const result = measured.get(id) ?? [];
      asked += typeof keep === "number" ? keep : Math.floor(keep.share * (result[CUT.among] ?? 0));
      kept += result[CUT.kept] ?? 0;
      among += result[CUT.among] ?? 0;
    }
    return among > 0 ? [{ of, asked: asked / among, kept: kept / among }] : [];
  });
}
