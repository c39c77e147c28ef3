import { own } from "../../core/index.js";
import type { Metric, Verdict } from "../tasks/index.js";

/**
 * A metric as the mean of its values per item, and as the mean of the means of groups: those that are the reported score.
 * It is both where groups have one size or one score, so that one of the two is in all results.
 */
export function meanMetric(
  { name, title, value: reported }: { readonly name: string; readonly title: string; readonly value: number },
  samples: readonly { readonly group?: string; readonly verdict: Verdict }[],
): Metric[] {
  const groups = new Map<string, { sum: number; count: number }>();
  let isShare = true;
  for (const { group = "", verdict } of samples) {
    const value = own(verdict, name);
    if (typeof value !== "number") continue;
    const { sum, count } = groups.get(group) ?? { sum: 0, count: 0 };
    groups.set(group, { sum: sum + value, count: count + 1 });
    isShare &&= value >= 0 && value <= 1;
  }
  const all = [...groups.values()];
  const mean = all.reduce((total, { sum }) => total + sum, 0) / all.reduce((total, { count }) => total + count, 0);
  const meanOfGroups = all.reduce((total, { sum, count }) => total + sum / count, 0) / all.length;
  const isClose = (one: number) => Math.abs(one - reported) <= 1e-6 * Math.max(1, Math.abs(reported));
  const found = [
    ...(isClose(mean) ? (["mean"] as const) : []),
    ...(isClose(meanOfGroups) ? (["group mean"] as const) : []),
  ];
  const scale = isShare ? "share" : "points";
  return found.slice(0, all.length).map((by) => ({ name, title, of: name, by, scale }));
}
