// Runs the demo: writes the shipped models, their problems and the plan, and runs the comparison as an experiment.
import { cp, mkdir, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import {
  type Counts,
  type Experiment,
  type ExperimentStatus,
  openExperiment,
  type RunEvent,
  runOpened,
  Store,
  statusOf,
} from "../experiment/index.js";
import { gatherReport, ofPlan, type PlanReport, recipeText } from "../experiment/report/index.js";
import { exists, filesOfRun, writeFileAtomically } from "../kit/files/index.js";
import { LayergraftError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { MINIATURE_MODELS, writeMiniature } from "./miniature.js";
import { evaluatedAnswers, type ModelAnswers, type Problem, shownProblems } from "./results.js";
import { swapRecipe } from "./swap.js";

export interface DemoOptions {
  readonly out: string;
  readonly force?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Takes the problems that are shown, before any model has answered. */
  readonly onProblems?: ((problems: readonly Problem[]) => void) | undefined;
  /** Takes each model's answers to them, once it is evaluated on all problems. */
  readonly onAnswers?: ((answers: ModelAnswers) => void) | undefined;
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
}

export interface DemoResult {
  readonly out: string;
  readonly experiment: Experiment;
  readonly status: ExperimentStatus;
  readonly report: PlanReport;
}

const PLAN = createRequire(import.meta.url).resolve("#demo");
/** What a demo is known by, and what `force` removes. */
const MARK = "choosing_sw.yaml";
const OWN_FILES = [
  ...[MARK, "problems_sw.yaml", "problems_en.yaml", "data", "plan.yaml", ...Object.values(MINIATURE_MODELS)],
  ...["experiment", "swap.yaml", "index.html"],
];

/**
 * Runs the demo, or resumes it. Its plan may have been changed since.
 * @throws OutputError if the folder has other files
 * @throws CancelledError if the signal fires; run it again to resume
 * @throws LayergraftError code `demo` if a step fails
 */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const { out, signal } = options;
  await writeDemo(options);
  const shown = await shownProblems(out);
  options.onProblems?.(shown.map(({ problem }) => problem));
  const experiment = await openExperiment(join(out, "plan.yaml"), { signal });
  const store = new Store(experiment.out);
  const { failures, known } = await runOpened(experiment, {
    signal,
    onEvent: (event, counts) => {
      const answers = options.onAnswers && evaluatedAnswers(event, store, shown);
      if (answers) options.onAnswers?.(answers);
      options.onEvent?.(event, counts);
    },
  });
  if (failures.length > 0) {
    const reasons = failures.map(({ label, reason }) => `  - ${label}: ${reason}`).join("\n");
    throw new LayergraftError("demo", `${plural(failures.length, "step")} of the demo failed:\n${reasons}`);
  }
  const status = await statusOf(experiment, known);
  const recipe = swapRecipe(status, out);
  if (recipe)
    await writeFileAtomically(join(out, "swap.yaml"), recipeText(recipe, "The layer swap that the demo reports."));
  return { out, experiment, status, report: ofPlan(gatherReport(experiment, status), "demo") };
}

/** Writes the demo's folder, unless it is there. The plan comes last, so it means that all is there. */
async function writeDemo({ out, force }: DemoOptions): Promise<void> {
  const isDemo = (await filesOfRun(out, "demo", (names) => names.includes(MARK))).length > 0;
  for (const name of isDemo && force ? OWN_FILES : []) await rm(join(out, name), { recursive: true, force: true });
  if (await exists(join(out, "plan.yaml"))) return;
  await mkdir(out, { recursive: true });
  await cp(dirname(PLAN), out, { recursive: true, filter: (source) => source !== PLAN });
  await writeMiniature(out);
  await cp(PLAN, join(out, "plan.yaml"));
}
