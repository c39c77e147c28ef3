// Published scores beside those of the main tables.
import { formatSome } from "../core/index.js";
import type { PublishedScore } from "../experiment/index.js";
import type { Cell } from "../report/index.js";
import type { Overview, ReportTable } from "./report-data.js";

/** A row for each published score whose task and row the main tables have. */
export function publishedTable(published: readonly PublishedScore[], overviews: readonly Overview[]): ReportTable {
  const rows: Cell[][] = [];
  const missing: string[] = [];
  for (const { task, row, score, min, max } of published) {
    const overview = overviews.find((one) => one.task === task);
    const bar = overview?.bars.find(({ label, labels = [] }) => label === row || labels.includes(row));
    if (!overview || (!bar && !overview.rows.some(({ label }) => label === row))) {
      missing.push(`${row} of ${task}`);
      continue;
    }
    const { scale } = overview;
    const own = { value: bar?.mean, interval: bar?.interval, scale };
    const range = bar && bar.count > 1 ? [bar.low, bar.high] : [null, null];
    const printed = [score, min, max].map((value) => ({ value: onScale(value, scale), scale, digits: 1 }));
    rows.push([overview.title, row, own, ...range.map((value) => ({ value, scale })), ...printed]);
  }
  const absent = missing.length === 0 ? "" : ` Not in the main tables: ${formatSome(missing)}.`;
  return {
    id: "published",
    kind: "published",
    title: "Published scores",
    note: `Means over the models of a row, with their minimum and maximum. Other prompts give other absolute numbers.${absent}`,
    columns: ["task", "row", "score", "min", "max", "published", "published min", "published max"],
    rows,
  };
}

// Rounded: 32.8 / 100 is not 0.328.
function onScale(value: number | undefined, scale: Overview["scale"]): number | null {
  if (value === undefined) return null;
  return scale === "share" ? Number((value / 100).toFixed(6)) : value;
}
