// Runs the demo: writes its data and its plan, trains the base, and runs the plan as an experiment.

import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { exists, LayergraftError, OutputError, plural, readJsonObject, writeFileAtomically } from "../../core/index.js";
import { readRun, type TrainProgress, trainRun } from "../../train/index.js";
import { type Experiment, type ExperimentStatus, openExperiment, runOpened, statusOf } from "../experiment.js";
import { gatherReport } from "../report/gather.js";
import { recipeText } from "../report/recipes.js";
import type { ExperimentReport } from "../report/report-data.js";
import type { Counts, RunEvent } from "../run/run-experiment.js";
import { Store } from "../run/store.js";
import { PLAN_FILES, writePlan } from "./demo-plan.js";
import { swapRecipe } from "./reported-swap.js";
import { answerOf, evaluatedAnswer, type ShownAnswer, type ShownProblem, shownProblem } from "./shown-answers.js";
import { WORLD_FILES, writeWorld } from "./world/world-files.js";

export interface DemoOptions {
  /** Folder to write. */
  readonly out: string;
  /** Random seed of initial weights and training data. Default: 0. */
  readonly seed?: number | undefined;
  /** Experts of each kind; every pair is merged. Default: 1. */
  readonly pairs?: number | undefined;
  /** Train a twentieth of the steps and evaluate a fifth of the problems, to check that it runs. Default: false. */
  readonly quick?: boolean | undefined;
  /** Train all layers of each expert, not only those meant for the swap. Default: false. */
  readonly full?: boolean | undefined;
  /** Threads of each step. Default: 1, fastest for models this small. */
  readonly threads?: number | undefined;
  /** Resume an interrupted demo. */
  readonly resume?: boolean | undefined;
  /** Replace an earlier demo. */
  readonly force?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Takes answers to one of the problems: the base's while it is trained, and each model's once it is evaluated. */
  readonly onAnswer?: ((answer: ShownAnswer, problem: ShownProblem) => void) | undefined;
  readonly onTrainBase?: ((progress: TrainProgress) => void) | undefined;
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
}

export interface DemoResult {
  readonly out: string;
  readonly seed: number;
  readonly pairs: number;
  readonly quick: boolean;
  readonly experiment: Experiment;
  readonly status: ExperimentStatus;
  readonly report: ExperimentReport;
}

/** Folder of a model of the experiment, by its name. */
export function folderOf(name: string, { expansion, store }: ExperimentStatus): string {
  const model = expansion.models.find((asked) => asked.model.name === name)?.model;
  const location = typeof model?.source === "string" ? model.locations[model.source] : undefined;
  if (!model || !location) throw new LayergraftError("demo", `The plan no longer has a model ${name}. Pass --force.`);
  return store.locate(location, model.locations);
}

const SETTINGS = "demo.json";
/** Files of a demo, which `--force` removes. */
const OWN_FILES = [SETTINGS, ...WORLD_FILES, ...PLAN_FILES, "base", "experiment", "swap.yaml", "index.html"];

/**
 * Runs the demo. The result depends only on seed, pairs, quick and full.
 * @throws OutputError if the folder has other files, or a demo with other settings
 * @throws CancelledError if the signal fires; pass `resume` to continue
 * @throws LayergraftError code `demo` if a step fails
 */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const { out, seed = 0, pairs = 1, quick = false, full = false, threads = 1, signal } = options;
  await prepare(options);
  // The plan is written last, so it means that all is there. It may have been changed since.
  if (!(await exists(join(out, "plan.yaml")))) {
    await writeWorld(out, { seed, pairs, quick });
    await writePlan(out, { seed, pairs, quick, full, threads });
  }
  const { run } = await readRun(join(out, "base.yaml"));
  const problem = await shownProblem(out);
  const { onAnswer } = options;
  await trainRun({
    ...{ run: { ...run, out: join(out, "base") }, folder: out, resume: true, signal },
    onProgress: options.onTrainBase,
    onCheckpoint: async (folder, { step, steps }) => {
      // After the last step, the evaluation has the answer.
      if (onAnswer && step < steps) onAnswer({ ...(await answerOf(folder, problem)), trained: step / steps }, problem);
    },
  });
  const experiment = await openExperiment(join(out, "plan.yaml"), { signal });
  const store = new Store(experiment.out);
  const { failures } = await runOpened(experiment, {
    signal,
    onEvent: (event, counts) => {
      const answer = onAnswer && evaluatedAnswer(event, store, pairs);
      if (answer) onAnswer(answer, problem);
      options.onEvent?.(event, counts);
    },
  });
  if (failures.length > 0) {
    const reasons = failures.map(({ label, reason }) => `  - ${label}: ${reason}`).join("\n");
    throw new LayergraftError("demo", `${plural(failures.length, "step")} of the demo failed:\n${reasons}`);
  }
  const status = await statusOf(experiment);
  const recipe = swapRecipe(status, out);
  if (recipe)
    await writeFileAtomically(join(out, "swap.yaml"), recipeText(recipe, "The layer swap that the demo reports."));
  return { out, seed, pairs, quick, experiment, status, report: gatherReport(experiment, status) };
}

async function prepare({
  out,
  seed = 0,
  pairs = 1,
  quick = false,
  full = false,
  resume,
  force,
}: DemoOptions): Promise<void> {
  const settings = { seed, pairs, quick, full };
  const file = join(out, SETTINGS);
  const saved = (await exists(file)) ? await readJsonObject(file) : undefined;
  const isDemo = saved !== undefined && "seed" in saved && "pairs" in saved;
  if (isDemo && !force) {
    if (!resume) {
      throw new OutputError(
        `${out} already holds a demo. Pass --resume to continue it, --force to replace it, or choose another --out.`,
        { file: out },
      );
    }
    if (JSON.stringify(saved) !== JSON.stringify(settings)) {
      throw new OutputError(
        `${out} holds a demo with other settings: ${JSON.stringify(saved)}. Pass the same ones, or choose another --out.`,
        { file: out },
      );
    }
    return;
  }
  if (!isDemo && (await exists(out)) && (await readdir(out)).length > 0) {
    throw new OutputError(`${out} is not empty and has no demo in it. Choose another --out.`, { file: out });
  }
  for (const name of isDemo ? OWN_FILES : []) await rm(join(out, name), { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  await writeFileAtomically(file, `${JSON.stringify(settings, null, 2)}\n`);
}
