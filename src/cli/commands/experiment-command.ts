import { basename, join, relative } from "node:path";
import { type Command, Option } from "commander";
import { closest, usageError } from "../../core/index.js";
import {
  adviceOnFailures,
  type Experiment,
  type ExperimentStatus,
  gatherReport,
  openExperiment,
  outlookLines,
  overviewLines,
  previewExperiment,
  progressOf,
  refuseProblems,
  runOpened,
  statusLines,
  statusOf,
  writeReport,
} from "../../experiment/index.js";
import { SILENT, showProgress } from "../../report/index.js";
import {
  type CommonOptions,
  info,
  interruptSignal,
  print,
  printJson,
  warn,
  withCommonOptions,
} from "../shared/output.js";

const ACTIONS = ["run", "resume", "status", "report"] as const;
type Action = (typeof ACTIONS)[number];

interface ExperimentFlags extends CommonOptions {
  readonly base?: string;
  readonly out?: string;
  readonly data?: string;
  readonly dryRun?: boolean;
}

export function addExperimentCommand(program: Command): void {
  const command = program
    .command("experiment")
    .description(
      "Run a plan: train experts or use existing ones, merge them, evaluate every model, and write a report. Stop it at any " +
        "time and run it again to resume. If the plan changes, only new steps run.",
    )
    .argument("<plan>", "plan, a YAML file")
    .argument("[action]", `${ACTIONS.join(", ")} (default: run)`)
    .optionsGroup("Plan:")
    .addOption(new Option("-o, --out <folder>", "folder to write (default: NAME.experiment next to the plan)"))
    .option("-b, --base <model>", "base model (default: the plan's)")
    .option("-d, --data <folder>", "folder with evaluation data (default: the plan's, or the hub)")
    .option("--dry-run", "print the steps and what is missing, and exit");
  withCommonOptions(command).action(async (plan: string, action: string | undefined, flags: ExperimentFlags) => {
    const chosen = actionOf(plan, action);
    const signal = interruptSignal();
    const experiment = await openExperiment(plan, { base: flags.base, out: flags.out, data: flags.data, signal });
    for (const note of experiment.world.notes) warn(note);
    if (flags.dryRun) return preview(experiment, flags);
    await act(chosen, experiment, flags, signal);
  });
}

function actionOf(plan: string, action = "run"): Action {
  const chosen = ACTIONS.find((one) => one === action);
  if (chosen) return chosen;
  if (ACTIONS.some((one) => one === plan)) {
    throw usageError(`the plan comes first: layergraft experiment ${action} ${plan}`);
  }
  const meant = closest(action, ACTIONS) ?? ACTIONS.find((one) => one.startsWith(action));
  const hint = meant === undefined ? `; use one of ${ACTIONS.join(", ")}` : `; did you mean ${meant}?`;
  throw usageError(`unknown action ${action}${hint}`);
}

async function preview(experiment: Experiment, flags: ExperimentFlags): Promise<void> {
  const { expansion, estimate, steps, problems } = await previewExperiment(experiment);
  if (flags.json) {
    const models = expansion.models.map(({ model, tasks }) => ({
      name: model.name,
      tasks: tasks.map(({ request }) => request),
    }));
    const states = steps.map(({ step, state }) => ({ ...step, ...state }));
    printJson({ estimate, problems, steps: states, models, waiting: expansion.waiting });
  } else {
    print(outlookLines({ expansion, estimate, steps, problems }));
  }
  refuseProblems(problems, basename(experiment.file));
}

async function act(action: Action, experiment: Experiment, flags: ExperimentFlags, signal: AbortSignal): Promise<void> {
  if (action === "run" || action === "resume") await run(experiment, flags, signal);
  const status = await statusOf(experiment);
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

async function run(experiment: Experiment, flags: ExperimentFlags, signal: AbortSignal): Promise<void> {
  const display = flags.quiet ? SILENT : showProgress();
  try {
    const { failures } = await runOpened(experiment, {
      signal,
      onEvent: progressOf(display),
    });
    if (failures.length === 0) return;
    process.exitCode = 1;
    display.stop();
    // Otherwise the display has shown the reasons.
    if (flags.quiet) for (const { label, reason } of failures) warn(`${label} failed: ${reason}`);
    warn(adviceOnFailures(failures.length));
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
  const data = gatherReport(experiment, status);
  const folder = join(experiment.out, "report");
  await writeReport(folder, data);
  if (flags.json) return printJson(data);
  print(data.overviews.filter(({ bars }) => bars.length > 0).flatMap((overview) => [...overviewLines(overview), ""]));
  if (action === "report") for (const { label, reason } of data.failures) warn(`${label} failed: ${reason}`);
  info(
    flags,
    `Wrote the report; open ${relative(process.cwd(), join(folder, "index.html"))} (Markdown, CSV and LaTeX are in the same folder)`,
  );
}
