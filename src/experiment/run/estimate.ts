// What an experiment will take: steps, hours, bytes. From the sizes of models and tasks at first; from what the steps took
// that are done, as soon as some are. Estimates only: nothing depends on them.
import type { Expansion } from "../plan/expand.js";
import { membersOf } from "../plan/names.js";
import type { ExperimentPlan } from "../plan/schema.js";
import { checkpointsOf, settledRun, USUAL_LENGTH, USUAL_SAMPLES } from "../plan/training.js";
import type { ReadFacts } from "../steps/facts-reader.js";
import type { EvaluateStep, Step, StepKind, TrainStep } from "../steps/step.js";

export interface Estimate {
  /** Steps that can be named, by kind. */
  readonly steps: Readonly<Record<StepKind, number>>;
  /** About how many more there will be. */
  readonly waiting: number;
  /** Seconds of all steps one after another, by kind; of those that are not done. */
  readonly seconds: Readonly<Record<StepKind, number>>;
  /** Seconds from now to the end, steps side by side. */
  readonly wallSeconds: number;
  /** Bytes that the experiment's folder will have. */
  readonly bytes: number;
  /** Whether the hours are from steps that were measured, or from an assumed speed. */
  readonly isMeasured: boolean;
  /** Operations per second of one step that were assumed or measured, by kind. */
  readonly speed: Readonly<Record<StepKind, number>>;
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
/** Bytes of a step's files but for models: samples, answers, logs. */
const SMALL_BYTES = 1e6;

/** What a step that is done took. */
export interface Measured {
  readonly step: Step;
  readonly seconds: number;
}

/** @param sizes of the base, where it is known */
export interface EstimateOptions {
  readonly plan: ExperimentPlan;
  readonly expansion: Expansion;
  readonly facts: Pick<ReadFacts, "task">;
  readonly base: { readonly parameters: number; readonly bytes: number };
  readonly done: readonly Measured[];
  /** Steps that run side by side. */
  readonly workers: number;
}

export function estimateExperiment(options: EstimateOptions): Estimate {
  const { plan, expansion, done, workers } = options;
  const work = (step: Step) => operationsOf(step, options);
  const kinds: StepKind[] = ["train", "analyze", "evaluate"];
  const assumed =
    plan.executor.flops ?? (plan.executor.kind === "slurm" ? GPU_SPEED : CORE_SPEED * (plan.executor.cores ?? 1));
  const speed = {} as Record<StepKind, number>;
  for (const kind of kinds) {
    const own = done.filter(({ step }) => step.kind === kind);
    const seconds = own.reduce((sum, one) => sum + one.seconds, 0);
    speed[kind] = seconds > 0 ? own.reduce((sum, { step }) => sum + work(step), 0) / seconds : assumed;
  }
  const isDone = new Set(done.map(({ step }) => step.key));
  const left = expansion.steps.filter(({ key }) => !isDone.has(key));
  const secondsOf = (step: Step) => Math.max(LEAST_SECONDS, work(step) / speed[step.kind]);
  const seconds = {} as Record<StepKind, number>;
  for (const kind of kinds) {
    seconds[kind] = left.filter((step) => step.kind === kind).reduce((sum, step) => sum + secondsOf(step), 0);
  }
  const waiting = expansion.waiting.reduce((sum, { steps }) => sum + steps, 0);
  const evaluations = expansion.steps.filter(({ kind }) => kind === "evaluate");
  // What cannot be named yet is evaluation, as long as that of others on average.
  const usual = evaluations.reduce((sum, step) => sum + secondsOf(step), 0) / Math.max(1, evaluations.length);
  seconds.evaluate += waiting * usual;
  const total = kinds.reduce((sum, kind) => sum + seconds[kind], 0);
  const longest = Math.max(0, ...left.map(secondsOf));
  const counts = Object.fromEntries(
    kinds.map((kind) => [kind, expansion.steps.filter((step) => step.kind === kind).length]),
  ) as Record<StepKind, number>;
  return {
    steps: counts,
    waiting,
    seconds,
    wallSeconds: Math.max(longest, total / Math.max(1, workers)),
    bytes: bytesOf(waiting, options),
    isMeasured: done.length > 0,
    speed,
  };
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
  const { samples, steps, batch, accumulation, sequence_length: length } = settledRun(step);
  const sequences = samples ?? (steps === undefined ? USUAL_SAMPLES : steps * batch * accumulation);
  return sequences * (length ?? USUAL_LENGTH);
}

function answerTokens({ request, items }: EvaluateStep, { facts }: EstimateOptions): number {
  const task = facts.task(request);
  const share = items === null ? 1 : items.length / Math.max(1, task.items);
  return share * (task.promptCharacters / CHARACTERS_PER_TOKEN + task.newTokens);
}

/** Checkpoints, what runs keep to be resumed, and, for servers, the layers of merges. */
function bytesOf(waiting: number, { expansion, plan, base, workers }: EstimateOptions): number {
  let sum = (expansion.steps.length + waiting) * SMALL_BYTES;
  const states: number[] = [];
  for (const step of expansion.steps) {
    if (step.kind !== "train") continue;
    const { method, checkpoints } = settledRun(step);
    const count = checkpoints.keep === "all" ? checkpointsOf(step) : 1;
    // An adapter is a fiftieth of its model or less.
    sum += count * (method === "lora" ? base.bytes / 50 : base.bytes);
    // Weights and two moments, float32, which go when the run is done.
    states.push(method === "lora" ? 0 : 12 * base.parameters);
  }
  sum += states.slice(0, workers).reduce((all, one) => all + one, 0);
  if (plan.evaluate.backend !== "engine" && plan.merges.length > 0) {
    // Experts once, as files of layers, and what configurations blend: embeddings and head, a tenth of a model or so.
    const merges = expansion.models.filter(({ model }) => model.kind === "merge").length;
    sum += (membersOf(plan).length + merges / 10) * base.bytes;
  }
  return sum;
}
