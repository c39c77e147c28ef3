// What a merge shows: its plan, what was measured for it, and what it wrote.
import { right, type Shown, type StripLayer } from "../figures/index.js";
import { groupBy } from "../kit/index.js";
import { formatBytes, formatCount, formatDuration, formatPercent, plural } from "../kit/printing/index.js";
import { methodOf, type Plan } from "../merge/index.js";
import { type ExecuteResult, type PlanSummary, sourceLabels } from "../merge/output/index.js";
import type { TaskScore } from "./evaluate.js";
import type { MergeEvaluation } from "./merge.js";

/** The plan, from its headline to its notes. @param further lines on what follows the merge */
export function showPlan(
  plan: Plan,
  summary: PlanSummary,
  notes: readonly string[],
  further: readonly string[],
): Shown[] {
  const { recipe } = plan;
  const method = methodOf(recipe);
  const byMagnitude = plan.measurements.some(({ kind }) => kind === "magnitude");
  const weights = byMagnitude ? "by inverse magnitude" : method.weighting?.(recipe);
  const measuring = summary.bytesToMeasure > 0 ? ` (${formatBytes(summary.bytesToMeasure)} to measure)` : "";
  const averaged = summary.ownership.some(({ origins }) => origins.some((origin) => origin.length > 1));
  const widest = Math.max(...plan.sources.map(({ id }) => id.length));
  const isCopy = plan.sources.length === 1 && summary.computed === 0 && plan.layerOrder === undefined;
  return [
    { kind: "text", tone: "bold", lines: [method.headline(recipe)] },
    {
      kind: "text",
      isTight: true,
      lines: [
        `${plan.architecture}, ${plan.layers} layers, ${formatCount(summary.parameters)} parameters`,
        ...plan.sources.map(({ id, name }) => `  ${id.padEnd(widest)}  ${name}`),
      ],
    },
    { kind: "strip", layers: named(summary.ownership, plan) },
    {
      kind: "text",
      lines: [
        ...(averaged && weights ? [`averages weighted ${weights}`] : []),
        ...describeMeasurements(plan.measurements),
        ...describeAdapter(summary, plan.measurements.length > 0),
        `${plural(summary.copied, "tensor")} copied, ${summary.computed} computed${
          summary.adapter ? "" : `; tokenizer from ${plan.tokenizerFrom}`
        }`,
        `read ${formatBytes(summary.bytesToRead)}${measuring}; write ${formatBytes(summary.bytesToWrite)}`,
        ...describeFetch(summary),
        ...further,
        ...notes.map((note) => `note: ${note}`),
        ...(isCopy ? ["note: the output is a copy of the only model"] : []),
      ],
    },
  ];
}

/** `Wrote merged: 75 tensors, 1.76 MB in 1 file, 266 ms`. */
export function wroteLine(result: ExecuteResult, summary: PlanSummary, out: string, seconds: number): string {
  if (result.alreadyComplete) return `${out} is already complete`;
  return (
    `${result.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${plural(summary.tensors, "tensor")}, ` +
    `${formatBytes(summary.adapter ? result.bytesWritten : summary.bytesToWrite)} in ${plural(result.files.length, "file")}, ` +
    `${result.bytesFetched > 0 ? `${formatBytes(result.bytesFetched)} fetched, ` : ""}${formatDuration(seconds)}`
  );
}

function describeFetch({ bytesToFetch, bytesOnHub }: PlanSummary): string[] {
  if (bytesOnHub === 0) return [];
  const share = formatPercent(bytesToFetch / bytesOnHub);
  return [
    `fetch ${formatBytes(bytesToFetch)} from the hub, ${share} of the ${formatBytes(bytesOnHub)} of a whole download`,
  ];
}

function describeAdapter({ adapter }: PlanSummary, isBound: boolean): string[] {
  if (!adapter) return [];
  const { matrices, whole } = adapter;
  const [lowest, highest] = adapter.ranks;
  const rank = isBound ? `at most ${highest}` : lowest === highest ? `${highest}` : `${lowest} to ${highest}`;
  const saved = whole > 0 ? `, and ${plural(whole, "tensor")} saved whole` : "";
  return [`adapter of rank ${rank} for ${matrices === 1 ? "1 matrix" : `${formatCount(matrices)} matrices`}${saved}`];
}

/** Magnitudes one by one; measurements per tensor by their number. */
function describeMeasurements(measurements: Plan["measurements"]): string[] {
  const magnitudes = measurements.filter(({ kind }) => kind === "magnitude");
  const others = groupBy(
    measurements.filter(({ kind }) => kind !== "magnitude"),
    ({ label }) => label,
  );
  return [
    ...magnitudes.map(
      ({ id }) => `measure ${id}: every floating-point tensor, each input feature (column) counted once`,
    ),
    ...[...others].map(([label, all]) =>
      all.length === 1 ? `measure ${label}` : `measure ${label}, for ${plural(all.length, "tensor")}`,
    ),
  ];
}

/** Magnitudes and the weights they give. */
export function describeMeasured(
  measurements: Plan["measurements"],
  measured: Readonly<Record<string, readonly number[]>>,
): string[] {
  const magnitudes = measurements.flatMap((one) => {
    const [value] = measured[one.id] ?? [];
    return one.kind === "magnitude" && value !== undefined ? [{ id: one.id, against: one.against, value }] : [];
  });
  const sum = magnitudes.reduce((total, { value }) => total + 1 / value, 0);
  const isOneAverage = new Set(magnitudes.map(({ against }) => against)).size === 1;
  return magnitudes.map(({ id, value }) => {
    const weight = isOneAverage ? `, weight ${(1 / value / sum).toFixed(3)}` : "";
    return `${id}: ${value.toExponential(3)}${weight}`;
  });
}

/** The ownership with displayed names of sources. */
export function named(ownership: PlanSummary["ownership"], plan: Plan): readonly StripLayer[] {
  const labels = sourceLabels(plan);
  const nameOf = (origin: string) => labels.get(origin) ?? origin;
  return ownership.map((entry) => ({ ...entry, origins: entry.origins.map((origin) => origin.map(nameOf)) }));
}

/** The scores of all models, and what the comparison found. */
export function showEvaluation({ models, verdicts }: MergeEvaluation): Shown[] {
  const tasks = models[0]?.scores.map(({ task }) => task) ?? [];
  const hasSeveral = tasks.length > 1;
  const cell = ({ value, scale }: Pick<TaskScore, "value" | "scale">) => ({
    value: Number.isFinite(value) ? value : null,
    scale,
  });
  return [
    {
      kind: "table",
      what: "model",
      title: "",
      columns: ["model", ...[...tasks, ...(hasSeveral ? ["average"] : [])].map(right)],
      rows: models.map(({ id, scores, average }) => [
        id,
        ...scores.map(cell),
        ...(hasSeveral ? [cell({ value: average, scale: "share" })] : []),
      ]),
    },
    { kind: "text", lines: verdicts },
  ];
}

/** Why a merge is not pushed: an alternative that it is made of scores higher, whether or not that is significant. */
export function heldBack({ models: [merge, ...others] }: MergeEvaluation): string {
  const best = others.reduce((one, other) => (other.average > one.average ? other : one));
  const share = (value = 0) => formatPercent(value);
  return `not pushed: the merge's average is ${share(merge?.average)}, below that of ${best.id}, ${share(best.average)}`;
}
