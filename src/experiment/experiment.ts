// An experiment as programs use it: opened from its plan, checked, run, looked at. The parts are plan/, steps/, run/ and
// execute/.
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Executor, ExecutorEvents } from "./execute/executor.js";
import { LocalExecutor, workersOf } from "./execute/local.js";
import { SlurmExecutor } from "./execute/slurm.js";
import { Ledger, type StepState } from "./ledger.js";
import { type Expansion, expandPlan } from "./plan/expand.js";
import { type LocatedPlan, readPlan } from "./plan/file.js";
import type { ExperimentPlan } from "./plan/schema.js";
import { type CheckedWorld, checkWorld, refuseFaults, spaceFault } from "./run/check.js";
import { type Estimate, estimateExperiment, type Measured } from "./run/estimate.js";
import { type Counts, countSteps, type RunEvent, type RunSummary, runExperiment } from "./run/runner.js";
import { type StepSettings, Store } from "./run/store.js";
import { NO_RESULTS } from "./steps/facts.js";
import type { Step, StepKind } from "./steps/step.js";

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
 * @throws {RecipeError} if the plan has faults, with all of them; what its world lacks is in `world.faults`
 */
export async function openExperiment(file: string, options: OpenOptions = {}): Promise<Experiment> {
  const located = await readPlan(file);
  const planFolder = resolve(located.folder);
  const plan: ExperimentPlan =
    options.base === undefined ? located.plan : { ...located.plan, base: resolve(options.base), assume: undefined };
  const out = resolve(options.out ?? join(planFolder, plan.out ?? `${plan.name}.experiment`));
  const named = plan.evaluate.data;
  const data = options.data ? resolve(options.data) : named === undefined ? undefined : resolve(planFolder, named);
  const absolute: LocatedPlan = { ...located, plan, folder: planFolder };
  const world = await checkWorld(absolute, { out, data, signal: options.signal });
  return { plan, file, planFolder, out, data, world };
}

/** What an experiment amounts to, before or while it runs. */
export interface Outlook {
  readonly expansion: Expansion;
  readonly estimate: Estimate | undefined;
  /** Everything that keeps it from running. */
  readonly faults: readonly string[];
}

/** What will be done if it begins now, from nothing: steps, hours, bytes, faults. For `--dry-run`. */
export async function previewExperiment(experiment: Experiment): Promise<Outlook> {
  const { plan, world, out } = experiment;
  const expansion = expandPlan(plan, world.facts, NO_RESULTS);
  const estimate = estimateOf(experiment, expansion, []);
  const space = estimate && (await spaceFault(out, estimate.bytes));
  return { expansion, estimate, faults: [...world.faults, ...(space === undefined ? [] : [space])] };
}

function estimateOf(experiment: Experiment, expansion: Expansion, done: readonly Measured[]): Estimate | undefined {
  const { plan, world } = experiment;
  if (!world.base) return undefined;
  const { executor } = plan;
  const workers = executor.kind === "slurm" ? executor.most_jobs : workersOf(localOptions(plan));
  return estimateExperiment({ plan, expansion, facts: world.facts, base: world.base, done, workers });
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
 * @throws {RecipeError} if its world lacks something, with every fault
 * @throws {LayergraftError} if another runner has it
 * @throws {CancelledError} if the signal fires; what is done stays done, and running it again goes on
 */
export async function runOpened(experiment: Experiment, options: RunExperimentOptions = {}): Promise<RunSummary> {
  const { plan, world, out, file } = experiment;
  const store = new Store(out);
  const preview = await previewExperiment(experiment);
  refuseFaults(preview.faults, basename(file));
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
      ...{ name, folder: store.jobsFolder, setup: executor.setup, mostJobs: executor.most_jobs },
      resources: (kind) => resourcesOf(plan, kind),
      command: [process.execPath, fileURLToPath(new URL("./execute/job.js", import.meta.url))],
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
  readonly estimate: Estimate | undefined;
  readonly store: Store;
  /** Seconds that all steps took together. */
  readonly seconds: number;
}

/** Where an experiment stands; it may be running elsewhere. */
export async function statusOf(experiment: Experiment): Promise<ExperimentStatus> {
  const { plan, world, out } = experiment;
  const store = new Store(out);
  const ledger = await Ledger.read(out);
  let expansion = expandPlan(plan, world.facts, store);
  for (let isNews = true; isNews; ) {
    isNews = false;
    for (const { key } of expansion.steps) {
      if (!store.result(key) && (await store.load(key))) isNews = true;
    }
    if (isNews) expansion = expandPlan(plan, world.facts, store);
  }
  const steps = expansion.steps.map((step): StepStatus => {
    const state = ledger.stateOf(step.key);
    // A result without a note: the process was killed between the two.
    if (store.result(step.key) && state.state !== "done") {
      return { step, state: { state: "done", attempts: state.attempts, seconds: 0 } };
    }
    // A note without a result: somebody deleted the folder, and the step will run again.
    if (state.state === "done" && !store.result(step.key)) return { step, state: { state: "pending", attempts: 0 } };
    return { step, state };
  });
  const stateBy = new Map(steps.map(({ step, state }) => [step.key, state.state]));
  const counts = countSteps(expansion, (key) => {
    const state = stateBy.get(key);
    return state === undefined || state === "pending" ? "left" : state;
  });
  const done = steps.flatMap(({ step, state }): Measured[] =>
    state.state === "done" && state.seconds > 0 ? [{ step, seconds: state.seconds }] : [],
  );
  const seconds = done.reduce((sum, one) => sum + one.seconds, 0);
  return { counts, steps, expansion, estimate: estimateOf(experiment, expansion, done), store, seconds };
}
