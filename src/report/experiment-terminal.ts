// The result of an experiment on the terminal: a table for each task. Plain data in, lines out; what a run will take and
// where it stands is experiment-outlook.ts's.
import type { Overview } from "../experiment/report/data.js";
import { formatCell } from "./experiment.js";
import { formatTable } from "./table.js";

/** Characters of a configuration that stand beside a name. */
const MOST_DETAIL = 32;

/** The ways of making models on one task, with 95% intervals, and what a reader must know of them. */
export function overviewLines({ title, protocol, items, choice, verdict, missing, bars, scale }: Overview): string[] {
  const hasSeveral = bars.some(({ count }) => count > 1);
  // A configuration of many fields would make every line as long as itself; it stands below.
  const isLong = ({ detail }: Overview["bars"][number]) => detail.length > MOST_DETAIL;
  const details = bars.filter(isLong).map(({ label, detail }) => `${label}: ${detail}`);
  const rows = bars.map((bar) => {
    const { label, detail, mean, low, high, count, interval, isBest } = bar;
    return [
      detail === "" || isLong(bar) ? label : `${label} (${detail})`,
      `${formatCell(mean, scale)}${isBest ? " *" : "  "}`,
      interval ? `${formatCell(interval.low, scale)} to ${formatCell(interval.high, scale)}` : "–",
      ...(hasSeveral ? [low, high].map((value) => (count > 1 ? formatCell(value, scale) : "")) : []),
      ...(hasSeveral ? [String(count)] : []),
    ];
  });
  const header = [
    "",
    hasSeveral ? ">mean  " : ">score  ",
    ">95% interval",
    ...(hasSeveral ? [">min", ">max", ">models"] : []),
  ];
  return [
    `${title}, on ${items}; ${protocol}`,
    "",
    ...formatTable(header, rows),
    "",
    ...(details.length > 0 ? [...details, ""] : []),
    ...[choice, verdict, missing].filter((sentence) => sentence !== ""),
  ];
}
