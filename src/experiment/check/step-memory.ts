// What a step of each kind takes in memory, where the plan does not say it.

import { type ModelSource, sourceOf } from "../../engine/index.js";
import { estimateEngine, requireEngineMemory, requireMemory } from "../../engine/memory/index.js";
import { locateWeights, readSpec } from "../../engine/model/index.js";
import { ggufPlanner } from "../../export/index.js";
import { DEFAULT_TYPE, estimateExport } from "../../export/llama/index.js";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { LayergraftError } from "../../kit/index.js";
import {
  estimateTraining,
  type Run,
  requireTrainingMemory,
  resolveSelection,
  type TrainingUse,
} from "../../train/index.js";
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
    const training = runsOf(plan).map(([, run]) => {
      const { sequence_length: tokens = TRAINED_TOKENS } = run;
      return estimateTraining(source, trainingUse(source, run, tokens)).total;
    });
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

/** Runs of the embedded engine, with the entry of the plan that each is for. */
const runsOf = ({ experts }: ExperimentPlan): readonly (readonly [entry: string, run: Run])[] =>
  Object.entries(experts).flatMap(([entry, { train }]) =>
    train && !train.trl ? train.runs.flatMap(({ settings }) => (settings ? [[entry, settings] as const] : [])) : [],
  );

function trainingUse(source: ModelSource, run: Run, tokens: number): TrainingUse {
  const layers = new Set([...source.tensors.values()].flatMap(({ layer }) => layer ?? [])).size;
  const { method, batch: texts, train } = run;
  return { method, trained: train === undefined ? undefined : trainedBy(train), texts, tokens, heldOut: !!run.holdout };

  function trainedBy(selection: string): ReadonlySet<string> {
    const { stored } = locateWeights(
      readSpec(source.config, source.tensors.keys()),
      source.tensors.keys(),
      source.name,
    );
    const decoder = new Set(stored.values());
    const chosen = resolveSelection(selection, { tensors: source.tensors, layers, field: "train" });
    return new Set([...chosen].filter((name) => decoder.has(name)));
  }
}

/**
 * Why steps that are left would be refused for lack of memory on this machine, with the least that they need: one text,
 * and sequences as short as they can be.
 * @param left whether steps of a kind are left
 */
export async function memoryProblems(
  plan: ExperimentPlan,
  base: Checkpoint | undefined,
  left: Readonly<Record<"train" | "evaluate", boolean>>,
): Promise<string[]> {
  if (!base || plan.executor.kind !== "local") return [];
  const problemOf = async (step: string, check: (source: ModelSource) => unknown) => {
    try {
      await check(await sourceOf(base));
      return [];
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      // The steps report everything else.
      return error.code === "memory" ? [`${step}: ${error.message}`] : [];
    }
  };
  const { backend, type = DEFAULT_TYPE } = runnerOf(plan);
  const evaluated = async (source: ModelSource) => {
    if (backend === "engine") requireEngineMemory(source, {});
    if (backend !== LLAMA) return;
    requireMemory({
      what: `${source.name} as ${type}`,
      estimate: estimateExport((await ggufPlanner(source))({ type })),
    });
  };
  const trained = (run: Run) => (source: ModelSource) =>
    requireTrainingMemory(source, trainingUse(source, run, run.packing ? (run.sequence_length ?? 1) : 1));
  const training = left.train ? runsOf(plan).map(([entry, run]) => problemOf(`train ${entry}`, trained(run))) : [];
  const found = await Promise.all([...training, ...(left.evaluate ? [problemOf("evaluate", evaluated)] : [])]);
  return [...new Set(found.flat())];
}
