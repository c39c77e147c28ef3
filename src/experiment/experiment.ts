import { createRequire } from "node:module";
import { availableParallelism, hostname } from "node:os";
import { basename, join, resolve } from "node:path";
import { hubCache } from "../formats/checkpoint/index.js";
import { isAlive, isLocked } from "../kit/files/index.js";
import { type CallOptions, CancelledError, RecipeError, usageError } from "../kit/index.js";
import { formatSome, shorten } from "../kit/printing/index.js";
import { type CheckedWorld, checkWorld } from "./check/check.js";
import { type MergeNote, mergeNotes } from "./check/check-merges.js";
import type { FetchOptions } from "./check/facts-reader.js";
import { spaceProblems } from "./check/machine.js";
import type { PlanProgram } from "./check/programs.js";
import { memoryProblems } from "./check/step-memory.js";
import type { Executor, ExecutorEvents } from "./execute/executor.js";
import { LocalExecutor, workersOf } from "./execute/local.js";
import { SlurmExecutor } from "./execute/slurm.js";
import type { Expanded, ExpandedVariant } from "./expand/expand-variants.js";
import type { Variant } from "./plan/matrix.js";
import { inspectPlan } from "./plan/plan-file.js";
import type { ExperimentInput, ExperimentPlan } from "./plan/plan-schema.js";
import { type PublishedScore, readPublished } from "./plan/published.js";
import { type Estimate, estimateExperiment, outlooksOf } from "./run/estimate.js";
import { type Counts, countSteps, type RunEvent, type RunSummary, runExperiment } from "./run/run-experiment.js";
import type { Store } from "./run/store.js";
import { StoredSteps } from "./run/stored-steps.js";
import type { TrainingOutlook } from "./run/training-outlook.js";
import { KINDS, type Step, type StepKind } from "./steps/step.js";
import { readAttempt, type StepSettings, type StepState } from "./steps/step-state.js";

export interface OpenOptions extends Pick<CallOptions, "signal"> {
  /** Base model. Default: the plan's. */
  readonly base?: string | undefined;
  /** Folder of the experiment. Default: the plan's `out`, or `NAME.experiment` beside the plan. */
  readonly out?: string | undefined;
  /** Folder with the data of evaluations. Default: the plan's, or the hub. */
  readonly data?: string | undefined;
}

/** A plan, and what its models, data and tasks are. */
export interface Experiment extends Variant {
  /** The plan; with a matrix, that of the first variant. */
  readonly plan: ExperimentPlan;
  /** With a matrix: each variant as an experiment in the same folder, with its own plan and base. Otherwise empty. */
  readonly variants: readonly Experiment[];
  /** Path of the plan, for messages. */
  readonly file: string;
  /** Absolute folder that the plan's relative paths start from. */
  readonly planFolder: string;
  /** Absolute folder of the experiment. */
  readonly out: string;
  /** Whether the plan is a file, and no option replaces its base, folder or data. */
  readonly isAsWritten: boolean;
  /** Absolute folder with the data of evaluations, if one is set. */
  readonly data: string | undefined;
  /** Scores that the report compares with; none of a plan with a matrix. */
  readonly published: readonly PublishedScore[];
  readonly world: CheckedWorld;
  /** What a run starts that is not layergraft. */
  readonly programs: readonly PlanProgram[];
}

/**
 * Opens an experiment: reads its plan, and checks models, data and tasks.
 * @param source path of a plan, or a plan whose relative paths start from the working folder
 * @throws RecipeError if the plan is not valid, with every problem. Missing models, data and tasks of a valid plan are in
 *   `world.problems`.
 * @throws CancelledError if the signal fires
 */
export async function openExperiment(source: string | ExperimentInput, options: OpenOptions = {}): Promise<Experiment> {
  const inspected = await inspectPlan(source);
  const { file } = inspected;
  const planFolder = resolve(inspected.folder);
  const written = withBase(inspected.variants, options.base);
  const { plan } = written[0] as Variant;
  const out = resolve(options.out ?? join(planFolder, plan.out ?? `${plan.name}.experiment`));
  const planned = plan.evaluate.data && resolve(planFolder, plan.evaluate.data);
  const data = options.data ? resolve(options.data) : planned;
  const checked = { ...inspected, variants: written, folder: planFolder };
  const { signal } = options;
  const requireNotAborted = () => {
    if (signal?.aborted) throw new CancelledError("stopped while checking the plan; run it again to resume");
  };
  const found = await checkWorld(checked, { data, signal }).catch((error: unknown) => {
    requireNotAborted();
    throw error;
  });
  // Otherwise whatever was being read is reported as a problem of the plan.
  requireNotAborted();
  const { facts, variants, problems, notes, programs } = found;
  if (inspected.problems.flat().length > 0) refuseProblems(problems, file, "is not a valid plan");
  const isAsWritten = typeof source === "string" && !(options.base ?? options.out ?? options.data);
  const whole = { file, planFolder, out, isAsWritten, data, programs, variants: [], published: [] };
  const experiments = variants.map(
    ({ base, gguf, memory, ...variant }): Experiment => ({
      ...whole,
      ...variant,
      world: { facts, base, gguf, memory, problems: [], notes: [] },
    }),
  );
  const [first] = experiments as [Experiment];
  const world = { ...first.world, problems, notes };
  if (first.id !== "") return { ...first, id: "", title: "", values: {}, world, variants: experiments };
  return { ...first, world, published: typeof source === "string" ? await readPublished(source) : [] };
}

function withBase(variants: readonly Variant[], base: string | undefined): readonly Variant[] {
  if (base === undefined) return variants;
  if (new Set(variants.map(({ plan }) => plan.base)).size > 1) {
    throw usageError(
      "the given base would replace the bases of the plan's matrix. Leave it out, or remove them from the matrix.",
    );
  }
  // Assumed sizes are those of the plan's own base.
  return variants.map((one) => ({ ...one, plan: { ...one.plan, base: resolve(base), assume: undefined } }));
}

/** The variants of a matrix, or the experiment itself. */
function partsOf(experiment: Experiment): readonly Experiment[] {
  return experiment.variants.length > 0 ? experiment.variants : [experiment];
}

export interface StepStatus {
  readonly step: Step;
  readonly state: StepState;
}

/** What is known of an experiment's steps, which one operation passes on to the next. */
export type KnownSteps = StoredSteps<Experiment>;

export interface ExperimentStatus {
  readonly known: KnownSteps;
  readonly store: Store;
  /** Steps and models of all variants that are known so far; `waiting` counts those that are not. */
  readonly expansion: Expanded["expansion"];
  /** Those of each variant; without a matrix, of the experiment itself. */
  readonly variants: readonly ExpandedVariant<Experiment>[];
  readonly steps: readonly StepStatus[];
  readonly counts: Counts;
  readonly estimate: Estimate;
  /** Duration of all finished steps together. */
  readonly seconds: number;
}

const stepsOf = (experiment: Experiment): KnownSteps =>
  new StoredSteps(partsOf(experiment), experiment.world.facts, experiment.out);

/**
 * How far an experiment is, whether or not it is running.
 * @param known what a run or an earlier look has found out
 */
export async function statusOf(experiment: Experiment, known = stepsOf(experiment)): Promise<ExperimentStatus> {
  const { plan, out } = experiment;
  const { store } = known;
  const { expansion, variants } = await known.read();
  const isRunning = await isLocked(out);
  const steps: StepStatus[] = [];
  const secondsBy = new Map<string, number>();
  for (const step of expansion.steps) {
    const state = await stateOf(step, store, isRunning);
    steps.push({ step, state });
    if (state.state === "done") secondsBy.set(step.key, state.seconds);
  }
  const { executor } = plan;
  const limits = executor.kind === "local" ? stepLimits(experiment) : undefined;
  const estimate = estimateExperiment({
    expansion,
    secondsOf: (key: string) => secondsBy.get(key),
    variants: variants.map(estimatedOf),
    workers: limits?.workers ?? executor.most_jobs,
    ...(limits?.bytes === undefined ? {} : { stepBytes: limits.bytes }),
  });
  const seconds = [...secondsBy.values()].reduce((sum, one) => sum + one, 0);
  return { known, store, expansion, variants, steps, counts: countsOf(expansion, steps), estimate, seconds };
}

/** How many steps run here at once, and bytes of the largest if that is what limits them. */
function stepLimits(experiment: Experiment): { readonly workers: number; readonly bytes?: number } {
  const { executor } = experiment.plan;
  const sizes = KINDS.flatMap((kind) => resourcesOf(experiment, kind).memory ?? []);
  if (sizes.length === 0) return { workers: workersOf(executor) };
  const bytes = Math.max(...sizes);
  const workers = workersOf({ ...executor, memory: bytes });
  return workers < workersOf({ ...executor, memory: undefined }) ? { workers, bytes } : { workers };
}

function estimatedOf({ variant, expansion }: ExpandedVariant<Experiment>) {
  return { ...variant.world, plan: variant.plan, expansion };
}

export function statusOfVariant(status: ExperimentStatus, one: ExpandedVariant<Experiment>): ExperimentStatus {
  const { expansion } = one;
  const keys = new Set(expansion.steps.map(({ key }) => key));
  const steps = status.steps.filter(({ step }) => keys.has(step.key));
  return { ...status, expansion, variants: [one], steps, counts: countsOf(expansion, steps) };
}

function countsOf(expansion: Expanded["expansion"], steps: readonly StepStatus[]): Counts {
  const stateBy = new Map(steps.map(({ step, state }) => [step.key, state.state]));
  return countSteps(expansion, (key) => {
    const state = stateBy.get(key);
    return state === undefined || state === "pending" ? "left" : state;
  });
}

/** What a run downloads before its first step, and what its training runs download. */
export interface Downloads {
  readonly models: { readonly count: number; readonly bytes: number };
  readonly dataSets: { readonly count: number; readonly bytes: number };
  /** The cache of huggingface_hub. */
  readonly folder: string;
}

export interface Outlook
  extends Pick<ExperimentStatus, "known" | "expansion" | "variants" | "steps" | "estimate">,
    Pick<Experiment, "programs"> {
  readonly downloads: Downloads;
  /** Training runs that are left. */
  readonly training: readonly TrainingOutlook[];
  /** What merges will note, each in its default configuration; `later`: merges whose experts are not here yet. */
  readonly merges: { readonly notes: readonly MergeNote[]; readonly later: number };
  /** Why it cannot run. */
  readonly problems: readonly string[];
}

/** Finds out what an experiment will do if it is run or resumed now. */
export async function previewExperiment(experiment: Experiment): Promise<Outlook> {
  const { out, programs, world } = experiment;
  for (const { plan } of partsOf(experiment)) await world.facts.measureRuns(plan);
  const { known, expansion, variants, steps, estimate } = await statusOf(experiment);
  const done = new Set(steps.flatMap(({ step, state }) => (state.state === "done" ? [step.key] : [])));
  // With a matrix, names say of which variants.
  const names = new Map(steps.flatMap(({ step }) => (step.kind === "train" ? [[step.key, step.name] as const] : [])));
  const isDone = (key: string) => (done.has(key) ? 0 : undefined);
  const training = outlooksOf(variants.map(estimatedOf), isDone, (key) => names.get(key));
  const merges = [];
  for (const { plan, world: own } of partsOf(experiment)) {
    merges.push(await mergeNotes(plan, own.facts, experiment.planFolder));
  }
  const short = training.flatMap(({ name, problem }) => (problem === undefined ? [] : [`${name}: ${problem}`]));
  const { facts } = world;
  const total = (sizes: readonly number[]) => ({
    count: sizes.length,
    bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
  });
  const models = total([...facts.models.values()].flatMap(({ bytesToFetch }) => bytesToFetch || []));
  const dataSets = total([...facts.dataSets.values()].filter((bytes) => bytes > 0));
  const folder = await hubCache();
  const fetched = models.bytes + dataSets.bytes;
  const needs = new Map([[out, estimate.bytes ?? 0], ...(fetched > 0 ? [[folder, fetched] as const] : [])]);
  const tooLarge = await Promise.all(
    partsOf(experiment).map(({ plan, world: own }) => memoryProblems(plan, baseOf(plan, own), leftOf(steps))),
  );
  const problems = [...world.problems, ...new Set([...short, ...tooLarge.flat()]), ...(await spaceProblems(needs))];
  return {
    known,
    training,
    merges: { notes: merges.flatMap(({ notes }) => notes), later: Math.max(...merges.map(({ later }) => later)) },
    expansion,
    variants,
    steps,
    estimate,
    downloads: { models, dataSets, folder },
    problems,
    programs,
  };
}

const baseOf = ({ base }: ExperimentPlan, { facts }: CheckedWorld) => facts.models.get(base)?.checkpoint;

/** Which kinds of steps are left. Whatever is left, models are evaluated after it. */
function leftOf(steps: readonly StepStatus[]) {
  const left = steps.filter(({ state }) => state.state !== "done");
  return { train: left.some(({ step }) => step.kind === "train"), evaluate: left.length > 0 };
}

/** @param isRunning whether a process runs the experiment */
async function stateOf({ key }: Step, store: Store, isRunning: boolean): Promise<StepState> {
  const result = store.result(key);
  if (result) return { state: "done", seconds: result.seconds ?? 0 };
  const folder = store.stepFolder(key);
  const attempt = await readAttempt(folder);
  if (!attempt) return { state: "pending" };
  if (attempt.state === "stopped") return { state: "pending", reason: attempt.reason };
  if (attempt.state === "failed") return attempt;
  const { runner } = attempt;
  // A Slurm job outlives its runner, and a process takes its step's lock a moment after it starts.
  const isAttemptRunning =
    runner.kind === "slurm" ||
    (isRunning && (runner.host !== hostname() || isAlive(runner.pid))) ||
    (await isLocked(folder));
  return isAttemptRunning ? attempt : { state: "pending", reason: "its process is gone" };
}

export interface RunExperimentOptions {
  readonly signal?: AbortSignal | undefined;
  /** Whether the programs of the plan may run. Default: false. */
  readonly allowCode?: boolean | undefined;
  /** Called while models on the hub are downloaded, before the first step. */
  readonly onDownload?: FetchOptions["onProgress"];
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
  /** For tests. */
  readonly executor?: (events: ExecutorEvents) => Executor;
}

/**
 * Downloads the models that are on the hub, and runs what is left of an experiment.
 * @throws RecipeError if models, data, tasks or disk space are missing, with every problem, or the plan starts programs without
 *   `allowCode`
 * @throws LayergraftError code `locked` if another process runs it
 * @throws CancelledError if the signal fires; run it again to resume
 */
export async function runOpened(
  experiment: Experiment,
  options: RunExperimentOptions = {},
): Promise<RunSummary & Pick<ExperimentStatus, "known">> {
  const { plan, world, file, programs } = experiment;
  refuseProblems(world.problems, basename(file));
  if (programs.length > 0 && !options.allowCode) {
    const named = formatSome(programs.map(({ what }) => shorten(what)));
    const message = `${basename(file)} names programs: ${named}. A dry run lists them with what they do`;
    throw RecipeError.at({ file, option: "allowCode" }, message);
  }
  const { known, problems } = await previewExperiment(experiment);
  refuseProblems(problems, basename(file));
  await world.facts.fetchModels({ onProgress: options.onDownload, signal: options.signal });
  const summary = await runExperiment({
    known,
    signal: options.signal,
    onEvent: options.onEvent,
    attempts: plan.executor.attempts,
    settings: (step) => settingsOf(experiment, step),
    executor: options.executor ?? ((events) => executorOf(experiment, events)),
  });
  return { ...summary, known };
}

function settingsOf(experiment: Experiment, step: Step): StepSettings {
  const { plan, data, planFolder } = experiment;
  const resources = resourcesOf(experiment, step.kind);
  // A Slurm job has all the cores that it can see.
  const cores = resources.cores ?? (plan.executor.kind === "slurm" ? undefined : 1);
  return {
    folder: planFolder,
    ...(data === undefined ? {} : { data }),
    allowCode: plan.evaluate.allow_code,
    unsafeCode: plan.evaluate.unsafe_code,
    ...(cores === undefined ? {} : { threads: Math.min(cores, availableParallelism()) }),
  };
}

/** What a step may take: what the plan says, else memory by the largest estimate of a variant. */
function resourcesOf(experiment: Experiment, kind: StepKind) {
  const { executor } = experiment.plan;
  const own = kind === "train" ? executor.train : kind === "evaluate" ? executor.evaluate : undefined;
  const { cores, gpus, time, partition, options } = executor;
  const estimates = partsOf(experiment).flatMap(({ world }) => world.memory[kind] ?? []);
  const memory = executor.memory ?? (estimates.length > 0 ? Math.max(...estimates) : undefined);
  const given = Object.fromEntries(Object.entries(own ?? {}).filter(([, value]) => value !== undefined));
  return { cores, memory, gpus, time, partition, options, ...given };
}

function executorOf(experiment: Experiment, events: ExecutorEvents): Executor {
  const { executor, name } = experiment.plan;
  if (executor.kind === "local")
    return new LocalExecutor({ ...executor, resources: (kind) => resourcesOf(experiment, kind) }, events);
  return new SlurmExecutor(
    {
      name,
      setup: executor.setup,
      maxJobs: executor.most_jobs,
      resources: (kind) => resourcesOf(experiment, kind),
      command: [process.execPath, createRequire(import.meta.url).resolve("#experiment-job")],
    },
    events,
  );
}

/** @throws RecipeError with all problems, if there are any */
export function refuseProblems(problems: readonly string[], file: string, what = "cannot run here"): void {
  if (problems.length > 0) throw new RecipeError(`${file} ${what}:`, problems, { file });
}
