// What the page shows of an experiment: its status and report, cut to a size that a page can show.
import { visible } from "../../core/index.js";
import type { Experiment, ExperimentStatus } from "../../experiment/index.js";
import type { ExperimentReport, Overview } from "../../findings/index.js";
import { formatNumber, formatSpan, type Span } from "../../report/index.js";
import type { Experiment as Shown } from "../protocol/index.js";
import { programsOf } from "./programs.js";

const MOST_TEXT = 400;
const MOST_ROWS = 200;
const MOST_TASKS = 40;
const MOST_LISTED = 12;

/** What comes from the folder and not from the experiment. */
export type Place = Pick<Shown, "plan" | "version" | "planDigest" | "runner" | "report">;

export function summarize(
  { plan, variants, world, out }: Experiment,
  status: ExperimentStatus,
  report: ExperimentReport,
  place: Place,
): Shown {
  const { counts, steps, seconds, estimate, expansion } = status;
  const overviews = shownOverviews(report).slice(0, MOST_TASKS);
  const rows = rowsOf(overviews, report);
  const pending = steps.flatMap(({ step, state }) =>
    state.state === "pending" ? [{ label: clip(step.label), reason: state.reason ? clip(state.reason) : null }] : [],
  );
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
    problems: world.problems.slice(0, MOST_LISTED).map(clip),
    notes: world.notes.map(clip),
    programs: programsOf(variants.length > 0 ? variants.map((variant) => variant.plan) : [plan]),
    tasks: overviews.map(taskOf),
    rows: rows.slice(0, MOST_ROWS),
    moreRows: Math.max(0, rows.length - MOST_ROWS),
    intervals: report.intervals,
    running: steps.flatMap(({ step, state }) =>
      state.state === "running" ? [{ label: clip(step.label), since: clip(state.since) }] : [],
    ),
    failed: report.failures
      .slice(0, MOST_LISTED)
      .map(({ label, reason }) => ({ label: clip(label), reason: clip(reason) })),
    next: pending.slice(0, MOST_LISTED),
    moreNext: Math.max(0, pending.length - MOST_LISTED),
    later: expansion.waiting
      .toSorted((a, b) => b.steps - a.steps)
      .slice(0, MOST_LISTED)
      .map(({ what, steps: many }) => ({ what: clip(what), steps: Math.round(many) })),
    cost: report.cost.rows.map((row) => ({ ...row })),
  };
}

/** The main tables; of a matrix, that of each variant's first task. */
function shownOverviews({ overviews, variants }: ExperimentReport): readonly Overview[] {
  if (variants.length === 0) return overviews;
  return variants.flatMap(({ title, report }) => report.overviews.slice(0, 1).map((one) => ({ ...one, title })));
}

export function clip(text: string): string {
  const plain = visible(text);
  return plain.length > MOST_TEXT ? `${plain.slice(0, MOST_TEXT)}…` : plain;
}

function taskOf(overview: Overview): Shown["tasks"][number] {
  const { title, items, protocol, verdict, choice, scale } = overview;
  return {
    title: clip(title),
    about: clip(`${items}; ${protocol}`),
    sentences: [verdict, choice].filter((sentence) => sentence !== "").map(clip),
    axis: formatSpan(axisOf(overview), { scale, digits: 0 }),
  };
}

const keyOf = ({ label, detail }: { readonly label: string; readonly detail: string }) => `${label}\n${detail}`;

/** The rows of all tasks, in the order of the report, each once. */
function rowsOf(overviews: readonly Overview[], report: ExperimentReport): Shown["rows"][number][] {
  const rows = new Map(overviews.flatMap(({ rows: own }) => own.map((row) => [keyOf(row), row] as const)));
  const cells = overviews.map((overview) => cellsOf(overview));
  const recipes = new Map(report.recipes.map(({ id, model }) => [model, id]));
  return [...rows].map(([key, { label, detail, kind }]) => {
    const models = new Set(
      overviews.flatMap(({ bars }) => bars.filter((bar) => keyOf(bar) === key)).flatMap((bar) => bar.models),
    );
    const [model = ""] = models;
    return {
      label: clip(label),
      detail: clip(detail),
      kind,
      recipe: (models.size === 1 && recipes.get(model)) || null,
      cells: cells.map((own) => own.get(key) ?? null),
    };
  });
}

function cellsOf(overview: Overview): Map<string, Shown["rows"][number]["cells"][number]> {
  const { scale, bars } = overview;
  const axis = axisOf(overview);
  const share = (value: number) => Math.min(1, Math.max(0, (value - axis.low) / (axis.high - axis.low || 1)));
  const scored = bars.map((bar) => {
    const { mean, interval, low, high, isBest } = bar;
    return [
      keyOf(bar),
      {
        text: formatNumber({ value: mean, scale }),
        interval: interval ? formatSpan(interval, { scale }) : null,
        range: bar.count > 1 ? formatSpan({ low, high }, { scale }) : null,
        at: share(mean),
        from: share(interval?.low ?? mean),
        to: share(interval?.high ?? mean),
        isBest,
      },
    ] as const;
  });
  const waits = overview.rows.map((row) => [keyOf(row), "waits"] as const);
  return new Map<string, Shown["rows"][number]["cells"][number]>([...waits, ...scored]);
}

/** Around all scores and intervals of a task, with some room; all of it where there are none. */
function axisOf({ bars, scale }: Overview): Span {
  const [least, most] = [0, scale === "share" ? 1 : 100];
  const ends = bars.flatMap(({ mean, interval }) => [mean, interval?.low ?? mean, interval?.high ?? mean]);
  if (ends.length === 0) return { low: least, high: most };
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = Math.max(0.05 * most, 0.1 * (high - low));
  return { low: Math.max(least, low - room), high: Math.min(Math.max(most, high), high + room) };
}
