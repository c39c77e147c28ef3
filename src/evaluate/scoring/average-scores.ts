import { groupBy } from "../../kit/index.js";
import { sumVectors } from "../metrics/segments.js";
import type { Metric } from "../tasks/task.js";
import { combine, type JudgedItem, scoreItems, vectorsOf } from "./scores.js";
import { type BootstrapOptions, bootstrapInterval, type Interval } from "./statistics.js";

/** What one model is worth on the items of one task. */
export interface ScoredItems {
  readonly metric: Metric;
  readonly items: readonly JudgedItem[];
  /** Default: 1. */
  readonly weight?: number;
}

/**
 * The weighted mean of scores.
 *
 * An item with the same id in several of them is resampled in all of them together: answers of several models to one
 * question, or to its translations, are not independent.
 * @returns interval: the score's own if there is one, otherwise the percentile bootstrap's; undefined where that has no
 *   width, and of fewer than two items
 */
export function averageScore(
  scores: readonly ScoredItems[],
  options: Omit<BootstrapOptions, "level"> = {},
): { readonly value: number; readonly interval: Interval | undefined } {
  const [only, another] = scores;
  if (only && !another) {
    const [score] = scoreItems([only.metric], only.items, options);
    return { value: score?.value ?? Number.NaN, interval: score?.interval };
  }
  const judged = scores.map(({ metric, items }) => {
    return new Map(items.flatMap((item) => vectorsOf(metric, item)).map((one) => [one.id, one]));
  });
  const widths = judged.map((items) => [...items.values()][0]?.vector.length ?? 0);
  const starts = widths.map((_, i) => widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  const ids = [...new Set(judged.flatMap((items) => [...items.keys()]))];
  // Items that are in the same scores, and in the same groups there.
  const strata = [
    ...groupBy(ids, (id) =>
      JSON.stringify(
        judged.map((items, i) => {
          const one = items.get(id);
          return one && (scores[i]?.metric.by === "group mean" ? (one.group ?? "") : true);
        }),
      ),
    ).values(),
  ];
  const vectors = strata.map((stratum) =>
    stratum.map((id) =>
      judged.flatMap((items, i) => items.get(id)?.vector ?? new Array<number>(widths[i] ?? 0).fill(0)),
    ),
  );
  // Of each score: the strata of each of its groups.
  const groups = scores.map(({ metric }, i) => {
    const own = strata.flatMap((stratum, s) => {
      const first = judged[i]?.get(stratum[0] ?? "");
      return first ? [{ s, group: metric.by === "group mean" ? (first.group ?? "") : "" }] : [];
    });
    return [...groupBy(own, ({ group }) => group).values()].map((some) => some.map(({ s }) => s));
  });
  const weights = scores.map(({ weight = 1 }) => weight);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const average = (sums: readonly (readonly number[])[], counts: readonly number[]) => {
    const each = scores.map(({ metric }, i) => {
      const [start = 0, width = 0] = [starts[i], widths[i]];
      const of = groups[i] ?? [];
      const inGroups = of.map((some) => sumVectors(some.map((s) => (sums[s] ?? []).slice(start, start + width))));
      return combine(
        metric,
        inGroups,
        of.map((some) => some.reduce((sum, s) => sum + (counts[s] ?? 0), 0)),
      );
    });
    return each.reduce((sum, one, i) => sum + one * (weights[i] ?? 1), 0) / total;
  };
  const value = average(
    vectors.map(sumVectors),
    vectors.map(({ length }) => length),
  );
  if (ids.length < 2 || judged.some(({ size }) => size === 0)) return { value, interval: undefined };
  const interval = bootstrapInterval(vectors, average, options);
  return { value, interval: interval.low < interval.high ? interval : undefined };
}
