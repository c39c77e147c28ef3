// The main table of a task on the terminal.
import { count, formatSpan, right, terminalLines } from "../report/index.js";
import type { Overview } from "./report-data.js";

/** A longer configuration is printed below the table. */
const MAX_DETAIL = 32;

/** The main table of a task with its notes. */
export function overviewLines({ title, protocol, items, choice, verdict, missing, bars, scale }: Overview): string[] {
  const hasSeveral = bars.some((bar) => bar.count > 1);
  const isLong = ({ detail }: Overview["bars"][number]) => detail.length > MAX_DETAIL;
  const details = bars.filter(isLong).map(({ label, detail }) => `${label}: ${detail}`);
  const rows = bars.map((bar) => {
    const { label, detail, mean, low, high, interval, isBest } = bar;
    const number = (value: number) => ({ value, scale });
    return [
      detail === "" || isLong(bar) ? label : `${label} (${detail})`,
      { ...number(mean), isBest },
      formatSpan(interval, { scale }),
      ...(hasSeveral ? [low, high].map((value) => (bar.count > 1 ? number(value) : "")) : []),
      ...(hasSeveral ? [count(bar.count)] : []),
    ];
  });
  const columns = ["", hasSeveral ? "mean" : "score", right("95% interval")];
  const several = hasSeveral ? ["min", "max", "models"].map(right) : [];
  return [
    `${title}, on ${items}; ${protocol}`,
    "",
    ...terminalLines({ columns: [...columns, ...several], rows }),
    "",
    ...(details.length > 0 ? [...details, ""] : []),
    ...[choice, verdict, missing].filter((sentence) => sentence !== ""),
  ];
}
