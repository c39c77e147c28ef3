// What an experiment will take: steps, hours, bytes. From the sizes of models and tasks at first; from what the steps took
// that are done, as soon as some are. Estimates only: nothing depends on them.
import type { Expansion } from "../plan/expand.js";
import { membersOf } from "../plan/expert-names.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { checkpointCounts, samplesOf, settledRun, USUAL_LENGTH } from "../plan/training-runs.js";
import type { Facts, Results } from "../steps/facts.js";
import type { ReadFacts } from "../steps/facts-reader.js";
import type { EvaluateStep, Step, StepKind, TrainStep } from "../steps/step.js";
import { type Forecast, forecastExperiment } from "./forecast.js";

export interface Estimate {
  /** Steps, by kind: those that are done, those that are left and can be named, and about how many will come later. */
  readonly counts: Readonly<Record<StepKind, StepCounts>>;
  /** About how many more there will be than can be named. */
  readonly waiting: number;
  /** Seconds of all steps that are not done, one after another, by kind; those that come later among them. */
  readonly seconds: Readonly<Record<StepKind, number>>;
  /** Seconds from now to the end, steps side by side as far as they are bound to wait for none of each other. */
  readonly wallSeconds: number;
  /** Bytes that the experiment's folder will have. */
  readonly bytes: number;
  /** Whether the hours are from steps that were measured, or from an assumed speed. */
  readonly isMeasured: boolean;
  /** Operations per second of one step that were assumed or measured, by kind. */
  readonly speed: Readonly<Record<StepKind, number>>;
  /** Steps that run side by side. */
  readonly workers: number;
}

export interface StepCounts {
  readonly done: number;
  readonly left: number;
  readonly later: number;
}

// Operations per second of one step, before anything was measured. Of a processor core, from matrix products at the speed
// that two cores reach together (175 GFLOP/s), half of it for what is not matrix products. Of a GPU's job, 40% of the
// 400 TFLOP/s that today's accelerators sustain in bfloat16.
const CORE_SPEED = 5e10;
const GPU_SPEED = 1.6e14;
/** Characters of a token, on average over languages: fewer in scripts that tokenizers know less. */
const CHARACTERS_PER_TOKEN = 3;
/** Opening a model, starting a process: what even the smallest step takes. */
const LEAST_SECONDS = 2;
/** Bytes of a step's files but for models: logs, figures. */
const SMALL_BYTES = 1e6;
/** Bytes of an item's prompt, answer and verdict, each kept twice or so. */
const ITEM_BYTES = 2000;

/** What a step that is done took. */
export interface Measured {
  readonly step: Step;
  readonly seconds: number;
}

export interface EstimateOptions {
  readonly plan: ExperimentPlan;
  readonly facts: Omit<Facts, "task"> & Pick<ReadFacts, "task">;
  readonly results: Results;
  /** Steps whose results are there. */
  readonly isDone: (key: string) => boolean;
  /** Those of them whose time is known. */
  readonly measured: readonly Measured[];
  /** Sizes of the base. */
  readonly base: { readonly parameters: number; readonly bytes: number };
  /** Steps that run side by side. */
  readonly workers: number;
  /** Cores of the machine that steps run on, where it is this one. */
  readonly cores?: number | undefined;
}

const KINDS: readonly StepKind[] = ["train", "analyze", "evaluate"];

/** What is left of an experiment, and what it takes. */
export function estimateExperiment(options: EstimateOptions): { estimate: Estimate; forecast: Forecast } {
  const { plan, facts, results, isDone, measured, workers } = options;
  const work = (step: Step) => operationsOf(step, options);
  const speed = {} as Record<StepKind, number>;
  const least = {} as Record<StepKind, number>;
  for (const kind of KINDS) {
    const own = measured.filter(({ step }) => step.kind === kind);
    const seconds = own.reduce((sum, one) => sum + one.seconds, 0);
    speed[kind] = seconds > 0 ? own.reduce((sum, { step }) => sum + work(step), 0) / seconds : assumedSpeed(options);
    least[kind] = seconds > 0 ? Math.min(...own.map((one) => one.seconds)) : LEAST_SECONDS;
  }
  const secondsOf = (step: Step) => Math.max(least[step.kind], work(step) / speed[step.kind]);
  const forecast = forecastExperiment({ plan, facts, results, isDone, secondsOf, workers });
  const seconds = { train: 0, analyze: 0, evaluate: 0 };
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, { done: 0, left: 0, later: 0 }])) as Record<
    StepKind,
    { done: number; left: number; later: number }
  >;
  const isLater = new Set(forecast.later);
  for (const step of forecast.expansion.steps) {
    counts[step.kind][isDone(step.key) ? "done" : isLater.has(step) ? "later" : "left"]++;
    if (!isDone(step.key)) seconds[step.kind] += secondsOf(step);
  }
  const estimate: Estimate = {
    ...{ counts, waiting: forecast.later.length, seconds, wallSeconds: forecast.wallSeconds },
    ...{ bytes: bytesOf(forecast.expansion, options), isMeasured: measured.length > 0, speed, workers },
  };
  return { estimate, forecast };
}

/** Operations per second of one step of which nothing was measured. */
function assumedSpeed({ plan: { executor }, cores = Number.POSITIVE_INFINITY }: EstimateOptions): number {
  if (executor.flops !== undefined) return executor.flops;
  return executor.kind === "slurm" ? GPU_SPEED : CORE_SPEED * Math.min(executor.cores ?? 1, cores);
}

/** Floating-point operations of a step: 6 a parameter and token of training, 2 of answering (Kaplan et al., arXiv 2001.08361). */
function operationsOf(step: Step, options: EstimateOptions): number {
  const { parameters } = options.base;
  if (step.kind === "train") return 6 * parameters * tokensOf(step);
  // One pass over base and experts: a few operations for each of their values.
  if (step.kind === "analyze") return 10 * parameters;
  return 2 * parameters * answerTokens(step, options);
}

/** Tokens that a training run sees at most. */
function tokensOf(step: TrainStep): number {
  return samplesOf(step) * (settledRun(step).sequence_length ?? USUAL_LENGTH);
}

function answerTokens({ request, items }: EvaluateStep, { facts }: EstimateOptions): number {
  const task = facts.task(request);
  const share = items === null ? 1 : items.length / Math.max(1, task.items);
  return share * (task.promptCharacters / CHARACTERS_PER_TOKEN + task.newTokens);
}

/** Checkpoints, what runs keep to be resumed, and, for servers, the layers of merges. */
function bytesOf(expansion: Expansion, { plan, base, facts, workers, isDone }: EstimateOptions): number {
  let sum = 0;
  for (const step of expansion.steps) {
    const items = step.kind === "evaluate" ? (step.items?.length ?? facts.task(step.request).items) : undefined;
    sum += items === undefined ? SMALL_BYTES : items * ITEM_BYTES;
  }
  const states: number[] = [];
  for (const step of expansion.steps) {
    if (step.kind !== "train") continue;
    const { method } = settledRun(step);
    const { length: count } = checkpointCounts(step);
    // An adapter is a fiftieth of its model or less.
    sum += count * (method === "lora" ? base.bytes / 50 : base.bytes);
    // Weights and two moments, float32, which go when the run is done.
    if (!isDone(step.key)) states.push(method === "lora" ? 0 : 12 * base.parameters);
  }
  sum += states.slice(0, workers).reduce((all, one) => all + one, 0);
  if (plan.evaluate.backend !== "engine" && plan.merges.length > 0) {
    // Experts once, as files of layers, and what is blended: of a swap, embeddings and head, a tenth of a model or so, in
    // whichever configuration of layers; of an average, all of it.
    const blends = new Map<string, number>();
    for (const { model } of expansion.models) {
      if (!("merge" in model)) continue;
      const isSwap = model.merge.recipe?.method === "swap" || model.merge.suggest !== undefined;
      const others = Object.entries(model.configuration.fields).filter(([field]) => !/^(bottom|top)/.test(field));
      const key = JSON.stringify([model.merge.name, model.members, isSwap ? others : model.configuration.fields]);
      blends.set(key, isSwap ? 0.1 : 1);
    }
    sum += (membersOf(plan).length + [...blends.values()].reduce((all, one) => all + one, 0)) * base.bytes;
  }
  return sum;
}
