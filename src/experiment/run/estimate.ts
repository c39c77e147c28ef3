// What is left of an experiment: seconds, from what steps took so far, and bytes. Nothing depends on an estimate.
import type { Expansion } from "../plan/expand.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { countCheckpoints, settledRun } from "../plan/training-runs.js";
import { KINDS } from "../steps/step.js";

export interface Estimate {
  /** Seconds to the end. Undefined while steps of some kind are left and none of that kind is done. */
  readonly seconds: number | undefined;
  /** Bytes that the steps that are left will write. Undefined if the size of the base is unknown. */
  readonly bytes: number | undefined;
  /** Steps that run side by side. */
  readonly workers: number;
}

export interface EstimateOptions {
  readonly plan: ExperimentPlan;
  readonly expansion: Expansion;
  /** Seconds of the steps that are done; undefined for other steps. */
  readonly secondsOf: (key: string) => number | undefined;
  /** Sizes of the base, if they are known. */
  readonly base: { readonly parameters: number; readonly bytes: number } | undefined;
  /** Steps that run side by side. */
  readonly workers: number;
}

/** Estimates what is left: for each kind of step, the mean duration of those that are done times those that are left. */
export function estimateExperiment({ plan, expansion, secondsOf, base, workers }: EstimateOptions): Estimate {
  let seconds: number | undefined = 0;
  for (const kind of KINDS) {
    const own = expansion.steps.filter((step) => step.kind === kind);
    const known = own.flatMap(({ key }) => secondsOf(key) ?? []);
    // Steps that cannot be named yet are nearly all evaluations.
    const left = own.length - known.length + (kind === "evaluate" ? waitingSteps(expansion) : 0);
    if (left === 0) continue;
    const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    seconds = seconds === undefined || known.length === 0 ? undefined : seconds + left * mean;
  }
  const bytes = base && bytesLeft(plan, expansion, base, workers, (key) => secondsOf(key) !== undefined);
  return { seconds: seconds === undefined ? undefined : seconds / workers, bytes, workers };
}

/** About how many steps cannot be named yet. */
export function waitingSteps({ waiting }: Expansion): number {
  return waiting.reduce((sum, { steps }) => sum + steps, 0);
}

/** An adapter is a fiftieth of its model or less. */
const ADAPTER_SHARE = 1 / 50;
/** Bytes of training state for each parameter: weights and two moments, float32. */
const STATE_BYTES = 12;

/** Checkpoints; training states, which go when their run ends; merged models, which go when their server stops. */
function bytesLeft(
  plan: ExperimentPlan,
  { steps }: Expansion,
  base: NonNullable<EstimateOptions["base"]>,
  workers: number,
  isDone: (key: string) => boolean,
): number {
  const left = steps.filter(({ key }) => !isDone(key));
  const runs = left.flatMap((step) => {
    if (step.kind !== "train") return [];
    const isAdapter = settledRun(step).method === "lora";
    return {
      checkpoints: countCheckpoints(step) * base.bytes * (isAdapter ? ADAPTER_SHARE : 1),
      state: isAdapter ? 0 : STATE_BYTES * base.parameters,
    };
  });
  const states = runs.slice(0, workers).reduce((sum, { state }) => sum + state, 0);
  const merged = plan.evaluate.backend !== "engine" && plan.merges.length > 0 ? workers * base.bytes : 0;
  return runs.reduce((sum, { checkpoints }) => sum + checkpoints, states + merged);
}
