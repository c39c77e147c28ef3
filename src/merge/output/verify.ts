// Recomputes an output from its sources and compares it, byte for byte, with what is on the disk.
import { join } from "node:path";
import { ADAPTER_WEIGHTS, type SourceOptions } from "../../formats/checkpoint/index.js";
import { openSafetensors, openShards, type TensorInfo } from "../../formats/safetensors/index.js";
import {
  CancelledError,
  CheckpointError,
  elementCount,
  formatShape,
  isFloatDType,
  LayergraftError,
  type Shape,
  sameShape,
} from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import {
  childrenOf,
  hasOperation,
  isLeaf,
  leavesOf,
  type Measured,
  measurementsOf,
  Resolver,
  type Sources,
  tensorOf,
  type Value,
} from "../../tensor/expressions/index.js";
import {
  type Evaluation,
  isRounded,
  isSquare,
  operationsOf,
  resultsByJob,
  runProgram,
  type StreamOptions,
  totalDifferences,
} from "../../tensor/streaming/index.js";
import { PROVENANCE_FILE, type Step } from "../model-plan.js";
import { type FactorStep, planAdapter } from "../plan/adapter-plan.js";
import { openPlan } from "../plan/open-plan.js";
import type { Plan } from "../recipe/recipe.js";
import { compareFactor, factorBytes, tensorBytes } from "./adapter-factors.js";
import { digestFiles } from "./companion-files.js";
import { compileCompare, type WrittenTensor } from "./compile.js";
import { readProvenance } from "./provenance.js";

/** How one tensor of an output deviates from its plan. */
export interface Deviation {
  readonly tensor: string;
  /** Description. */
  readonly what: string;
  /** Elements that differ, where dtype and shape are as planned. */
  readonly differing?: number;
  /** Index of the first of them, in row-major order. */
  readonly first?: number;
}

export interface Verification {
  /** Whether every tensor and every other file is unchanged. */
  readonly verified: boolean;
  /** Tensors compared. */
  readonly tensors: number;
  readonly bytesRead: number;
  /** Empty if the output is bit-identical to its plan. */
  readonly deviations: readonly Deviation[];
  /** Other files (configuration, tokenizer, model card) that changed, each with how. */
  readonly files: readonly { readonly file: string; readonly what: "changed" | "missing" }[];
  /** A sentence for each branch or tag on the hub that is at another commit than the one that was merged. */
  readonly moved: readonly string[];
}

export interface VerifyOptions extends StreamOptions, Pick<SourceOptions, "hub"> {
  /** New folders of moved sources, by their names in layergraft.json, such as `task`. Default: none. */
  readonly moved?: Readonly<Record<string, string>> | undefined;
  /** Run the file that was the recipe's method. Default: false. */
  readonly allowCode?: boolean | undefined;
}

/**
 * Verifies a folder that layergraft wrote.
 * @throws LayergraftError if it has no layergraft.json, or its sources are gone or changed
 */
export async function verifyOutput(folder: string, options: VerifyOptions = {}): Promise<Verification> {
  const { plan, measured, companions } = await readProvenance(folder, options.moved);
  const advice = `${folder} cannot be verified against it: restore the source, or merge again.`;
  const { sources, moved } = await openPlan(plan, options.hub, advice, options.allowCode).catch((error: unknown) => {
    if (!(error instanceof CheckpointError)) throw error;
    throw new LayergraftError(
      "moved",
      `a source of ${folder} cannot be opened: ${error.message}; the sources are ${plan.sources.map(({ id }) => id).join(", ")}`,
      { ...error.where, option: "moved" },
      error,
    );
  });
  requireComputable(plan, sources, measured, folder);
  const adapter = plan.recipe.as === "adapter" ? planAdapter({ plan, sources }, measured) : undefined;
  const written = new Map<string, WrittenTensor & TensorInfo>();
  for (const file of adapter ? [await openSafetensors(join(folder, ADAPTER_WEIGHTS))] : await openShards(folder)) {
    for (const tensor of file.tensors) written.set(tensor.name, { ...tensor, file });
  }

  const deviations: Deviation[] = [];
  const isAsPlanned = (step: Step | FactorStep) => {
    const found = written.get(step.tensor);
    if (!found) deviations.push({ tensor: step.tensor, what: "is missing" });
    else if (found.dtype !== step.dtype || !sameShape(found.shape, step.shape)) {
      const what = `is ${found.dtype} ${formatShape(found.shape)}, planned ${step.dtype} ${formatShape(step.shape)}`;
      deviations.push({ tensor: step.tensor, what });
    } else return true;
    return false;
  };
  const { factors, whole } = adapter ?? { factors: [], whole: plan.steps };
  const steps = whole.filter(isAsPlanned);
  const planned = new Set([...whole, ...factors].map((step) => step.tensor));
  for (const name of written.keys())
    if (!planned.has(name)) deviations.push({ tensor: name, what: "is not in the plan" });

  const program = compileCompare(steps, sources, measured, written);
  const { moved: _, hub: __, allowCode: ___, ...runOptions } = options;
  const outcome = await runProgram(program, { ...runOptions, phase: "verifying" });
  const report = (tensor: string, { differing, first }: { differing: number; first: number }) => {
    if (differing === 0) return;
    const what = `differs in ${plural(differing, "element")}, the first at index ${first}`;
    deviations.push({ tensor, what, differing, first });
  };
  resultsByJob(outcome, program.jobs.length).forEach((pieces, i) => {
    report(steps[i]?.tensor ?? "", totalDifferences(pieces));
  });
  let { bytesRead } = outcome;
  for (const step of factors.filter(isAsPlanned)) {
    if (options.signal?.aborted) throw new CancelledError("stopped before the end");
    report(step.tensor, await compareFactor(step, written.get(step.tensor) as WrittenTensor & TensorInfo));
    bytesRead += factorBytes(step) + tensorBytes(step);
  }
  const files = await compareCompanions(folder, companions);
  const verified = deviations.length + files.length === 0;
  return { verified, tensors: planned.size, bytesRead, deviations, files, moved };
}

/** @throws LayergraftError if a step cannot be computed from the sources, which happens only in an edited file */
function requireComputable(plan: Plan, sources: Sources, measured: Measured, folder: string): void {
  const resolver = new Resolver(sources, measured);
  const broken = plan.steps.find(({ value, dtype, shape }) => {
    const isGiven = "op" in value && value.op === "given";
    if (isGiven && (!isRounded(dtype) || elementCount(resolver.shape(value)) !== elementCount(shape))) return true;
    const stored = leavesOf(value).map((leaf) => tensorOf(leaf, sources));
    if ((stored.length === 0 && !isGiven) || !isOfShape(value, shape, sources)) return true;
    const isCopied = stored.length === 1 && !hasOperation(value) && stored[0]?.dtype === dtype;
    if (!isCopied && !(isRounded(dtype) && stored.every((tensor) => tensor && isFloatDType(tensor.dtype)))) return true;
    return measurementsOf(value).some((id) => !measured.has(id)) || !isDefined(value, sources, measured);
  });
  if (!broken) return;
  throw new LayergraftError(
    "provenance",
    `${PROVENANCE_FILE} of ${folder} describes ${broken.tensor} in a way that cannot be computed from its sources. The file was edited, or a source was replaced.`,
    { file: folder, tensor: broken.tensor },
  );
}

/** Whether all tensors that a value is made of are there, in the shape that its operations take. */
function isOfShape(value: Value, shape: Shape, sources: Sources): boolean {
  if (isLeaf(value)) {
    const tensor = tensorOf(value, sources);
    return tensor !== undefined && sameShape(tensor.shape, shape);
  }
  const columns = shape.at(-1) ?? 0;
  return childrenOf(value).every((inner, i) => {
    const isProduct = "op" in value && value.op === "whole-matrix" && isSquare(value, i);
    return isOfShape(inner, isProduct ? [columns, columns] : shape, sources);
  });
}

/** Whether a value can be computed: nonzero weight sums, measured numbers, masks of the right length. */
function isDefined(value: Value, sources: Sources, measured: Measured): boolean {
  let evaluation: Evaluation;
  try {
    evaluation = new Resolver(sources, measured).evaluation(value);
  } catch {
    return false; // not a value of a plan
  }
  const { elements, columns } = evaluation;
  return (
    evaluation.terms.every(({ weight }) => Number.isFinite(weight)) &&
    operationsOf(evaluation).every((operation) => {
      if (operation.op !== "select" && operation.op !== "scale-lines") return true;
      const lines = operation.axis === "rows" ? elements / columns : (elements / operation.matrix) * columns;
      return operation.op === "select"
        ? operation.mask.length === lines
        : operation.factors.length === lines * operation.of.length;
    })
  );
}

async function compareCompanions(folder: string, written: ReadonlyMap<string, string>): Promise<Verification["files"]> {
  const now = new Map(Object.entries(await digestFiles(folder, [...written.keys()])));
  return [...written].flatMap(([file, digest]) => {
    if (now.get(file) === digest) return [];
    return [{ file, what: now.has(file) ? ("changed" as const) : ("missing" as const) }];
  });
}
