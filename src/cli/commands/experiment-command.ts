import { basename, join, relative } from "node:path";
import { type Command, Option } from "commander";
import {
  type Experiment,
  type ExperimentStatus,
  openExperiment,
  previewExperiment,
  refuseProblems,
  runOpened,
  statusOf,
} from "../../experiment/index.js";
import {
  adviceOnFailures,
  barFigure,
  downloadsOn,
  findRecipe,
  gatherReport,
  highestText,
  outlookLines,
  overviewLines,
  programLines,
  progressOf,
  reportExperiment,
  statusLines,
} from "../../experiment/report/index.js";
import { EXPORT_FORMATS } from "../../export/index.js";
import { SILENT, showProgress, terminalLines } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { closest, commandLine } from "../../kit/printing/index.js";
import { writeCardFindings } from "../../merge/output/index.js";
import { exportVerb } from "../../verbs/shared/index.js";
import { type MergeOptions, runMerge } from "../shared/merge-run.js";
import { type CommonOptions, info, interruptSignal, print, printJson, warn } from "../shared/output.js";
import { withPushOptions } from "../shared/push.js";
import { callByFlags } from "../shared/verb-command.js";
import { withVerbFlags, withWorkOptions } from "../shared/verb-flags.js";

const ACTIONS = ["run", "resume", "status", "report", "export"] as const;
type Action = (typeof ACTIONS)[number];

interface ExperimentFlags extends Omit<MergeOptions, "out"> {
  readonly format?: keyof typeof EXPORT_FORMATS;
  readonly type?: string;
  readonly tensorType?: readonly string[];
  readonly base?: string;
  readonly out?: string;
  readonly data?: string;
  readonly allowCode?: boolean;
}

export function add(program: Command): void {
  const command = program
    .command("experiment")
    .description(
      "Run a plan: train experts or use existing ones, merge them, evaluate every model, and write a report. Stop it at any " +
        "time and run it again to resume. If the plan changes, only new steps run. Steps run here, or on Slurm with " +
        "executor: { kind: slurm }. Plans to copy: examples/experiments; fields: docs/fields.md.",
    )
    .argument("<plan>", "plan, a YAML file")
    .argument("[action]", `${ACTIONS.join(", ")} (default: run)`)
    .argument("[row]", "export: row, model or recipe of the report")
    .optionsGroup("Plan:")
    .option(
      "-o, --out <path>",
      "folder of the experiment (default: NAME.experiment next to the plan); export: path to write",
    )
    .option("-b, --base <model>", "base model (default: the plan's)")
    .option("-d, --data <folder>", "folder with evaluation data (default: the plan's, or the hub)")
    .option("--allow-code", "run the programs that the plan names, which are printed first")
    .option("--dry-run", "print the steps, programs and what is missing, and exit; export: print the merge")
    .optionsGroup("Export:")
    .addOption(
      new Option("--format <format>", "write a file of another program")
        .choices(Object.keys(EXPORT_FORMATS))
        .default(undefined, "a checkpoint"),
    );
  withPushOptions(withVerbFlags(exportVerb, ["type", "tensorTypes"])(command))
    .option("--resume", "resume an interrupted export")
    .option("--force", "replace an existing output or interrupted export");
  withWorkOptions(command).action(
    async (plan: string, action: string | undefined, row: string | undefined, flags: ExperimentFlags) => {
      const chosen = actionOf(plan, action);
      if (chosen === "export") return exportRow(plan, row, flags);
      refuseExportFlags(chosen, row, flags);
      const signal = interruptSignal();
      const experiment = await openExperiment(plan, { base: flags.base, out: flags.out, data: flags.data, signal });
      for (const note of experiment.world.notes) warn(note);
      if (flags.dryRun) return preview(experiment, flags);
      await act(chosen, experiment, flags, signal);
    },
  );
}

function actionOf(plan: string, action = "run"): Action {
  const chosen = ACTIONS.find((one) => one === action);
  if (chosen) return chosen;
  if (ACTIONS.some((one) => one === plan)) {
    throw usageError(`the plan comes first: ${commandLine`experiment ${action} ${plan}`}`);
  }
  const meant = closest(action, ACTIONS) ?? ACTIONS.find((one) => one.startsWith(action));
  const hint = meant === undefined ? `; use one of ${ACTIONS.join(", ")}` : `; did you mean ${meant}?`;
  throw usageError(`unknown action ${action}${hint}`);
}

const EXPORT_FLAGS = {
  format: "--format",
  type: "--type",
  tensorType: "--tensor-type",
  push: "--push",
  private: "--private",
  resume: "--resume",
  force: "--force",
  threads: "--threads",
  memory: "--memory",
} as const;

function refuseExportFlags(action: Action, row: string | undefined, flags: ExperimentFlags): void {
  if (row !== undefined) throw usageError(`${action} takes no row, but there is ${row}. Use it with export.`);
  const [field] = Object.keys(EXPORT_FLAGS).filter((name) => flags[name as keyof typeof EXPORT_FLAGS] !== undefined);
  if (field === undefined) return;
  const flag = EXPORT_FLAGS[field as keyof typeof EXPORT_FLAGS];
  const hint = field === "resume" ? "A run resumes by itself; leave it out." : "Leave it out, or use export.";
  throw usageError(`${flag} is an option of export, not of ${action}. ${hint}`);
}

async function exportRow(plan: string, row: string | undefined, flags: ExperimentFlags): Promise<void> {
  const { base, data, out, format, type, tensorType, push, ...rest } = flags;
  if (row === undefined) throw usageError("Missing the row to export, such as one of report/recipes.");
  if (format === undefined && (type !== undefined || tensorType !== undefined)) {
    throw usageError(`--${type === undefined ? "tensor-type" : "type"} needs --format.`);
  }
  if (format !== undefined && push !== undefined) {
    const upload = `hf upload ${push} ${out ?? "FILE"}`;
    throw usageError(`--push sends a checkpoint. Leave out --format, or upload the file yourself: ${upload}`);
  }
  const experiment = await openExperiment(plan, { base, data, signal: interruptSignal() });
  const status = await statusOf(experiment);
  const { name, recipe, overviews } = findRecipe(row, gatherReport(experiment, status), status);
  const output = { ...rest, ...(out === undefined ? {} : { out }) };
  info(flags, `Exporting ${name}`);
  if (format === undefined) {
    const found = overviews.map((overview) => barFigure(overview));
    const onWritten = (folder: string) => writeCardFindings(folder, found);
    return runMerge(recipe, { ...output, ...(push === undefined ? {} : { push }) }, onWritten);
  }
  const encoding = { ...(type === undefined ? {} : { type }), ...(tensorType === undefined ? {} : { tensorType }) };
  await callByFlags(exportVerb, { source: recipe, format }, { ...output, ...encoding });
}

async function preview(experiment: Experiment, flags: ExperimentFlags): Promise<void> {
  const outlook = await previewExperiment(experiment);
  const { variants, expansion, estimate, training, merges, downloads, steps, problems, programs } = outlook;
  if (flags.json) {
    const models = variants.flatMap(({ variant, expansion: { models: known } }) =>
      known.map(({ model, tasks }) => ({
        ...(variant.id === "" ? {} : { variant: variant.id }),
        name: model.name,
        tasks: tasks.map(({ request }) => request),
      })),
    );
    const states = steps.map(({ step, state }) => ({ ...step, ...state }));
    printJson({
      estimate,
      training,
      merges,
      downloads,
      problems,
      programs,
      steps: states,
      models,
      waiting: expansion.waiting,
    });
  } else {
    print(outlookLines(outlook));
  }
  refuseProblems(problems, basename(experiment.file));
}

async function act(action: Action, experiment: Experiment, flags: ExperimentFlags, signal: AbortSignal): Promise<void> {
  if ((action === "run" || action === "resume") && flags.allowCode) {
    for (const line of programLines(experiment.programs)) info(flags, line);
  }
  const known = action === "run" || action === "resume" ? await runShown(experiment, flags, signal) : undefined;
  const status = await statusOf(experiment, known);
  if (action === "status") {
    if (flags.json) {
      const steps = status.steps.map(({ step, state }) => ({ ...step, ...state }));
      const secondsLeft = status.estimate.seconds ?? null;
      printJson({ counts: status.counts, secondsDone: status.seconds, secondsLeft, steps });
    } else {
      print(statusLines(status));
    }
    return;
  }
  await report(action, experiment, status, flags);
}

/** Runs an experiment with its progress on stderr; failed steps set the exit status. @returns what is known of its steps */
export async function runShown(
  experiment: Experiment,
  flags: CommonOptions & Pick<ExperimentFlags, "allowCode">,
  signal: AbortSignal,
): Promise<ExperimentStatus["known"]> {
  const display = flags.quiet ? SILENT : showProgress();
  try {
    const { failures, known } = await runOpened(experiment, {
      signal,
      allowCode: flags.allowCode,
      onDownload: downloadsOn(display),
      onEvent: progressOf(display),
    });
    if (failures.length === 0) return known;
    process.exitCode = 1;
    display.stop();
    // Otherwise the display has shown the reasons.
    if (flags.quiet) for (const { label, reason } of failures) warn(`${label} failed: ${reason}`);
    warn(adviceOnFailures(failures.length));
    return known;
  } finally {
    display.stop();
  }
}

async function report(
  action: Action,
  experiment: Experiment,
  status: ExperimentStatus,
  flags: ExperimentFlags,
): Promise<void> {
  if (status.counts.done === 0) {
    if (action !== "report") return;
    throw usageError(`${basename(experiment.file)} has no finished steps; run it before the report`);
  }
  const { report: data, reportFolder } = await reportExperiment(experiment, status);
  if (flags.json) return printJson(data);
  const [compared] = data.kind === "matrix" ? data.compared : [];
  if (compared && data.kind === "matrix") {
    print([compared.title, "", ...terminalLines(compared), "", highestText(data.highest)]);
  }
  const overviews = data.kind === "plan" ? data.overviews : [];
  print(overviews.filter(({ bars }) => bars.length > 0).flatMap((overview) => [...overviewLines(overview), ""]));
  for (const text of data.warnings) warn(text);
  if (action === "report") for (const { label, reason } of data.failures) warn(`${label} failed: ${reason}`);
  info(
    flags,
    `Wrote the report; open ${relative(process.cwd(), join(reportFolder, "index.html"))} (Markdown, CSV and LaTeX are in the same folder)`,
  );
}
