// layergraft experiment: a whole pipeline from one file: experts, merges, evaluations, tables; run, stopped, gone on with.
import { mkdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { type Command, Option } from "commander";
import { LayergraftError } from "../../core/errors.js";
import { writeFileAtomically } from "../../core/files.js";
import {
  type Experiment,
  gatherReport,
  openExperiment,
  previewExperiment,
  runOpened,
  statusOf,
} from "../../experiment/index.js";
import { experimentMarkdown, scoresCsv, tableCsv, tableLatex } from "../../report/experiment.js";
import { experimentPage } from "../../report/experiment-page.js";
import { SILENT_EXPERIMENT, showExperiment } from "../../report/experiment-progress.js";
import { outlookLines, overviewLines, statusLines } from "../../report/experiment-terminal.js";
import { type CommonOptions, interruptSignal, print, printJson, say, warn, withCommonOptions } from "../output.js";

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
    .summary("run a whole experiment from one file: experts, merges, scores, tables")
    .description(
      "Reads a plan, checks all of it, and does what it says: trains or takes experts, merges them in every way that it " +
        "lists, evaluates, chooses configurations, and writes tables. What is done stays done: stopped at any moment, " +
        "run or resume goes on, and a changed plan computes only what is new.",
    )
    .argument("<plan>", "the plan, a YAML file")
    .argument("[action]", `${ACTIONS.join(", ")} (default: run)`)
    .addOption(new Option("-o, --out <folder>", "folder of the experiment (default: NAME.experiment beside the plan)"))
    .option("-b, --base <model>", "base model, instead of the plan's")
    .option("-d, --data <folder>", "folder with the data sets of evaluation (default: the plan's, or the hub)")
    .option("--dry-run", "say what would be done, how long it takes and how much it writes, and do nothing");
  withCommonOptions(command).action(async (plan: string, action: string | undefined, flags: ExperimentFlags) => {
    const chosen = ACTIONS.find((one) => one === (action ?? "run"));
    if (!chosen) throw new LayergraftError("usage", `there is no action ${action}; it is ${ACTIONS.join(", ")}`);
    const signal = interruptSignal();
    const experiment = await openExperiment(plan, { base: flags.base, out: flags.out, data: flags.data, signal });
    if (flags.dryRun) return preview(experiment, flags);
    await act(chosen, experiment, flags, signal);
  });
}

async function preview(experiment: Experiment, flags: ExperimentFlags): Promise<void> {
  const outlook = await previewExperiment(experiment);
  if (flags.json) {
    const { expansion, ...rest } = outlook;
    const models = expansion.models.map(({ model, tasks }) => ({
      name: model.name,
      tasks: tasks.map(({ request }) => request),
    }));
    printJson({ ...rest, steps: expansion.steps, models, waiting: expansion.waiting });
  } else {
    print(outlookLines(outlook));
  }
  for (const fault of outlook.faults) warn(fault);
  if (outlook.faults.length > 0) {
    say(flags, "it cannot run here as it is; what is missing is named above");
    process.exitCode = 1;
  }
}

async function act(action: Action, experiment: Experiment, flags: ExperimentFlags, signal: AbortSignal): Promise<void> {
  if (action === "run" || action === "resume") {
    const display = flags.quiet ? SILENT_EXPERIMENT : showExperiment();
    try {
      const { failures } = await runOpened(experiment, {
        signal,
        onEvent: (event, counts) => display.update(event, counts),
      });
      if (failures.length > 0) process.exitCode = 1;
    } finally {
      display.stop();
    }
  }
  const status = await statusOf(experiment);
  if (action === "status") {
    if (flags.json)
      printJson({ counts: status.counts, steps: status.steps.map(({ step, state }) => ({ ...step, ...state })) });
    else print(statusLines(status));
    return;
  }
  const report = gatherReport(experiment, status);
  const folder = join(experiment.out, "report");
  await mkdir(folder, { recursive: true });
  const files: readonly (readonly [name: string, content: string])[] = [
    ["index.html", experimentPage(report)],
    ["report.md", experimentMarkdown(report)],
    ["scores.csv", scoresCsv(report)],
    ["report.json", `${JSON.stringify(report, null, 2)}\n`],
    ...report.tables.flatMap((table) => [
      [`${table.id}.csv`, tableCsv(table)] as const,
      [`${table.id}.tex`, tableLatex(table)] as const,
    ]),
  ];
  for (const [name, content] of files) await writeFileAtomically(join(folder, name), content);
  if (flags.json) return printJson(report);
  print(report.overviews.filter(({ bars }) => bars.length > 0).flatMap((overview) => [...overviewLines(overview), ""]));
  for (const { label, reason } of report.failures) warn(`${label} failed: ${reason}`);
  say(
    flags,
    `the whole report: ${relative(process.cwd(), join(folder, "index.html"))}, and beside it Markdown, CSV and LaTeX`,
  );
}
