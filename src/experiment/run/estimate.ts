import type { ExportOutlook } from "../../export/llama/index.js";
import { canonicalJson } from "../../kit/files/index.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { Facts } from "../expand/facts.js";
import type { PlannedTrainStep } from "../expand/plan-models.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { countCheckpoints } from "../plan/training-runs.js";
import { type EvaluateStep, KINDS, type Step, type StepKind } from "../steps/step.js";
import { secondsLeft } from "./time-left.js";
import { type BaseSizes, type Measured, type TrainingOutlook, trainingOutlook } from "./training-outlook.js";

export interface Estimate {
  /** Seconds to the end. Undefined until one step of each kind that is left is done. */
  readonly seconds: number | undefined;
  /** Bytes that are still to be written. Undefined if the size of the base is unknown. */
  readonly bytes: number | undefined;
  /** Of training by TRL and of models that servers run, on an NVIDIA H100: computed, not measured. */
  readonly gpuHours?: { readonly training: number; readonly evaluation: number };
  /** Models that llama.cpp runs, which are exported once, unless an earlier run did. */
  readonly exports?: { readonly models: number } & ExportOutlook;
  /** Steps that run at once. */
  readonly workers: number;
  /** Memory of the largest step, where that limits how many run at once. */
  readonly stepBytes?: number;
}

export interface EstimatedVariant {
  readonly plan: ExperimentPlan;
  readonly expansion: Expansion;
  /** Items of tasks. */
  readonly facts: Pick<Facts, "task"> & Measured;
  /** Sizes of the base, if known. */
  readonly base: (BaseSizes & { readonly bytes: number }) | undefined;
  /** The export of the base, where llama.cpp runs the models. */
  readonly gguf?: ExportOutlook | undefined;
}

export interface EstimateOptions {
  readonly variants: readonly EstimatedVariant[];
  readonly expansion: Expansion;
  /** Duration of a finished step in seconds; undefined for other steps. */
  readonly secondsOf: (key: string) => number | undefined;
  readonly workers: number;
  readonly stepBytes?: number | undefined;
}

export function estimateExperiment({ variants, expansion, secondsOf, workers, stepBytes }: EstimateOptions): Estimate {
  const stepsLeft = new Map<StepKind, number>();
  for (const kind of KINDS) {
    const own = expansion.steps.filter((step) => step.kind === kind && secondsOf(step.key) === undefined);
    stepsLeft.set(kind, own.length + waitingSteps(expansion, kind));
  }
  const seconds = secondsLeft(variants, (kind) => waitingSteps(expansion, kind), secondsOf);
  // A worker without a step takes no time and no space.
  const atOnce = (...kinds: readonly StepKind[]) =>
    Math.min(
      workers,
      kinds.reduce((sum, kind) => sum + (stepsLeft.get(kind) ?? 0), 0),
    );
  const open = openVariants(variants, secondsOf);
  const bytes = bytesLeft(open, workers, atOnce("evaluate"));
  const gpuHours = gpuHoursLeft(open, waitingSteps(expansion, "evaluate"));
  const gguf = variants.flatMap((one) => one.gguf ?? []).toSorted((a, b) => b.bytes - a.bytes)[0];
  const left = expansion.steps.flatMap((step) =>
    step.kind === "evaluate" && secondsOf(step.key) === undefined ? [canonicalJson(step.model)] : [],
  );
  return {
    seconds: seconds === undefined ? undefined : seconds / Math.max(1, atOnce(...KINDS)),
    bytes,
    workers,
    ...(stepBytes === undefined ? {} : { stepBytes }),
    ...(gpuHours ? { gpuHours } : {}),
    ...(gguf ? { exports: { models: new Set(left).size, ...gguf } } : {}),
  };
}

/** About how many steps depend on results. @param only of this kind; default all */
export function waitingSteps({ waiting }: Expansion, only?: StepKind): number {
  const counted = waiting.filter(({ kind = "evaluate" }) => only === undefined || kind === only);
  return counted.reduce((sum, { steps }) => sum + steps, 0);
}

/** A variant with its steps that are not done, each once over all variants. */
interface OpenVariant extends EstimatedVariant {
  readonly left: readonly Step[];
}

/** What the training runs that are left will do; none of a variant whose base is unknown. */
export function outlooksOf(
  variants: readonly EstimatedVariant[],
  secondsOf: EstimateOptions["secondsOf"],
  nameOf: (key: string) => string | undefined = () => undefined,
): readonly TrainingOutlook[] {
  return openVariants(variants, secondsOf).flatMap((one) =>
    one.base === undefined
      ? []
      : runsLeft(one).map((run) => {
          const outlook = trainingOutlook(run, one.base as BaseSizes, one.facts);
          return { ...outlook, name: nameOf(run.step.key) ?? outlook.name };
        }),
  );
}

/** The variants with the steps that are left, each in the first variant that has it. */
function openVariants(variants: readonly EstimatedVariant[], secondsOf: EstimateOptions["secondsOf"]): OpenVariant[] {
  const counted = new Set<string>();
  return variants.map((variant) => {
    const left = variant.expansion.steps.filter(({ key }) => secondsOf(key) === undefined && !counted.has(key));
    for (const { key } of left) counted.add(key);
    return { ...variant, left };
  });
}

function runsLeft({ expansion, left }: Pick<OpenVariant, "expansion" | "left">): PlannedTrainStep[] {
  const known = left.flatMap(({ key }) => expansion.runs.get(key) ?? []);
  return [...known, ...expansion.waiting.flatMap(({ runs = [] }) => runs)];
}

/** Size of an adapter at most, as a share of its model. */
const ADAPTER_SHARE = 1 / 50;
/** Bytes of training state per parameter: weights and two moments in float32. */
const STATE_BYTES = 12;

const BYTES: Readonly<Record<string, number>> = { float32: 4, bfloat16: 2, float16: 2 };

/** Bytes of a model in an element type; that of the base for `keep`. */
function sizeAs(dtype: string, { parameters, bytes }: { readonly parameters: number; readonly bytes: number }): number {
  return dtype in BYTES ? (BYTES[dtype] ?? 0) * parameters : bytes;
}

/** Checkpoints, training states of running steps, written merges, and merged models of servers; undefined if a base is unknown. */
function bytesLeft(variants: readonly OpenVariant[], workers: number, servers: number): number | undefined {
  const states: number[] = [];
  let [written, served] = [0, 0];
  for (const { plan, expansion, base, left } of variants) {
    if (!base) return undefined;
    for (const { settings } of runsLeft({ expansion, left })) {
      const isAdapter = settings.method === "lora";
      const size = isAdapter ? ADAPTER_SHARE * base.bytes : sizeAs(settings.save_dtype, base);
      written += countCheckpoints(settings) * size;
      states.push(isAdapter ? 0 : STATE_BYTES * base.parameters);
    }
    const merges = left.filter(({ kind }) => kind === "merge").length + waitingSteps(expansion, "merge");
    const merged = Math.max(0, ...plan.merges.map(({ recipe }) => sizeAs(String(recipe?.dtype ?? "keep"), base)));
    written += merges * merged;
    if (plan.evaluate.backend.startsWith("serve:")) served = Math.max(served, merged);
  }
  const running = states.toSorted((a, b) => b - a).slice(0, workers);
  return running.reduce((sum, state) => sum + state, written + servers * served);
}

/** Seconds to write a merge and to start its server, tokens of a usual answer and of a reasoning trace, and the server's speed. */
const SERVING = { start: 170, answer: 200, trace: 3000, tokensPerSecond: 5000, secondsPerChoice: 0.03 };

/** @param waiting evaluations that depend on results; each counts as the mean of the known ones */
function gpuHoursLeft(variants: readonly OpenVariant[], waiting: number): Estimate["gpuHours"] {
  let training = 0;
  const evaluations: number[] = [];
  for (const { plan, expansion, base, left, facts } of variants) {
    if (!base) return undefined;
    for (const run of runsLeft({ expansion, left })) training += trainingOutlook(run, base, facts).gpuHours ?? 0;
    if (!plan.evaluate.backend.startsWith("serve:")) continue;
    for (const step of left) if (step.kind === "evaluate") evaluations.push(servingSeconds(step, facts));
  }
  const known = evaluations.reduce((sum, seconds) => sum + seconds, 0);
  const evaluation = evaluations.length === 0 ? 0 : known * (1 + waiting / evaluations.length);
  return training + evaluation > 0 ? { training, evaluation: evaluation / 3600 } : undefined;
}

function servingSeconds({ request, items }: EvaluateStep, facts: EstimatedVariant["facts"]): number {
  const { items: all, choices = [] } = facts.task(request);
  const asked = items?.length ?? all;
  if (choices.length > 0) return SERVING.start + asked * SERVING.secondsPerChoice;
  const { max_new_tokens: most = SERVING.answer, repeats = 1 } = request;
  return SERVING.start + (asked * repeats * Math.min(most, SERVING.trace)) / SERVING.tokensPerSecond;
}
