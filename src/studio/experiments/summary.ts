// What the page shows of an experiment: its status and report, cut to a size that a page can show.

import { isDifferent } from "../../evaluate/findings/index.js";
import { scoreTexts } from "../../evaluate/index.js";
import type { Experiment, ExperimentStatus } from "../../experiment/index.js";
import { type ExperimentReport, inWords, type Overview, type ReportHeatmap } from "../../experiment/report/index.js";
import { findingText, formatNumber, formatSpan, formatTick, scoreAxis } from "../../figures/index.js";
import { visible } from "../../kit/printing/index.js";
import type { Experiment as Shown } from "../protocol/index.js";

const MAX_TEXT = 400;
const MAX_ROWS = 200;
const MAX_TASKS = 40;
const MAX_LISTED = 12;

/** What comes from the folder and not from the experiment. */
export type PlanPlace = Pick<Shown, "plan" | "version" | "planDigest" | "runner" | "report">;

export function summarize(
  { plan, programs, world, out }: Experiment,
  status: ExperimentStatus,
  report: ExperimentReport,
  place: PlanPlace,
): Shown {
  const { counts, steps, seconds, estimate } = status;
  const overviews = shownOverviews(report).slice(0, MAX_TASKS);
  const rows = rowsOf(overviews, report);
  return {
    ...place,
    title: clip(plan.title ?? plan.name),
    folder: out,
    reportUrl: null,
    seconds,
    // Their sum is a guess, which need not be whole.
    counts: { ...counts, waiting: Math.round(counts.waiting) },
    secondsLeft: estimate.seconds ?? null,
    workers: estimate.workers,
    problems: world.problems.slice(0, MAX_LISTED).map(clip),
    notes: world.notes.map(clip),
    programs: programs.map((one) => ({ ...one })),
    tasks: overviews.map(taskOf),
    rows: rows.slice(0, MAX_ROWS),
    maps: (report.kind === "plan" ? report.heatmaps : []).slice(0, MAX_LISTED).map(mapOf),
    moreRows: Math.max(0, rows.length - MAX_ROWS),
    intervals: report.intervals,
    running: steps.flatMap(({ step, state }) =>
      state.state === "running" ? [{ label: clip(step.label), since: clip(state.since) }] : [],
    ),
    failed: report.failures
      .slice(0, MAX_LISTED)
      .map(({ label, reason }) => ({ label: clip(label), reason: clip(reason) })),
  };
}

/** The main tables; of a matrix, that of each variant's first task. */
function shownOverviews(report: ExperimentReport): readonly Overview[] {
  if (report.kind === "plan") return report.overviews;
  return report.variants.flatMap(({ title, report }) => report.overviews.slice(0, 1).map((one) => ({ ...one, title })));
}

export function clip(text: string): string {
  const plain = visible(text);
  return plain.length > MAX_TEXT ? `${plain.slice(0, MAX_TEXT)}…` : plain;
}

function taskOf({ title, items, protocol, finding, choice, scale, bars }: Overview): Shown["tasks"][number] {
  const { low, high, ticks } = scoreAxis(bars, scale);
  const unit = scale === "share" ? "%" : "";
  return {
    title: clip(title),
    about: clip(`${items}; ${protocol}`),
    sentences: [findingText(finding), choice].filter((sentence) => sentence !== "").map(clip),
    axis: { low, high, ticks: ticks.map((tick) => `${formatTick(tick, scale)}${unit}`) },
  };
}

/** The best cell is marked with all that cannot be told from it. */
function mapOf({
  title,
  merge = "",
  note,
  rowTitle,
  columnTitle,
  rows,
  columns,
  cells,
  behind,
}: ReportHeatmap): Shown["maps"][number] {
  const known = cells.flat().filter((cell) => cell !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const text = (value: number) => formatNumber({ value, scale: "share" });
  return {
    title: clip(title),
    merge,
    about: clip(note),
    rows: rows.map(clip),
    columns: columns.map(clip),
    fields: [rowTitle, columnTitle],
    cells: cells.map((row, r) =>
      row.map((value, c) => {
        if (value === null) return null;
        const { behind: less = 0, margin = 0 } = behind?.[r]?.[c] ?? {};
        const isBest = !isDifferent({ interval: { low: less - margin, high: less + margin } });
        const about = less === 0 ? "the best" : `${text(-less)} ± ${text(margin)} points behind the best`;
        return { score: `${text(value)}%`, about, shade: (value - low) / (high - low || 1), isBest };
      }),
    ),
  };
}

const keyOf = ({ label, detail }: { readonly label: string; readonly detail: string }) => `${label}\n${detail}`;

/** The rows of all tasks, in the order of the report, each once. */
function rowsOf(overviews: readonly Overview[], report: ExperimentReport): Shown["rows"][number][] {
  const rows = new Map(overviews.flatMap(({ rows: own }) => own.map((row) => [keyOf(row), row] as const)));
  const cells = overviews.map(cellsOf);
  const recipes = new Map((report.kind === "plan" ? report.recipes : []).map(({ id, model }) => [model, id]));
  return [...rows].map(([key, { label, kind, own = null, ...row }]) => {
    const models = new Set(
      overviews.flatMap(({ bars }) => bars.filter((bar) => keyOf(bar) === key)).flatMap((bar) => bar.models),
    );
    const [model = ""] = models;
    return {
      label: clip(label),
      detail: clip(inWords(row)),
      kind,
      own,
      recipe: (models.size === 1 && recipes.get(model)) || null,
      cells: cells.map((own) => own.get(key) ?? null),
    };
  });
}

type Cell = Shown["rows"][number]["cells"][number];

function cellsOf({ scale, bars, rows }: Overview): Map<string, Cell> {
  const waits = rows.map((row) => [keyOf(row), "waits"] as const);
  const scored = bars.map((bar) => {
    const { mean: value, interval, count, isBest } = bar;
    const { unit, ...texts } = scoreTexts({ value, scale, interval });
    const [low, high] = [interval?.low ?? null, interval?.high ?? null];
    const range = count > 1 ? `${formatSpan(bar, { scale })}${unit}` : null;
    return [keyOf(bar), { ...texts, value, low, high, range, isBest }] as const;
  });
  return new Map<string, Cell>([...waits, ...scored]);
}
