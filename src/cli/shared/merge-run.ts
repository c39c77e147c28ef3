// Plans, shows and executes the recipe of a merging command.

import { layerStrip, type Palette } from "../../figures/index.js";
import type { HubAccess } from "../../formats/checkpoint/index.js";
import { defined, groupBy, usageError } from "../../kit/index.js";
import {
  asField,
  commandLine,
  formatBytes,
  formatCount,
  formatPercent,
  plural,
  type SayField,
} from "../../kit/printing/index.js";
import { methodOf, outputSchema, type Plan, type RecipeInput } from "../../merge/index.js";
import { measuredOwnership, type PlanSummary, pinsOfRun, sourceLabels, writeNotes } from "../../merge/output/index.js";
import { type MergePlan, planMerge } from "../../verbs/index.js";
import { asFlag } from "./advice.js";
import { DOWNLOAD_HELP, hubAccess } from "./hub-access.js";
import {
  elapsed,
  info,
  paletteFor,
  print,
  printJson,
  runWithProgress,
  type WorkOptions,
  warn,
  withWorkOptions,
} from "./output.js";
import { checkPushFlags, type PushFlags, printPush, pushResult, withPushOptions } from "./push.js";
import { addRecipeFlags, type RecipeFlags, recipeFields } from "./recipe-flags.js";
import { adding } from "./typed.js";

export interface MergeOptions extends WorkOptions, PushFlags {
  readonly out?: string;
  readonly shardSize?: string;
  readonly tensorUnion?: true;
  readonly tensorIntersection?: true;
  readonly dryRun?: boolean;
  readonly download?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
  readonly allowUnrelated?: boolean;
  readonly allowNonfinite?: boolean;
}

const FLAGS: RecipeFlags = { "Output:": ["as", "dtype", "budget", "shard_size", "vocabulary", "tokenizer_from"] };

/** Adds the options of `MergeOptions`. */
export const withMergeOptions = adding<MergeOptions>((command) => {
  command.optionsGroup("Output:").option("-o, --out <folder>", "folder to write; it appears when it is complete");
  addRecipeFlags(command, outputSchema, FLAGS);
  command
    .option("--tensor-union", "merge tensors that some models lack from those that have them")
    .option("--tensor-intersection", "leave out tensors that some models lack")
    .option("--dry-run", "print the plan and exit; reads headers and a sample of weights (swap with --base: all)")
    .option("--download", DOWNLOAD_HELP)
    .option("--resume", "resume an interrupted run")
    .option("--force", "replace an existing output or interrupted run")
    .option("--allow-unrelated", "merge models that look unrelated")
    .option("--allow-nonfinite", "write values that the merge made infinite or NaN");
  return withWorkOptions(withPushOptions(command));
});

/** The recipe fields that options set. */
export function outputFields(options: MergeOptions): Partial<RecipeInput> {
  const { tensorUnion, tensorIntersection } = options;
  const tensors = tensorUnion ? "union" : tensorIntersection ? "intersection" : undefined;
  return defined({ ...recipeFields(FLAGS, options), tensors });
}

/** A recipe that is a file has flags for fields of the output alone. */
const asWritten: SayField = (field, value) =>
  Object.values(FLAGS).flat().includes(field) ? asFlag(field, value) : asField(field, value);

/**
 * @param further what the dry run's JSON says beside the plan
 * @param set how advice sets a field of the recipe
 */
export async function runMerge(
  recipe: RecipeInput | ((hub: HubAccess) => Promise<MergePlan>),
  options: MergeOptions,
  further: () => Promise<object> = async () => ({}),
  set: SayField = typeof recipe === "function" ? asWritten : asFlag,
): Promise<void> {
  const start = performance.now();
  await checkPushFlags(options);
  const fetch = options.download ? "files" : options.dryRun ? "plan" : "stream";
  const pins = options.resume ? await pinsOfRun(options.out ?? "") : undefined;
  const planned = await runWithProgress(options, (controls) => {
    const hub = { ...hubAccess(fetch, controls), pins };
    return typeof recipe === "function" ? recipe(hub) : planMerge(recipe, { hub });
  });
  // After the recipe's own errors: a plan or a task in its place has no use for --out.
  if (!options.out && !options.dryRun) {
    throw usageError("Missing --out. Pass --out FOLDER to write the model, or --dry-run to print the plan.");
  }
  const { summary } = planned;
  const plan = planned.toJSON();
  const { resume, force, allowUnrelated, allowNonfinite: allowNonFinite } = options;
  const execution = { out: options.out ?? "", resume, force, allowUnrelated, allowNonFinite };
  // Checked before the plan is shown: an impossible output is the first message.
  if (options.out) await planned.check(execution);
  if (options.dryRun) {
    if (options.json) return printJson({ plan, summary, ...(await further()) });
    return print(describePlan(plan, summary, paletteFor(process.stdout)));
  }
  info(options, describePlan(plan, summary, paletteFor(process.stderr)).join("\n"));
  const result = await runWithProgress(options, (controls) => planned.write({ ...execution, ...controls }));
  for (const warning of result.warnings) warn(warning);
  if (options.json) {
    const seconds = (performance.now() - start) / 1000;
    printJson({ ...result, seconds, summary, ...(await pushResult(options.out ?? "", options)) });
    return;
  }
  for (const line of describeMeasured(plan.measurements, result.measured)) info(options, line);
  if (plan.measurements.some(({ kind }) => kind === "ownership") && !result.alreadyComplete) {
    const owned = measuredOwnership(plan, new Map(Object.entries(result.measured)));
    info(options, ["", ...layerStrip(named(owned, plan), paletteFor(process.stderr)), ""].join("\n"));
  }
  for (const note of writeNotes(result, plan, set)) info(options, `note: ${note}`);
  if (result.alreadyComplete) {
    print(`${options.out} is already complete`);
    info(options, "Sizes and other files are as recorded; layergraft verify compares the weights, too.");
  } else {
    print(
      `${result.resumed ? "Resumed and wrote" : "Wrote"} ${options.out}: ${plural(summary.tensors, "tensor")}, ` +
        `${formatBytes(summary.adapter ? result.bytesWritten : summary.bytesToWrite)} in ${plural(result.files.length, "file")}, ` +
        `${result.bytesFetched > 0 ? `${formatBytes(result.bytesFetched)} fetched, ` : ""}${elapsed(start)}`,
    );
  }
  info(options, `Verify it with: ${commandLine`verify ${options.out ?? ""} ${plan.code ? ["--allow-code"] : []}`}`);
  const { push } = await pushResult(options.out ?? "", options);
  if (push) printPush(push);
}

function describePlan(plan: Plan, summary: PlanSummary, palette: Palette): string[] {
  const { recipe } = plan;
  const method = methodOf(recipe);
  const byMagnitude = plan.measurements.some(({ kind }) => kind === "magnitude");
  const weights = byMagnitude ? "by inverse magnitude" : method.weighting?.(recipe);
  const parameters = formatCount(summary.parameters);
  const measuring = summary.bytesToMeasure > 0 ? ` (${formatBytes(summary.bytesToMeasure)} to measure)` : "";
  const averaged = summary.ownership.some(({ origins }) => origins.some((origin) => origin.length > 1));
  const widest = Math.max(...plan.sources.map(({ id }) => id.length));
  const isCopy = plan.sources.length === 1 && summary.computed === 0 && plan.layerOrder === undefined;
  return [
    palette.bold(method.headline(recipe)),
    `${plan.architecture}, ${plan.layers} layers, ${parameters} parameters`,
    ...plan.sources.map(({ id, name }) => `  ${id.padEnd(widest)}  ${name}`),
    "",
    ...layerStrip(named(summary.ownership, plan), palette),
    "",
    ...(averaged && weights ? [`averages weighted ${weights}`] : []),
    ...describeMeasurements(plan.measurements),
    ...describeAdapter(summary, plan.measurements.length > 0),
    `${plural(summary.copied, "tensor")} copied, ${summary.computed} computed${
      summary.adapter ? "" : `; tokenizer from ${plan.tokenizerFrom}`
    }`,
    `read ${formatBytes(summary.bytesToRead)}${measuring}; write ${formatBytes(summary.bytesToWrite)}`,
    ...describeFetch(summary),
    ...plan.notes.map((note) => `note: ${note}`),
    ...(isCopy ? ["note: the output is a copy of the only model"] : []),
    ...(plan.unrelated ?? []).map((sentence) => `${palette.yellow("warning:")} ${sentence}`),
  ];
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
function describeMeasured(
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
function named(ownership: PlanSummary["ownership"], plan: Plan): PlanSummary["ownership"] {
  const labels = sourceLabels(plan);
  const nameOf = (origin: string) => labels.get(origin) ?? origin;
  return ownership.map((entry) => ({ ...entry, origins: entry.origins.map((origin) => origin.map(nameOf)) }));
}
