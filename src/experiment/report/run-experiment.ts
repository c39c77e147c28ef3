// Runs an experiment and writes its report.
import { join } from "node:path";
import type { CallOptions, Progress } from "../../kit/index.js";
import {
  type Experiment,
  type ExperimentStatus,
  type OpenOptions,
  openExperiment,
  runOpened,
  statusOf,
} from "../experiment.js";
import type { PlanInput } from "../inputs.js";
import type { RunEvent, RunSummary } from "../run/run-experiment.js";
import { writeReport } from "./files.js";
import { gatherReport } from "./gather.js";
import { REPORT } from "./recipes.js";
import type { ExperimentReport } from "./report-data.js";

/**
 * Progress of an experiment. First models on the hub are downloaded, if there are any; then `done` and `total` count the
 * steps known so far.
 */
export interface ExperimentProgress extends Progress {
  /** Latest event; undefined during the download. */
  readonly event?: RunEvent;
}

/** Options of `runExperiment`. */
export interface RunExperimentOptions extends CallOptions<ExperimentProgress>, Omit<OpenOptions, "signal"> {
  /**
   * Run the programs that the plan names: its server (`serve:`), what models write, the Python of TRL, and Slurm's `sbatch` and
   * `setup`. Default: false, which refuses such a plan.
   */
  readonly allowCode?: boolean | undefined;
}

/** Result of `runExperiment`. */
export interface ExperimentResult {
  /** Absolute path of the experiment's folder. */
  readonly out: string;
  /** Folder of the report as web page, Markdown, CSV and LaTeX. */
  readonly reportFolder: string;
  /** The same report as plain data. */
  readonly report: ExperimentReport;
  /** Steps that failed, with their reasons. Steps that do not depend on them are done. */
  readonly failures: RunSummary["failures"];
}

/**
 * Runs an experiment and writes its report. Finished steps are kept: run it again to resume, or to run new steps after
 * the plan changes.
 * @param plan path of a plan, a YAML file; or a plan as a value, whose relative paths start from the working folder
 * @throws RecipeError if the plan is not valid, or models, data or tasks are missing, with every problem; or if the plan names
 *   programs, without `allowCode`
 * @throws LayergraftError if another process runs it
 * @throws CancelledError if the signal fires
 */
export async function runExperiment(
  plan: string | PlanInput,
  options: RunExperimentOptions = {},
): Promise<ExperimentResult> {
  const { out, base, data, signal, onProgress, allowCode } = options;
  const experiment = await openExperiment(plan, { out, base, data, signal });
  const { failures, known } = await runOpened(experiment, {
    signal,
    allowCode,
    onDownload: onProgress,
    onEvent:
      onProgress &&
      ((event, { done, running, failed, left, waiting }) => {
        const total = done + running + failed + left + waiting;
        onProgress({ phase: "running steps", done, total, unit: "steps", event });
      }),
  });
  return { out: experiment.out, failures, ...(await reportExperiment(experiment, await statusOf(experiment, known))) };
}

/** Writes the report of the steps that are done. @param known how far the experiment is, if that is known already */
export async function reportExperiment(
  experiment: Experiment,
  known?: ExperimentStatus,
): Promise<Pick<ExperimentResult, "report" | "reportFolder">> {
  const report = gatherReport(experiment, known ?? (await statusOf(experiment)));
  const reportFolder = join(experiment.out, REPORT);
  await writeReport(reportFolder, report);
  return { report, reportFolder };
}
