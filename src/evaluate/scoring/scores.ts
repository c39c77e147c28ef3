import { groupBy, own, RecipeError } from "../../kit/index.js";
import { plural, shorten } from "../../kit/printing/index.js";
import { sumVectors } from "../metrics/segments.js";
import type { Metric, Verdict } from "../tasks/task.js";
import { type CrossedModel, crossedDifference, pseudoValues } from "./crossed.js";
import {
  type BootstrapOptions,
  bootstrapInterval,
  type Interval,
  mcnemarExact,
  meanWithError,
  pairedInterval,
  signFlipTest,
  swapTest,
  wilsonInterval,
} from "./statistics.js";

/** What is left of a sample for scoring: which item it is of, and what it is worth. */
export interface JudgedItem {
  readonly id: string;
  readonly group?: string | undefined;
  /** Undefined (or null) where nothing could be judged. */
  readonly verdict?: Verdict | null | undefined;
}

/**
 * One verdict for each item: the mean of those on its answers, so that the item stays the unit of errors, intervals and
 * tests. The sums of a corpus score are averaged, too, which makes it the score of all answers together.
 */
export function averageRepeats<T extends JudgedItem & { readonly repeat?: number | undefined }>(
  samples: readonly T[],
): T[] {
  if (samples.every(({ repeat }) => repeat === undefined)) return [...samples];
  return [...groupBy(samples, ({ id }) => id).values()].map((answers) => {
    const verdicts = answers.flatMap(({ verdict }): Verdict[] => (verdict ? [verdict] : []));
    const names = [...new Set(verdicts.flatMap((verdict) => Object.keys(verdict)))];
    const mean = Object.fromEntries(names.map((name) => [name, meanOf(verdicts.map((one) => own(one, name)))]));
    return { ...(answers[0] as T), verdict: verdicts.length === 0 ? null : mean };
  });
}

/** Numbers or vectors; an answer may lack one, such as the language of reasoning where there is none. */
function meanOf(given: readonly (Verdict[string] | undefined)[]): Verdict[string] {
  const values = given.filter((value) => value !== undefined);
  const average = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
  const [first] = values;
  if (typeof first === "number") return average(values as number[]);
  return (first ?? []).map((_, i) => average(values.map((vector) => (vector as readonly number[])[i] ?? 0)));
}

export interface Score {
  /** Name of the metric. */
  readonly metric: string;
  readonly title: string;
  /** share: from 0 to 1; points: from 0 to 100. */
  readonly scale: Metric["scale"];
  /** NaN where no item was judged. */
  readonly value: number;
  /** Of a mean from the deviation of its items, of other scores from the bootstrap; NaN of fewer than two items. */
  readonly standardError: number;
  /**
   * Over items: Wilson's where each is right or wrong, else the percentile bootstrap; where that has no width, Wilson's of
   * values from 0 to 1, and undefined of others and of fewer than two.
   */
  readonly interval: Interval | undefined;
  /** Items that were judged. */
  readonly items: number;
  /** Items without a verdict, which are not in the score. */
  readonly unscored: number;
  readonly signature?: string;
  /** The score of each group, where items have groups. */
  readonly groups?: Readonly<Record<string, { readonly value: number; readonly items: number }>>;
}

/** The level that Wilson's and Newcombe's intervals are of. */
const WILSON_LEVEL = 0.95;

/**
 * How many items, all of one kind, would make the mean as certain as these strata do: all of them, or fewer where groups
 * of unequal size count alike.
 */
function effectiveItems(strata: readonly (readonly unknown[])[]): number {
  return strata.length ** 2 / strata.reduce((sum, stratum) => sum + 1 / stratum.length, 0);
}

const hasWidth = ({ low, high }: Interval): boolean => low < high;

/** The scores of a task's samples, one per metric. */
export function scoreItems(
  metrics: readonly Metric[],
  items: readonly JudgedItem[],
  options: Omit<BootstrapOptions, "level"> = {},
): Score[] {
  return metrics.map((metric): Score => {
    const judged = items.flatMap((item) => vectorsOf(metric, item));
    const strata = strataOf(metric, judged);
    const all = judged.map(({ vector }) => vector);
    const value = judged.length === 0 ? Number.NaN : combine(metric, strata.map(sumVectors), strata.map(countOf));
    const isMean = metric.by === "mean";
    const { standardError } = meanWithError(all.map(([first = Number.NaN]) => first));
    const isRightOrWrong = isMean && all.every(([first]) => first === 0 || first === 1);
    const wilson = (deviation: number): Interval => {
      return { ...wilsonInterval(value, effectiveItems(strata)), level: WILSON_LEVEL, deviation };
    };
    const intervalOf = (): Interval | undefined => {
      if (isRightOrWrong) return wilson(standardError);
      const drawn = bootstrapInterval(strata, (sums, counts) => combine(metric, sums, counts), options);
      if (hasWidth(drawn)) return drawn;
      const isShare = metric.by !== "corpus" && all.every(([first = -1]) => first >= 0 && first <= 1);
      return isShare ? wilson(drawn.deviation) : undefined;
    };
    const interval = judged.length < 2 ? undefined : intervalOf();
    return {
      metric: metric.name,
      title: metric.title,
      scale: metric.scale,
      value,
      standardError: isMean ? standardError : (interval?.deviation ?? Number.NaN),
      interval,
      items: judged.length,
      unscored: items.length - judged.length,
      ...(metric.signature === undefined ? {} : { signature: metric.signature }),
      ...(judged.some(({ group }) => group !== undefined) ? { groups: scoresOfGroups(metric, judged) } : {}),
    };
  });
}

interface Judged {
  readonly id: string;
  readonly group: string | undefined;
  readonly vector: readonly number[];
}

export function vectorsOf(metric: Metric, { id, group, verdict }: JudgedItem): Judged[] {
  const found = verdict ? own(verdict, metric.of) : undefined;
  return found === undefined ? [] : [{ id, group, vector: typeof found === "number" ? [found] : found }];
}

/** Items that are resampled among themselves: those of each group where groups count alike, else all. */
function strataOf(metric: Metric, judged: readonly Judged[]): (readonly (readonly number[])[])[] {
  if (metric.by !== "group mean") return judged.length === 0 ? [] : [judged.map(({ vector }) => vector)];
  return [...groupBy(judged, ({ group }) => group ?? "").values()].map((items) => items.map(({ vector }) => vector));
}

const countOf = (vectors: readonly unknown[]) => vectors.length;

export function combine(metric: Metric, sums: readonly (readonly number[])[], counts: readonly number[]): number {
  if (metric.by === "corpus") return metric.score?.(sums[0] ?? []) ?? Number.NaN;
  const means = sums.map(([sum = 0], i) => sum / (counts[i] ?? 1));
  return means.reduce((total, mean) => total + mean, 0) / means.length;
}

function scoresOfGroups(metric: Metric, judged: readonly Judged[]): NonNullable<Score["groups"]> {
  const groups = groupBy(judged, ({ group }) => group ?? "");
  return Object.fromEntries(
    [...groups].map(([group, items]) => {
      const vectors = items.map(({ vector }) => vector);
      return [group, { value: combine(metric, [sumVectors(vectors)], [vectors.length]), items: items.length }];
    }),
  );
}

export interface Comparison {
  readonly metric: string;
  readonly title: string;
  readonly scale: Metric["scale"];
  /** Items that both have a verdict on; all numbers here are of these. */
  readonly items: number;
  readonly first: number;
  readonly second: number;
  /** Second less first. */
  readonly difference: number;
  /**
   * Of the difference: where each item is right or wrong, Newcombe's, at each end as wide as McNemar's exact test; else a
   * bootstrap of both models on the same resampled items. It includes 0 where `pValue` is 0.05 or more. Undefined where the
   * bootstrap has no width, or of fewer than two items.
   */
  readonly interval: Interval | undefined;
  /** Items that only the second got right, and that only the first did; of metrics that are right or wrong per item. */
  readonly gained: readonly string[];
  readonly lost: readonly string[];
  /** Share of the items that flipped; undefined where verdicts are not right or wrong. */
  readonly discordance: number | undefined;
  /**
   * McNemar's exact test where items are right or wrong, else a sign-flip test of the items' differences; of a corpus
   * score, a randomisation test that swaps the models' outputs. Undefined of a mean over groups.
   */
  readonly pValue: number | undefined;
  /** Items left out: in one of the two only, or without a verdict in one. */
  readonly leftOut: number;
}

/** The same comparison with the first and the second in each other's place. */
export function turned<C extends Comparison>(one: C): C {
  const interval = one.interval && { ...one.interval, low: -one.interval.high, high: -one.interval.low };
  const values = { first: one.second, second: one.first, difference: -one.difference };
  return { ...one, ...values, interval, gained: one.lost, lost: one.gained };
}

/**
 * Compares two models on the same items of a task.
 * @throws RecipeError where they have no item in common, or an id stands twice
 */
export function compareItems(
  metric: Metric,
  first: readonly JudgedItem[],
  second: readonly JudgedItem[],
  options: Omit<BootstrapOptions, "level"> = {},
): Comparison {
  const [before, after] = [first, second].map((items, side) => byId(metric, items, side));
  const pairs = [...(before ?? [])].flatMap(([id, one]) => {
    const other = after?.get(id);
    return other ? [{ id, one, other }] : [];
  });
  if (pairs.length === 0) {
    const [one, other] = [first, second].map((items) => {
      const ids = items.slice(0, 2).map(({ id }) => shorten(id));
      return plural(items.length, "item") + (ids.length > 0 ? ` such as ${ids.join(" and ")}` : "");
    });
    throw new RecipeError(
      `the two have no judged items in common (first: ${one}; second: ${other}). Compare results of the same task and protocol`,
    );
  }
  const width = pairs[0]?.one.vector.length ?? 0;
  // Each item has both models' sums side by side, so that a resampled item is resampled for both.
  const joined = pairs.map(({ id, one, other }) => ({
    id,
    group: one.group,
    vector: [...one.vector, ...other.vector],
  }));
  const strata = strataOf(metric, joined);
  const side = (sums: readonly (readonly number[])[], counts: readonly number[], from: number) =>
    combine(
      metric,
      sums.map((sum) => sum.slice(from, from + width)),
      counts,
    );
  const [sums, counts] = [strata.map(sumVectors), strata.map(countOf)];
  const [own, others] = [side(sums, counts, 0), side(sums, counts, width)];
  const isRightOrWrong =
    metric.by !== "corpus" && joined.every(({ vector }) => vector.every((value) => value === 0 || value === 1));
  const flips = (from: number) =>
    isRightOrWrong ? pairs.filter(({ one, other }) => one.vector[0] === from && other.vector[0] === 1 - from) : [];
  const [gained, lost] = [flips(0), flips(1)];
  const pValue = isRightOrWrong ? mcnemarExact(gained.length, lost.length) : signsOf(metric, pairs, options.seed);
  const intervalOf = (): Interval | undefined => {
    if (isRightOrWrong) {
      const right = strata.map((items) => [items.filter(([one, other]) => one === 1 && other === 1).length]);
      const shares = { first: own, second: others, both: combine(metric, right, counts) };
      const { standardError } = meanWithError(joined.map(({ vector: [one = 0, other = 0] }) => other - one));
      const flips = { gained: gained.length, lost: lost.length };
      const ends = pairedInterval(shares, effectiveItems(strata), flips);
      return { ...ends, level: WILSON_LEVEL, deviation: standardError };
    }
    const drawn = bootstrapInterval(
      strata,
      (sums, counts) => side(sums, counts, width) - side(sums, counts, 0),
      options,
    );
    if (!hasWidth(drawn)) return undefined;
    // Percentiles of few items are too narrow: what the exact test does not reject belongs to the interval.
    const isRejected = pValue === undefined || pValue < 1 - drawn.level;
    return isRejected ? drawn : { ...drawn, low: Math.min(0, drawn.low), high: Math.max(0, drawn.high) };
  };
  const ids = new Set([...first, ...second].map(({ id }) => id));
  return {
    metric: metric.name,
    title: metric.title,
    scale: metric.scale,
    items: pairs.length,
    first: own,
    second: others,
    difference: others - own,
    interval: pairs.length < 2 ? undefined : intervalOf(),
    gained: gained.map(({ id }) => id),
    lost: lost.map(({ id }) => id),
    discordance: isRightOrWrong ? (gained.length + lost.length) / pairs.length : undefined,
    pValue,
    leftOut: ids.size - pairs.length,
  };
}

/** The sign-flip test of two models' values per item; of a corpus score, models swap what they gave. */
function signsOf(
  metric: Metric,
  pairs: readonly { readonly one: Judged; readonly other: Judged }[],
  seed: number | undefined,
): number | undefined {
  if (metric.by === "corpus") {
    const [first, second] = [pairs.map(({ one }) => one.vector), pairs.map(({ other }) => other.vector)];
    return swapTest(first, second, (sums) => metric.score?.(sums) ?? Number.NaN, seed);
  }
  const sides = [pairs.map(({ one }) => one), pairs.map(({ other }) => other)].map((items) => addedBy(metric, items));
  const [before, after] = sides;
  if (metric.by === "group mean" || !before || !after) return undefined;
  return signFlipTest(
    after.map((value, i) => value - (before[i] ?? 0)),
    seed,
  );
}

/** What each item adds to a score, with the score as their mean; undefined where it is not defined without some item. */
function addedBy(metric: Metric, items: readonly Judged[]): number[] | undefined {
  const vectors = items.map(({ vector }) => vector);
  if (metric.by === "corpus") return pseudoValues(vectors, (sums) => metric.score?.(sums) ?? Number.NaN);
  const values = vectors.map(([value = Number.NaN]) => value);
  if (metric.by === "mean") return values;
  const groups = groupBy(items, ({ group }) => group ?? "");
  const means = new Map(
    [...groups].map(([group, own]) => [group, meanWithError(own.map(({ vector }) => vector[0] ?? Number.NaN)).mean]),
  );
  const score = [...means.values()].reduce((sum, mean) => sum + mean, 0) / means.size;
  return items.map(({ group = "" }, i) => {
    const weight = items.length / (groups.size * (groups.get(group)?.length ?? 1));
    return score + weight * ((values[i] ?? Number.NaN) - (means.get(group) ?? Number.NaN));
  });
}

/**
 * Compares two methods of which one has several runs, such as seeds: runs and items vary (`crossedDifference`). Of a corpus score, p is
 * never below that of the items alone (`swapTest`), whatever the runs say.
 * @param first judged items of each run
 * @param options.seed of the swaps. Default: 0
 * @throws RecipeError where the runs have no item in common, or an id stands twice
 */
export function compareRuns(
  metric: Metric,
  first: readonly (readonly JudgedItem[])[],
  second: readonly (readonly JudgedItem[])[],
  { seed }: { readonly seed?: number | undefined } = {},
): Comparison & { readonly degrees: number } {
  const runs = [first, second].map((side, at) => side.map((items) => byId(metric, items, at)));
  const all = runs.flat();
  const ids = new Set(all.flatMap((run) => [...run.keys()]));
  const shared = [...ids].filter((id) => all.every((run) => run.has(id)));
  if (shared.length === 0)
    throw new RecipeError("the runs have no judged items in common; compare results of the same task");
  const [before, after] = runs.map((side, at) =>
    side.map((run, number): CrossedModel => {
      const items = shared.flatMap((id) => run.get(id) ?? []);
      const added = addedBy(metric, items) ?? [];
      const levels = side.length > 1 ? { [at === 0 ? "first" : "second"]: String(number) } : {};
      return { levels, values: new Map(added.map((value, i) => [items[i]?.id ?? "", value])) };
    }),
  );
  const found = crossedDifference(before ?? [], after ?? []);
  const { difference, interval, degrees } = found;
  const swapped = metric.by === "corpus" ? swapOfRuns(metric, runs, shared, seed) : undefined;
  const pValue = found.pValue === undefined ? undefined : Math.max(found.pValue, swapped ?? 0);
  // What the test of the items does not reject belongs to the interval, as in `compareItems`.
  const isWide = interval !== undefined && swapped !== undefined && swapped >= 1 - interval.level;
  const covering = isWide
    ? { ...interval, low: Math.min(0, interval.low), high: Math.max(0, interval.high) }
    : interval;
  return {
    metric: metric.name,
    title: metric.title,
    scale: metric.scale,
    items: shared.length,
    first: found.first,
    second: found.second,
    difference,
    interval: covering,
    pValue,
    degrees,
    gained: [],
    lost: [],
    discordance: undefined,
    leftOut: ids.size - shared.length,
  };
}

/** The p of methods that swap what all of their runs gave for an item. The sums of a method are the means of its runs'. */
function swapOfRuns(
  metric: Metric,
  sides: readonly (readonly ReadonlyMap<string, Judged>[])[],
  ids: readonly string[],
  seed: number | undefined,
): number | undefined {
  const [first = [], second = []] = sides.map((runs) =>
    ids.map((id) => {
      const vectors = runs.flatMap((run) => [run.get(id)?.vector ?? []]);
      return sumVectors(vectors).map((sum) => sum / vectors.length);
    }),
  );
  return swapTest(first, second, (sums) => metric.score?.(sums) ?? Number.NaN, seed);
}

function byId(metric: Metric, items: readonly JudgedItem[], side: number): Map<string, Judged> {
  const found = new Map<string, Judged>();
  const seen = new Set<string>();
  for (const item of items) {
    if (seen.has(item.id)) {
      throw new RecipeError(`the ${side === 0 ? "first" : "second"} samples have item ${item.id} twice`);
    }
    seen.add(item.id);
    const [judged] = vectorsOf(metric, item);
    if (judged) found.set(item.id, judged);
  }
  return found;
}
