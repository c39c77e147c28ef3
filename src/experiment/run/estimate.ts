import type { ExportOutlook } from "../../export/llama/index.js";
import { canonicalJson } from "../../kit/files/index.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { countCheckpoints } from "../plan/training-runs.js";
import { KINDS, type StepKind } from "../steps/step.js";

export interface Estimate {
  /** Seconds to the end. Undefined until one step of each kind that is left is done. */
  readonly seconds: number | undefined;
  /** Bytes that are still to be written. Undefined if the size of the base is unknown. */
  readonly bytes: number | undefined;
  /** Models that llama.cpp runs, which are exported once, unless an earlier run did. */
  readonly exports?: { readonly models: number } & ExportOutlook;
  readonly workers: number;
}

export interface EstimatedVariant {
  readonly plan: ExperimentPlan;
  readonly expansion: Expansion;
  /** Sizes of the base, if known. */
  readonly base: { readonly parameters: number; readonly bytes: number } | undefined;
  /** The export of the base, where llama.cpp runs the models. */
  readonly gguf?: ExportOutlook | undefined;
}

export interface EstimateOptions {
  readonly variants: readonly EstimatedVariant[];
  readonly expansion: Expansion;
  /** Duration of a finished step in seconds; undefined for other steps. */
  readonly secondsOf: (key: string) => number | undefined;
  readonly workers: number;
}

/** For each kind of step: the mean duration of finished steps times the steps left. */
export function estimateExperiment({ variants, expansion, secondsOf, workers }: EstimateOptions): Estimate {
  let seconds: number | undefined = 0;
  const stepsLeft = new Map<StepKind, number>();
  for (const kind of KINDS) {
    const own = expansion.steps.filter((step) => step.kind === kind);
    const known = own.flatMap(({ key }) => secondsOf(key) ?? []);
    const left = own.length - known.length + waitingSteps(expansion, kind);
    stepsLeft.set(kind, left);
    if (left === 0) continue;
    const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    seconds = seconds === undefined || known.length === 0 ? undefined : seconds + left * mean;
  }
  // A worker without a step takes no time and no space.
  const atOnce = (...kinds: readonly StepKind[]) =>
    Math.min(
      workers,
      kinds.reduce((sum, kind) => sum + (stepsLeft.get(kind) ?? 0), 0),
    );
  const bytes = bytesLeft(variants, workers, atOnce("evaluate"), (key) => secondsOf(key) !== undefined);
  const gguf = variants.flatMap((one) => one.gguf ?? []).toSorted((a, b) => b.bytes - a.bytes)[0];
  const left = expansion.steps.flatMap((step) =>
    step.kind === "evaluate" && secondsOf(step.key) === undefined ? [canonicalJson(step.model)] : [],
  );
  return {
    seconds: seconds === undefined ? undefined : seconds / Math.max(1, atOnce(...KINDS)),
    bytes,
    workers,
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

/** Checkpoints, training states of running steps, written merges, and merged models of servers; undefined if a base is unknown. */
function bytesLeft(
  variants: readonly EstimatedVariant[],
  workers: number,
  servers: number,
  isDone: (key: string) => boolean,
): number | undefined {
  const counted = new Set<string>();
  const states: number[] = [];
  let [written, served] = [0, 0];
  for (const { plan, expansion, base } of variants) {
    if (!base) return undefined;
    const left = expansion.steps.filter(({ key }) => !isDone(key) && !counted.has(key));
    for (const { key } of left) counted.add(key);
    const training = left.flatMap(({ key }) => expansion.runs.get(key) ?? []);
    for (const run of [...training, ...expansion.waiting.flatMap(({ runs = [] }) => runs)]) {
      const isAdapter = run.method === "lora";
      written += countCheckpoints(run) * base.bytes * (isAdapter ? ADAPTER_SHARE : 1);
      states.push(isAdapter ? 0 : STATE_BYTES * base.parameters);
    }
    const merges = left.filter(({ kind }) => kind === "merge").length + waitingSteps(expansion, "merge");
    written += merges * base.bytes;
    if (plan.evaluate.backend.startsWith("serve:") && plan.merges.length > 0) served = Math.max(served, base.bytes);
  }
  const running = states.toSorted((a, b) => b - a).slice(0, workers);
  return running.reduce((sum, state) => sum + state, written + servers * served);
}
