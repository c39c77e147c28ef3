// An experiment as programs use it: opened from its plan, checked, run, looked at. The parts are plan/, steps/, run/ and
// execute/.

import { createRequire } from "node:module";
import { availableParallelism, hostname } from "node:os";
import { basename, join, resolve } from "node:path";
import { exists, isAlive, isFile, isLocked, RecipeError } from "../core/index.js";
import type { Executor, ExecutorEvents } from "./execute/executor.js";
import { LocalExecutor, workersOf } from "./execute/local.js";
import { SlurmExecutor } from "./execute/slurm.js";
import type { Expansion } from "./plan/expand.js";
import { inspectPlan } from "./plan/plan-file.js";
import type { ExperimentPlan } from "./plan/plan-schema.js";
import { type CheckedWorld, checkWorld, refuseProblems, spaceProblem } from "./run/check.js";
import { type Estimate, estimateExperiment } from "./run/estimate.js";
import {
  type Counts,
  countSteps,
  expandStored,
  type RunEvent,
  type RunSummary,
  runExperiment,
} from "./run/run-experiment.js";
import { Store } from "./run/store.js";
import type { Step, StepKind } from "./steps/step.js";
import type { StepSettings } from "./steps/step-order.js";
import { readAttempt, type StepState } from "./steps/step-state.js";

export interface OpenOptions {
  /** Base model, instead of the plan's; then sizes that the plan assumes do not hold. */
  readonly base?: string | undefined;
  /** Folder of the experiment; default the plan's `out`, or NAME.experiment beside the plan. */
  readonly out?: string | undefined;
  /** Folder of the data sets of evaluation; default the plan's. */
  readonly data?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A plan, and what was found of its world. */
export interface Experiment {
  readonly plan: ExperimentPlan;
  /** Path of the plan. */
  readonly file: string;
  /** Absolute folder that the plan's relative paths start from. */
  readonly planFolder: string;
  /** Absolute folder of the experiment. */
  readonly out: string;
  /** Absolute folder of data sets, if one is named. */
  readonly data: string | undefined;
  readonly world: CheckedWorld;
}

/**
 * Opens an experiment: reads its plan, and looks at models, data and tasks.
 * @throws {RecipeError} if the plan has problems, with all of them and all that its world lacks; what a sound plan's world
 *   lacks is in `world.problems`
 */
export async function openExperiment(file: string, options: OpenOptions = {}): Promise<Experiment> {
  if ((await exists(file)) && !(await isFile(file))) {
    throw new RecipeError(
      `${file} is not a regular file; save the plan as a file, as every resume reads it again`,
      [],
      {
        file,
      },
    );
  }
  const inspected = await inspectPlan(file);
  const planFolder = resolve(inspected.folder);
  const plan: ExperimentPlan =
    options.base === undefined ? inspected.plan : { ...inspected.plan, base: resolve(options.base), assume: undefined };
  const out = resolve(options.out ?? join(planFolder, plan.out ?? `${plan.name}.experiment`));
  const named = plan.evaluate.data;
  const data = options.data ? resolve(options.data) : named === undefined ? undefined : resolve(planFolder, named);
  const world = await checkWorld({ ...inspected, plan, folder: planFolder }, { out, data, signal: options.signal });
  if (inspected.problems.length > 0) refuseProblems(world.problems, file, "is not a valid plan");
  return { plan, file, planFolder, out, data, world };
}

/** What an experiment amounts to, before or while it runs. */
export interface Outlook {
  /** Steps and models that can be named now; `waiting` counts those that cannot. */
  readonly expansion: Expansion;
  /** Those steps, and what became of them. */
  readonly steps: readonly StepStatus[];
  readonly estimate: Estimate;
  /** Everything that keeps it from running. */
  readonly problems: readonly string[];
}

/** What will be done if it goes on now, from where it is: steps, hours, bytes, problems. For `--dry-run`. */
export async function previewExperiment(experiment: Experiment): Promise<Outlook> {
  const { world } = experiment;
  const { expansion, steps, estimate } = await standOf(experiment);
  return { expansion, steps, estimate, problems: [...world.problems, ...(await spaceProblems(experiment, estimate))] };
}

async function spaceProblems({ out }: Experiment, estimate: Estimate): Promise<string[]> {
  const problem = estimate.bytes === undefined ? undefined : await spaceProblem(out, estimate.bytes);
  return problem === undefined ? [] : [problem];
}

/** How far an experiment is: its steps with their states, and what is left by the best knowledge there is. */
interface Stand {
  readonly store: Store;
  readonly expansion: Expansion;
  readonly steps: readonly StepStatus[];
  readonly estimate: Estimate;
  /** Seconds that the steps took together that are done. */
  readonly seconds: number;
}

async function standOf(experiment: Experiment): Promise<Stand> {
  const { plan, world, out } = experiment;
  const store = new Store(out);
  const expansion = await expandStored(plan, world.facts, store);
  const isRunning = await isLocked(out);
  const steps: StepStatus[] = [];
  for (const step of expansion.steps) steps.push({ step, state: await stateOf(step, store, isRunning) });
  const secondsBy = new Map(
    steps.map(({ step, state }) => [step.key, state.state === "done" ? state.seconds : undefined]),
  );
  const seconds = [...secondsBy.values()].reduce<number>((sum, one) => sum + (one ?? 0), 0);
  const { executor } = plan;
  const estimate = estimateExperiment({
    ...{ plan, expansion, secondsOf: (key: string) => secondsBy.get(key), base: world.base },
    workers: executor.kind === "local" ? workersOf(localOptions(plan)) : executor.most_jobs,
  });
  return { store, expansion, steps, estimate, seconds };
}

/** What became of a step, by its folder. @param isRunning whether a process runs the experiment */
async function stateOf({ key }: Step, store: Store, isRunning: boolean): Promise<StepState> {
  const result = store.result(key);
  if (result) return { state: "done", seconds: result.seconds ?? 0 };
  const folder = store.stepFolder(key);
  const attempt = await readAttempt(folder);
  if (!attempt) return { state: "pending" };
  if (attempt.state === "stopped") return { state: "pending", reason: attempt.reason };
  if (attempt.state === "failed") return attempt;
  const { runner } = attempt;
  // A job of a cluster outlives who submitted it, and a process takes its step's lock a moment after it is told to.
  const isLiving =
    runner.kind === "slurm" ||
    (isRunning && (runner.host !== hostname() || isAlive(runner.pid))) ||
    (await isLocked(folder));
  return isLiving ? attempt : { state: "pending", reason: "its process is gone" };
}

function localOptions({ executor }: ExperimentPlan) {
  return {
    ...{ totalCores: executor.total_cores, cores: executor.cores },
    ...{ totalMemory: executor.total_memory, memory: executor.memory },
  };
}

export interface RunExperimentOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
  /** What runs the steps instead of the plan's executor; for tests. */
  readonly executor?: (events: ExecutorEvents) => Executor;
}

/**
 * Runs what is left of an experiment.
 * @throws {RecipeError} if its world lacks something, with every problem
 * @throws {LayergraftError} if another runner has it
 * @throws {CancelledError} if the signal fires; what is done stays done, and running it again goes on
 */
export async function runOpened(experiment: Experiment, options: RunExperimentOptions = {}): Promise<RunSummary> {
  const { plan, world, out, file } = experiment;
  const store = new Store(out);
  refuseProblems(world.problems, basename(file));
  const { estimate } = await standOf(experiment);
  refuseProblems(await spaceProblems(experiment, estimate), basename(file));
  return runExperiment({
    ...{ plan, out, facts: world.facts, signal: options.signal, onEvent: options.onEvent },
    attempts: plan.executor.attempts,
    settings: (kind) => settingsOf(experiment, kind),
    executor: options.executor ?? ((events) => executorOf(plan, store, events)),
  });
}

function settingsOf({ plan, data, planFolder }: Experiment, kind: StepKind): StepSettings {
  const resources = resourcesOf(plan, kind);
  // Alone on a machine, a step has all of its cores.
  const cores = resources.cores ?? (plan.executor.kind === "slurm" ? undefined : 1);
  return {
    folder: planFolder,
    ...(data === undefined ? {} : { data }),
    allowCode: plan.evaluate.allow_code,
    unsafeCode: plan.evaluate.unsafe_code,
    ...(cores === undefined ? {} : { threads: Math.min(cores, availableParallelism()) }),
  };
}

/** What steps of a kind ask for. */
function resourcesOf({ executor }: ExperimentPlan, kind: StepKind) {
  const own = kind === "train" ? executor.train : kind === "evaluate" ? executor.evaluate : undefined;
  const { cores, memory, gpus, time, partition, options } = executor;
  const given = Object.fromEntries(Object.entries(own ?? {}).filter(([, value]) => value !== undefined));
  return { cores, memory, gpus, time, partition, options, ...given };
}

function executorOf(plan: ExperimentPlan, store: Store, events: ExecutorEvents): Executor {
  const { executor, name } = plan;
  if (executor.kind === "local") return new LocalExecutor(localOptions(plan), events);
  return new SlurmExecutor(
    {
      ...{ name, folder: store.jobsFolder, setup: executor.setup, maxJobs: executor.most_jobs },
      resources: (kind) => resourcesOf(plan, kind),
      command: [process.execPath, createRequire(import.meta.url).resolve("#experiment-job")],
    },
    events,
  );
}

/** A step and what became of it. */
export interface StepStatus {
  readonly step: Step;
  readonly state: StepState;
}

export interface ExperimentStatus {
  readonly counts: Counts;
  readonly steps: readonly StepStatus[];
  readonly expansion: Expansion;
  readonly estimate: Estimate;
  readonly store: Store;
  /** Seconds that all steps took together. */
  readonly seconds: number;
}

/** Where an experiment stands; it may be running elsewhere. */
export async function statusOf(experiment: Experiment): Promise<ExperimentStatus> {
  const { store, expansion, steps, estimate, seconds } = await standOf(experiment);
  const stateBy = new Map(steps.map(({ step, state }) => [step.key, state.state]));
  const counts = countSteps(expansion, (key) => {
    const state = stateBy.get(key);
    return state === undefined || state === "pending" ? "left" : state;
  });
  return { counts, steps, expansion, estimate, store, seconds };
}
