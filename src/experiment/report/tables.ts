// Everything in a report that is a table, as tables of cells: what Markdown prints and CSV and LaTeX are written of. The
// paper's own layouts are paper-tables.ts's.
import type { Cell, ExperimentReport, Flips, Overview, ReportTable, SearchRow } from "./data.js";

const text = (words: string): Cell => ({ value: null, scale: "count", text: words });
const count = (value: number): Cell => ({ value, scale: "count" });

/** The main table of a task. */
export function overviewTable({
  id,
  title,
  protocol,
  items,
  choice,
  verdict,
  missing,
  scale,
  bars,
}: Overview): ReportTable {
  const hasSeveral = bars.some((bar) => bar.count > 1);
  const hasDetail = bars.some(({ detail }) => detail !== "");
  const number = (value: number | null | undefined): Cell => ({ value: value ?? null, scale });
  return {
    ...{ id, kind: "scores", title },
    note: [`On ${items}; ${protocol}.`, INTERVALS, choice, verdict, missing].filter((part) => part !== "").join(" "),
    columns: [
      ...["", ...(hasDetail ? ["what it is"] : []), hasSeveral ? "mean" : "score", "95% from", "95% to"],
      ...(hasSeveral ? ["min", "max", "models"] : []),
    ],
    rows: bars.map((bar) => ({
      label: bar.label,
      cells: [
        ...(hasDetail ? [text(bar.detail)] : []),
        { ...number(bar.mean), isBest: bar.isBest },
        ...[bar.interval?.low, bar.interval?.high].map(number),
        ...(hasSeveral ? [bar.low, bar.high].map((value) => number(bar.count > 1 ? value : null)) : []),
        ...(hasSeveral ? [count(bar.count)] : []),
      ],
    })),
  };
}

/** What intervals are. */
export const INTERVALS =
  "Intervals are 95% over items: Wilson's score interval (1927) where each item is right or wrong, else the bootstrap's.";

/** The configurations of a search. */
export function searchTable({ id, group, configurations, rounds, summary }: SearchRow): ReportTable {
  const share = (value: number): Cell => ({ value: Number.isFinite(value) ? value : null, scale: "share" });
  return {
    ...{ id, kind: "search", title: `Configurations of ${group}` },
    note: `${summary} ${DIFFERENCES}`,
    columns: [
      "configuration",
      "",
      "mean",
      "against the best",
      "± (95%)",
      "items",
      ...(rounds.length > 1 ? ["round"] : []),
    ],
    rows: configurations.map(({ label, mean, behind, margin, items, round, isChosen, isDefault }) => ({
      label,
      cells: [
        text([...(isChosen ? ["chosen"] : []), ...(isDefault ? ["default"] : [])].join(", ")),
        ...[share(mean), share(behind), share(margin), count(items)],
        ...(rounds.length > 1 ? [count(round)] : []),
      ],
    })),
  };
}

const DIFFERENCES = "Differences are from the best of the same round, on the same items; ± is a 95% interval.";

/** The rounds of a search, where there was more than one. */
export function roundsTable({ id, group, rounds }: SearchRow): ReportTable | undefined {
  if (rounds.length < 2) return undefined;
  return {
    ...{ id: `${id}-rounds`, kind: "search", title: `Rounds of the search among ${group}` },
    note: "Items are those that each configuration had been asked by then. Dropped: the worse ones, of equal ones the later in the plan, and those worse than the best beyond chance.",
    columns: ["round", "configurations", "items", "dropped"],
    rows: rounds.map(({ configurations, items, dropped }, i) => ({
      label: String(i + 1),
      cells: [configurations, items, dropped].map(count),
    })),
  };
}

/** What merges gained and lost. */
export function flipsTable(flips: readonly Flips[]): ReportTable {
  const number = (value: number | undefined, scale: Cell["scale"]): Cell => ({ value: value ?? null, scale });
  return {
    ...{ id: "gained-lost", kind: "flips", title: "What each merge gained and lost" },
    note: "Items that became right, and that became wrong, against a model that the merge could replace; the difference with its 95% interval (bootstrap over the same items) and the p of McNemar's exact test. No interval is given where no item changed.",
    columns: ["merge", "against", "task", "difference", "95% from", "95% to", "gained", "lost", "p"],
    rows: flips.map(({ model, against, task, scale, difference, interval, gained, lost, pValue }) => ({
      label: model,
      cells: [
        ...[text(against), text(task)],
        ...[difference, interval?.low, interval?.high].map((value) => number(value, scale)),
        ...[count(gained.length), count(lost.length), number(pValue, "probability")],
      ],
    })),
  };
}

/** What each kind of step cost. */
export function costTable({ rows }: ExperimentReport["cost"]): ReportTable {
  return {
    ...{ id: "cost", kind: "cost", title: "What it cost" },
    note: "Seconds of all steps of a kind together.",
    columns: ["", "steps", "time"],
    rows: rows.map(({ what, steps, seconds }) => ({
      label: what,
      cells: [count(steps), { value: seconds, scale: "seconds" }],
    })),
  };
}
