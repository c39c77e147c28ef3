// The training runs of a plan: what their settings amount to, what is wrong with them, how much they make. Trains nothing.
import { isObject, own, RecipeError } from "../../core/index.js";
import { checkRun, type Run } from "../../train/index.js";
import type { TrainStep } from "../steps/step.js";
import type { ExperimentPlan, Training } from "./plan-schema.js";

/** What a family's runs have in common, the settings that they are like among it. */
export function settleTraining(plan: ExperimentPlan, train: Training): Pick<Training, "run" | "engine" | "trl"> {
  const likes = [train.like ?? []].flat().flatMap((like) => own(plan.training, like) ?? []);
  const all = [...likes, train];
  const engine = all.map((one) => one.engine).findLast((one) => one !== undefined);
  return {
    run: all.reduce<Record<string, unknown>>((run, one) => overlaid(run, one.run), {}) as Training["run"],
    engine,
    trl: Object.assign({}, ...all.map((one) => one.trl ?? {})) as Training["trl"],
  };
}

/** The fields of one training run: the common ones, and its own over them. @param base the model that it starts from */
export function trainingRun(
  common: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, unknown>> | undefined,
  base: string,
): Record<string, unknown> {
  const { name: _, ...fields } = own ?? {};
  return { ...overlaid(common, fields), base, out: "out" };
}

function overlaid(
  below: Readonly<Record<string, unknown>>,
  above: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const result: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const under = own(result, key);
    result[key] = isObject(under) && isObject(value) ? overlaid(under, value) : value;
  }
  return result;
}

/** What is wrong with a training run, if anything. */
export function runProblems(run: Readonly<Record<string, unknown>>): readonly string[] {
  try {
    checkRun(run);
    return [];
  } catch (error) {
    if (error instanceof RecipeError) return error.problems.length > 0 ? error.problems : [error.message];
    throw error;
  }
}

// A run that gives no length has a pass over data of unknown size; this many samples are the paper's smallest runs.
const USUAL_SAMPLES = 30_000;

/** The run of a step with presets and defaults filled in; for estimates. */
export function settledRun({ run }: Pick<TrainStep, "run">): Run {
  return checkRun({ ...run, out: "out" });
}

/** Training samples that a run sees; those of a pass over data of unknown size are guessed. */
function samplesOf(step: Pick<TrainStep, "run">): number {
  const { samples, steps, batch, accumulation } = settledRun(step);
  return samples ?? (steps === undefined ? USUAL_SAMPLES : steps * batch * accumulation);
}

/** Checkpoints that a run leaves. */
export function countCheckpoints(step: Pick<TrainStep, "run">): number {
  const { checkpoints } = settledRun(step);
  return checkpoints.keep === "all" ? Math.max(1, Math.ceil(samplesOf(step) / checkpoints.every_samples)) : 1;
}
