// What swap, soup and merge share once their recipe is known: plan it, show it, execute it, say what came out.

import { type Command, Option } from "commander";
import { formatBytes, formatCount, formatPercent, groupBy, LayergraftError, plural } from "../../core/index.js";
import {
  checkOutput,
  executePlan,
  measuredOwnership,
  methodOf,
  type OpenedPlan,
  OUTPUT_DTYPES,
  type PlanSource,
  type PlanSummary,
  planRecipe,
  type RecipeInput,
  summarizePlan,
} from "../../merge/index.js";
import { layerStrip, type Palette } from "../../report/index.js";
import {
  elapsed,
  paletteFor,
  parseSize,
  print,
  printJson,
  runWithProgress,
  say,
  type WorkOptions,
  warn,
  withWorkOptions,
} from "./output.js";

/** Options of every merging command. */
export interface MergeOptions extends WorkOptions {
  readonly out?: string;
  readonly dtype?: (typeof OUTPUT_DTYPES)[number];
  readonly shardSize?: number;
  readonly vocabulary?: string;
  readonly tokenizerFrom?: string;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

/** Adds the options of `MergeOptions`. */
export function withMergeOptions(command: Command): Command {
  return withWorkOptions(
    command
      .option("-o, --out <folder>", "folder to write; it appears when it is complete")
      .addOption(new Option("--dtype <dtype>", "element type of the result (default: keep)").choices(OUTPUT_DTYPES))
      .addOption(new Option("--shard-size <size>", "largest weight file (default: 5GB)").argParser(parseSize))
      .option(
        "--vocabulary <source>",
        "where vocabularies differ: whose tokens the result has, such as task or language, or union",
      )
      .option("--tokenizer-from <source>", "whose tokenizer, chat template and generation configuration to copy")
      .option("--dry-run", "print the plan and stop; only headers and a sample of the weights are read")
      .option("--resume", "go on with what a stopped run has left")
      .option("--force", "replace an earlier output; discard an interrupted run; merge models that look unrelated"),
  );
}

/** The fields of a recipe that come from options; those not given are left to the recipe. */
export function outputFields(
  options: MergeOptions,
): Partial<Pick<RecipeInput, "dtype" | "shard_size" | "vocabulary" | "tokenizer_from">> {
  return {
    ...(options.dtype === undefined ? {} : { dtype: options.dtype }),
    ...(options.shardSize === undefined ? {} : { shard_size: options.shardSize }),
    ...(options.vocabulary === undefined ? {} : { vocabulary: options.vocabulary }),
    ...(options.tokenizerFrom === undefined ? {} : { tokenizer_from: options.tokenizerFrom }),
  };
}

/** Plans and executes a recipe as the options say. */
export async function runMerge(recipe: RecipeInput, folder: string, options: MergeOptions): Promise<void> {
  if (!options.out && !options.dryRun) {
    throw new LayergraftError(
      "usage",
      "nothing says where to write the result; give --out FOLDER, or --dry-run to see the plan",
    );
  }
  const start = performance.now();
  const opened = await planRecipe(recipe, { folder });
  const summary = summarizePlan(opened);
  const execution = {
    out: options.out ?? "",
    resume: options.resume,
    force: options.force,
  };
  // Before the plan is shown: who reads it should not find at its end that it cannot be done.
  if (options.out) await checkOutput(opened, execution);
  if (options.dryRun) {
    if (options.json) printJson({ plan: opened.plan, summary });
    else print([...describePlan(opened, summary, paletteFor(process.stdout))]);
    return;
  }
  say(options, describePlan(opened, summary, paletteFor(process.stderr)).join("\n"));
  const result = await runWithProgress(options, (controls) => executePlan(opened, { ...execution, ...controls }));
  for (const warning of result.warnings) warn(warning);
  if (options.json) {
    printJson({ ...result, seconds: (performance.now() - start) / 1000, summary });
    return;
  }
  for (const line of describeMeasured(opened.plan.measurements, result.measured)) say(options, line);
  if (opened.plan.measurements.some(({ kind }) => kind === "ownership") && !result.alreadyComplete) {
    const owned = measuredOwnership(opened.plan, new Map(Object.entries(result.measured)));
    say(options, ["", ...layerStrip(named(owned, opened.plan), paletteFor(process.stderr)), ""].join("\n"));
  }
  if (result.changedShare !== null) {
    say(options, `${formatPercent(result.changedShare)} of the parameters stay the expert's, the rest is the base's`);
  }
  if (result.alreadyComplete) print(`${options.out} is complete already; nothing was done`);
  else {
    print(
      `${result.resumed ? "Resumed and wrote" : "Wrote"} ${options.out}: ${plural(summary.tensors, "tensor")}, ` +
        `${formatBytes(summary.bytesToWrite)} in ${plural(result.files.length, "file")}, ${elapsed(start)}`,
    );
  }
  say(options, `Check it any time with: layergraft verify ${options.out ?? ""}`);
}

/** The plan as a person understands it at a glance. */
export function describePlan({ plan }: OpenedPlan, summary: PlanSummary, palette: Palette): string[] {
  const { recipe } = plan;
  const method = methodOf(recipe);
  const byMagnitude = plan.measurements.some(({ kind }) => kind === "magnitude");
  const weights = byMagnitude ? "by inverse magnitude (measured first)" : method.weighting?.(recipe);
  const parameters = formatCount(summary.parameters);
  const measuring = summary.bytesToMeasure > 0 ? `, of which ${formatBytes(summary.bytesToMeasure)} to measure` : "";
  const averaged = summary.ownership.some(({ origins }) => origins.some((origin) => origin.length > 1));
  const isCopy = plan.sources.length === 1 && summary.computed === 0 && plan.layerOrder === undefined;
  return [
    palette.bold(method.headline(recipe)),
    `${plan.architecture}, ${plan.layers} layers, ${parameters} parameters`,
    ...plan.sources.map(({ id, name }) => `  ${id.padEnd(longest(plan.sources.map((source) => source.id)))}  ${name}`),
    "",
    ...layerStrip(named(summary.ownership, plan), palette),
    "",
    ...(averaged && weights ? [`averages weighted ${weights}`] : []),
    ...describeMeasurements(plan.measurements),
    `${plural(summary.copied, "tensor")} copied, ${summary.computed} computed; tokenizer from ${plan.tokenizerFrom}`,
    `read ${formatBytes(summary.bytesToRead)}${measuring}; write ${formatBytes(summary.bytesToWrite)}`,
    ...plan.notes.map((note) => `note: ${note}`),
    ...(isCopy ? ["note: nothing is merged; the result is a copy of the one model"] : []),
    ...(plan.unrelated ?? []).map((sentence) => `${palette.yellow("warning:")} ${sentence}`),
  ];
}

/** What is to be measured: magnitudes one by one, of what is measured per tensor how many. */
function describeMeasurements(measurements: OpenedPlan["plan"]["measurements"]): string[] {
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

/** Magnitudes, and the weights that they give. */
function describeMeasured(
  measurements: OpenedPlan["plan"]["measurements"],
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

/** Models of a list by their names, which say more than their places in the list; by their places where a name is shared. */
function named(ownership: PlanSummary["ownership"], { sources }: OpenedPlan["plan"]): PlanSummary["ownership"] {
  const pathOf = ({ folder, adapter }: PlanSource) => `${folder}+${adapter ?? ""}`;
  const nameOf = (origin: string) => {
    const source = /^(models|slices)\[/.test(origin) ? sources.find(({ id }) => id === origin) : undefined;
    if (!source) return origin;
    const alike = sources.filter(({ name }) => name === source.name);
    if (new Set(alike.map(pathOf)).size === 1) return source.name;
    const first = alike.find((other) => pathOf(other) === pathOf(source)) ?? source;
    return `${source.name} (${first.id})`;
  };
  return ownership.map((entry) => ({ ...entry, origins: entry.origins.map((origin) => origin.map(nameOf)) }));
}

function longest(texts: readonly string[]): number {
  return Math.max(...texts.map((text) => text.length));
}
