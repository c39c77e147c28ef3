import { mergeObjects, own, RecipeError } from "../../kit/index.js";
import { checkRun, type Run } from "../../train/index.js";
import type { TrainStep } from "../steps/step.js";
import type { ExperimentPlan, Training } from "./plan-schema.js";

/** The common settings of a group's runs, with those named by `like`. */
export function settleTraining(plan: ExperimentPlan, train: Training): Pick<Training, "run" | "engine" | "trl"> {
  const likes = [train.like ?? []].flat().flatMap((like) => own(plan.training, like) ?? []);
  const all = [...likes, train];
  const engine = all.map((one) => one.engine).findLast((one) => one !== undefined);
  return {
    run: all.reduce<Record<string, unknown>>((run, one) => mergeObjects(run, one.run), {}) as Training["run"],
    engine,
    trl: Object.assign({}, ...all.map((one) => one.trl ?? {})) as Training["trl"],
  };
}

/**
 * The fields of one training run; its own override the common ones.
 * @param keepsAll whether to keep all checkpoints, to choose among them
 */
export function trainingRun(
  common: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, unknown>> | undefined,
  base: string,
  keepsAll = false,
): Record<string, unknown> {
  const { name: _, ...fields } = own ?? {};
  const kept = keepsAll ? { checkpoints: { keep: "all" } } : {};
  return { ...mergeObjects(mergeObjects(common, fields), kept), base, out: "out" };
}

export function runProblems(run: Readonly<Record<string, unknown>>): readonly string[] {
  try {
    checkRun(run);
    return [];
  } catch (error) {
    if (error instanceof RecipeError) return error.reasons;
    throw error;
  }
}

/** Samples of a run without a length, which is one pass over its data; the paper's smallest runs have this many. */
const TYPICAL_SAMPLES = 30_000;

/** The run of a step with presets and defaults filled in. */
export function settledRun({ run }: Pick<TrainStep, "run">): Run {
  return checkRun({ ...run, out: "out" });
}

/** What a run trains: `all weights`, `LoRA`, `only layers 0-4`. */
export function describeTraining(step: Pick<TrainStep, "run">): string {
  const { method, partition } = settledRun(step);
  const { train } = step.run;
  const parts = [
    ...(method === "lora" ? ["LoRA"] : []),
    ...(partition ? ["partitioned"] : []),
    ...(typeof train === "string" && train !== "all" ? [`only ${train}`] : []),
  ];
  return parts.length > 0 ? parts.join(", ") : "all weights";
}

export function countCheckpoints(step: Pick<TrainStep, "run">): number {
  const { checkpoints, samples, steps, batch, accumulation } = settledRun(step);
  if (checkpoints.keep !== "all") return 1;
  const seen = samples ?? (steps === undefined ? TYPICAL_SAMPLES : steps * batch * accumulation);
  return Math.max(1, Math.ceil(seen / checkpoints.every_samples));
}
