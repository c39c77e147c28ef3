// An experiment on the terminal: what it will take, where it stands, what came out. Plain data in, lines out.
import { formatBytes, formatDuration, plural } from "../core/format.js";
import type { ExperimentStatus, Outlook } from "../experiment/experiment.js";
import type { Overview } from "../experiment/report/data.js";
import type { StepKind } from "../experiment/steps/step.js";
import { formatCell } from "./experiment.js";
import { describeCounts } from "./experiment-progress.js";
import { formatTable } from "./table.js";

const KINDS: readonly (readonly [StepKind, string])[] = [
  ["train", "training"],
  ["analyze", "analysis"],
  ["evaluate", "evaluation"],
];

/** Kinds of steps that cannot be named yet, of which so many are told one by one. */
const MOST_LATER = 12;

/** Steps, hours and bytes. */
export function outlookLines({ expansion, estimate }: Outlook): string[] {
  const counts = new Map(KINDS.map(([kind]) => [kind, expansion.steps.filter((step) => step.kind === kind).length]));
  const models = (kind: string) => expansion.models.filter(({ model }) => model.kind === kind).length;
  const later = expansion.waiting.toSorted((a, b) => b.steps - a.steps);
  const waiting = [
    ...later.slice(0, MOST_LATER).map(({ what, steps }) => `  about ${plural(steps, "step")}: ${what}`),
    ...(later.length > MOST_LATER
      ? [
          `  about ${plural(
            later.slice(MOST_LATER).reduce((sum, { steps }) => sum + steps, 0),
            "step",
          )} of ${later.length - MOST_LATER} other kinds`,
        ]
      : []),
  ];
  const header = ["step", ">now", ">time, one after another"];
  const rows = KINDS.map(([kind, name]) => [
    name,
    String(counts.get(kind) ?? 0),
    estimate ? formatDuration(estimate.seconds[kind]) : "?",
  ]);
  return [
    `models known now: base, ${plural(models("expert"), "expert")}, ${plural(models("merge"), "merge")}`,
    "",
    ...formatTable(header, rows),
    ...(waiting.length > 0 ? ["", "later, when results say which:", ...waiting] : []),
    "",
    ...(estimate
      ? [
          `about ${formatDuration(estimate.wallSeconds)} in all, side by side; ${formatBytes(estimate.bytes)} on the disk`,
          estimate.isMeasured
            ? "from what the steps so far took"
            : `assuming ${formatSpeed(estimate.speed.evaluate)} for a step; from what they take as soon as some are done`,
        ]
      : ["how long it will take is unknown without the base; give its sizes under assume"]),
  ];
}

function formatSpeed(operations: number): string {
  return operations >= 1e12 ? `${Math.round(operations / 1e12)} TFLOP/s` : `${Math.round(operations / 1e9)} GFLOP/s`;
}

/** What is done, running, left, and why steps failed. */
export function statusLines({ counts, steps, expansion, estimate, seconds }: ExperimentStatus): string[] {
  const lines = [describeCounts(counts)];
  const of = (state: string) => steps.filter((one) => one.state.state === state);
  for (const { step, state } of of("running")) {
    if (state.state === "running") lines.push(`running  ${step.label} (since ${state.since})`);
  }
  for (const { step, state } of of("failed")) {
    if (state.state === "failed") lines.push(`failed   ${step.label}: ${state.reason}`);
  }
  const left = of("pending");
  for (const { step } of left.slice(0, 10)) lines.push(`left     ${step.label}`);
  if (left.length > 10) lines.push(`left     ${left.length - 10} more`);
  for (const { what, steps: some } of expansion.waiting) lines.push(`later    about ${plural(some, "step")}: ${what}`);
  lines.push(`${formatDuration(seconds)} of work so far`);
  const rest = counts.left + counts.running + counts.waiting;
  if (estimate && rest > 0) lines.push(`about ${formatDuration(estimate.wallSeconds)} to go`);
  return lines;
}

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
