// What a step of each kind takes in memory, where the plan does not say it.

import { type ModelSource, sourceOf } from "../../engine/index.js";
import { estimateEngine } from "../../engine/memory/index.js";
import { ggufPlanner } from "../../export/index.js";
import { DEFAULT_TYPE, estimateExport } from "../../export/llama/index.js";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { LayergraftError } from "../../kit/index.js";
import { estimateTraining, type Run, resolveSelection } from "../../train/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { runnerOf } from "../plan/plan-tasks.js";
import { LLAMA, type StepKind } from "../steps/step.js";

/** Bytes of one step, by kind; kinds that need little are missing, and those of servers, which know their own. */
export type StepMemory = Readonly<Partial<Record<StepKind, number>>>;

/** Texts that an evaluation computes at once, and a usual length of prompts with shots. */
const EVALUATED = { texts: 8, tokens: 1024 };
/** Tokens of a training sequence where the run does not say. */
const TRAINED_TOKENS = 1024;

/** Estimates from the headers of the base. What cannot be estimated is missing: the steps report why. */
export async function stepMemory(plan: ExperimentPlan, base: Checkpoint | undefined): Promise<StepMemory> {
  if (!base) return {};
  try {
    const source = await sourceOf(base);
    const runs = Object.values(plan.experts).flatMap(({ train }) => (train && !train.trl ? train.runs : []));
    const training = runs.flatMap(({ settings }) => (settings ? trainingBytes(source, settings) : []));
    const evaluation = await evaluationBytes(plan, source);
    return {
      ...(training.length > 0 ? { train: Math.max(...training) } : {}),
      ...(evaluation === undefined ? {} : { evaluate: evaluation }),
    };
  } catch (error) {
    if (error instanceof LayergraftError) return {};
    throw error;
  }
}

async function evaluationBytes(plan: ExperimentPlan, source: ModelSource): Promise<number | undefined> {
  const { backend, type = DEFAULT_TYPE } = runnerOf(plan);
  if (backend === LLAMA) return estimateExport((await ggufPlanner(source))({ type }), EVALUATED).total;
  return backend === "engine" ? estimateEngine(source, { ...EVALUATED, scored: true }).total : undefined;
}

function trainingBytes(source: ModelSource, run: Run): number {
  const layers = new Set([...source.tensors.values()].flatMap(({ layer }) => layer ?? [])).size;
  const { method, batch: texts, sequence_length: tokens = TRAINED_TOKENS } = run;
  const trained =
    run.train === undefined
      ? undefined
      : resolveSelection(run.train, { tensors: source.tensors, layers, field: "train" });
  const { total } = estimateTraining(source, {
    method,
    trained,
    texts,
    tokens,
    heldOut: run.holdout !== undefined,
  });
  return total;
}
