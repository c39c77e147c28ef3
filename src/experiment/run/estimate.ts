// Estimates the time and disk space that an experiment still needs.
import { canonicalJson } from "../../core/index.js";
import type { ExportOutlook } from "../../llama/index.js";
import type { Expansion } from "../plan/expand-plan.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { countCheckpoints, settledRun } from "../plan/training-runs.js";
import { KINDS, type StepKind } from "../steps/step.js";

export interface Estimate {
  /** Seconds to the end. Undefined until one step of each kind that is left is done. */
  readonly seconds: number | undefined;
  /** Bytes that are still to be written. Undefined if the size of the base is unknown. */
  readonly bytes: number | undefined;
  /** Models that llama.cpp runs, which are exported once, unless an earlier run did. */
  readonly exports?: { readonly models: number } & ExportOutlook;
  /** Steps that run in parallel. */
  readonly workers: number;
}

export interface EstimateOptions {
  readonly plan: ExperimentPlan;
  readonly expansion: Expansion;
  /** Duration of a finished step in seconds; undefined for other steps. */
  readonly secondsOf: (key: string) => number | undefined;
  /** Sizes of the base, if known. */
  readonly base: { readonly parameters: number; readonly bytes: number } | undefined;
  /** The export of the base, where llama.cpp runs the models. */
  readonly gguf?: ExportOutlook | undefined;
  /** Steps that run in parallel. */
  readonly workers: number;
}

/** For each kind of step: the mean duration of finished steps times the steps left. */
export function estimateExperiment({ plan, expansion, secondsOf, base, gguf, workers }: EstimateOptions): Estimate {
  let seconds: number | undefined = 0;
  for (const kind of KINDS) {
    const own = expansion.steps.filter((step) => step.kind === kind);
    const known = own.flatMap(({ key }) => secondsOf(key) ?? []);
    const left = own.length - known.length + waitingSteps(expansion, kind);
    if (left === 0) continue;
    const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    seconds = seconds === undefined || known.length === 0 ? undefined : seconds + left * mean;
  }
  const bytes = base && bytesLeft(plan, expansion, base, workers, (key) => secondsOf(key) !== undefined);
  const left = expansion.steps.flatMap((step) =>
    step.kind === "evaluate" && secondsOf(step.key) === undefined ? [canonicalJson(step.model)] : [],
  );
  return {
    ...{ seconds: seconds === undefined ? undefined : seconds / workers, bytes, workers },
    ...(gguf ? { exports: { models: new Set(left).size, ...gguf } } : {}),
  };
}

/** About how many steps depend on results. @param only of this kind; default all */
export function waitingSteps({ waiting }: Expansion, only?: StepKind): number {
  const counted = waiting.filter(({ kind = "evaluate" }) => only === undefined || kind === only);
  return counted.reduce((sum, { steps }) => sum + steps, 0);
}

/** Size of an adapter at most, as a share of its model. */
const ADAPTER_SHARE = 1 / 50;
/** Bytes of training state per parameter: weights and two moments in float32. */
const STATE_BYTES = 12;

/** Checkpoints, training states of running steps, written merges, and merged models of running servers. */
function bytesLeft(
  plan: ExperimentPlan,
  expansion: Expansion,
  base: NonNullable<EstimateOptions["base"]>,
  workers: number,
  isDone: (key: string) => boolean,
): number {
  const left = expansion.steps.filter(({ key }) => !isDone(key));
  const training = left.filter((step) => step.kind === "train");
  const runs = [...training, ...expansion.waiting.flatMap(({ runs = [] }) => runs)].map((step) => {
    const isAdapter = settledRun(step).method === "lora";
    return {
      checkpoints: countCheckpoints(step) * base.bytes * (isAdapter ? ADAPTER_SHARE : 1),
      state: isAdapter ? 0 : STATE_BYTES * base.parameters,
    };
  });
  const states = runs.slice(0, workers).reduce((sum, { state }) => sum + state, 0);
  const written = left.filter(({ kind }) => kind === "merge").length + waitingSteps(expansion, "merge");
  const merged = plan.evaluate.backend.startsWith("serve:") && plan.merges.length > 0 ? workers * base.bytes : 0;
  return runs.reduce((sum, { checkpoints }) => sum + checkpoints, states + merged + written * base.bytes);
}
