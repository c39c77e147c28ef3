// Runs the demo: writes models and problems, trains the models if asked to, and runs the comparison as an experiment.
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { exists, LayergraftError, OutputError, plural, readJsonObject, writeFileAtomically } from "../core/index.js";
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
import { type ExperimentReport, gatherReport, recipeText } from "../findings/index.js";
import { readRun, type TrainProgress, trainRun } from "../train/index.js";
import { type DemoSettings, PLAN_FILES, writePlan } from "./demo-plan.js";
import { MINIATURE_MODELS, writeMiniature } from "./miniature.js";
import { evaluatedAnswers, type ModelAnswers, shownProblems } from "./results.js";
import { swapRecipe } from "./swap.js";
import {
  problemCounts,
  WORLD_FILES,
  type WrittenProblem,
  writeTasks,
  writeTrainingWorld,
} from "./world/world-files.js";

export interface DemoOptions {
  /** Folder to write. */
  readonly out: string;
  /** Train the models from nothing. Default: merge the shipped ones, unless an option of training is given. */
  readonly train?: boolean | undefined;
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
  /** Replace an earlier demo. */
  readonly force?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Takes the problems that are shown, before any model has answered, and the number that is asked. */
  readonly onProblems?: ((problems: readonly WrittenProblem[], asked: number) => void) | undefined;
  /** Takes each model's answers to them, once it is evaluated on all problems. */
  readonly onAnswers?: ((answers: ModelAnswers) => void) | undefined;
  readonly onTrainBase?: ((progress: TrainProgress) => void) | undefined;
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
}

/** What decides the result of a demo. */
export type DemoChoices = Omit<DemoSettings, "threads">;

export interface DemoResult extends DemoChoices {
  readonly out: string;
  readonly experiment: Experiment;
  readonly status: ExperimentStatus;
  readonly report: ExperimentReport;
}

function choicesOf({ seed, pairs, quick = false, full = false, ...options }: DemoOptions): DemoChoices {
  const train = options.train ?? (quick || full || seed !== undefined || pairs !== undefined);
  return { train, seed: seed ?? 0, pairs: pairs ?? 1, quick, full };
}

/** Folder of an expert of the experiment, by its family; the first of several. */
export function expertFolder(family: string, { expansion, store }: ExperimentStatus): string {
  const model = expansion.models.map(({ model }) => model).find((one) => "family" in one && one.family === family);
  const location = typeof model?.source === "string" ? model.locations[model.source] : undefined;
  if (!model || !location)
    throw new LayergraftError("demo", `The plan no longer has an expert ${family}. Pass --force.`);
  return store.locate(location, model.locations);
}

const SETTINGS = "demo.json";
/** Files of a demo, which `--force` removes. */
const OWN_FILES = [
  ...[SETTINGS, ...WORLD_FILES, ...PLAN_FILES, ...Object.values(MINIATURE_MODELS)],
  ...["experiment", "swap.yaml", "index.html"],
];

/**
 * Runs the demo, or resumes it. The result depends only on the choices.
 * @throws OutputError if the folder has other files, or a demo with other settings and not `force`
 * @throws CancelledError if the signal fires; run it again to resume
 * @throws LayergraftError code `demo` if a step fails
 */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const { out, threads = 1, signal } = options;
  const choices = choicesOf(options);
  await prepare(options, choices);
  // The plan is written last, so it means that all is there. It may have been changed since.
  if (!(await exists(join(out, "plan.yaml")))) {
    await (choices.train ? writeTrainingWorld(out, choices) : writeMiniature(out));
    await writeTasks(out, choices);
    await writePlan(out, { ...choices, threads });
  }
  const shown = await shownProblems(out, choices.seed);
  options.onProblems?.(
    shown.map(({ problem }) => problem),
    problemCounts(choices).test,
  );
  if (choices.train) {
    const { run: written } = await readRun(join(out, "base.yaml"));
    const run = { ...written, out: join(out, "base") };
    await trainRun({ run, folder: out, resume: true, signal, onProgress: options.onTrainBase });
  }
  const experiment = await openExperiment(join(out, "plan.yaml"), { signal });
  const store = new Store(experiment.out);
  const { failures } = await runOpened(experiment, {
    signal,
    onEvent: (event, counts) => {
      const answers = options.onAnswers && evaluatedAnswers(event, { store, shown, pairs: choices.pairs });
      if (answers) options.onAnswers?.(answers);
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
  return { ...choices, out, experiment, status, report: gatherReport(experiment, status) };
}

async function prepare({ out, force }: DemoOptions, settings: DemoChoices): Promise<void> {
  const file = join(out, SETTINGS);
  const saved = (await exists(file)) ? await readJsonObject(file) : undefined;
  const isDemo = saved !== undefined && "seed" in saved && "pairs" in saved;
  if (isDemo && !force) {
    if (JSON.stringify(saved) !== JSON.stringify(settings)) {
      throw new OutputError(
        `${out} holds a demo with other settings: ${JSON.stringify(saved)}. Pass --force to replace it, or choose another --out.`,
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
