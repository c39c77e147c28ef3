// A trained model as a folder that transformers opens: what learned from the optimizer, all else from where it lies.
// Appears whole or not at all. Not the state to resume from; that is state.ts.

import { closeSync, openSync, readSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DTYPE_BY_TORCH_NAME, isFloatDType, plural, RecipeError, writeFolder } from "../../core/index.js";
import { computeBlends } from "../../engine/index.js";
import { type OpenedPlan, Resolver, type Step, writeCompanions } from "../../merge/index.js";
import { Converter, type KernelDType, type TensorData, writeSharded } from "../../weights/index.js";
import type { Run } from "../run/run-schema.js";
import { factorNames, type LoraPlan, writeAdapter } from "./lora.js";
import type { Parameter } from "./optimizer.js";

/** The file in a checkpoint that says how it came about. */
export const TRAINING_FILE = "training.json";

export interface CheckpointToWrite {
  /** The base, as a plan of one source. */
  readonly base: OpenedPlan;
  readonly parameters: ReadonlyMap<string, Parameter>;
  readonly lora?: LoraPlan | undefined;
  /** What the adapter's configuration names as its base. */
  readonly baseName: string;
  readonly dtype: Run["save_dtype"];
  /** Tensors that are the base's again: train, then revert. */
  readonly reverted?: ReadonlySet<string>;
  /** What made it: configuration, steps, loss. */
  readonly provenance: unknown;
}

/**
 * Writes a checkpoint, or an adapter where factors were trained.
 * @throws {DiskFullError} if there is no room; nothing is left of it then
 */
export async function writeCheckpoint(folder: string, checkpoint: CheckpointToWrite): Promise<void> {
  const fill = async (partial: string) => {
    if (checkpoint.lora) await writeFactors(partial, checkpoint, checkpoint.lora);
    else await writeWeights(partial, checkpoint);
    await writeFile(join(partial, TRAINING_FILE), `${JSON.stringify(checkpoint.provenance, null, 2)}\n`);
  };
  await writeFolder(folder, "the checkpoint", fill, { replace: true, retry: "resume" });
}

async function writeFactors(folder: string, { parameters, baseName, dtype }: CheckpointToWrite, plan: LoraPlan) {
  const valuesOf = (name: string) => parameters.get(name)?.weights ?? new Float32Array();
  await writeAdapter(folder, {
    plan,
    base: baseName,
    factors: (module) => {
      const names = factorNames(module);
      return { a: valuesOf(names.a), b: valuesOf(names.b) };
    },
    ...(dtype === "keep" ? {} : { dtype: DTYPE_BY_TORCH_NAME[dtype] }),
  });
}

async function writeWeights(folder: string, checkpoint: CheckpointToWrite): Promise<void> {
  const { base, parameters, dtype, reverted = new Set() } = checkpoint;
  const asked = base.plan.steps.map((step) => withDType(step, dtype));
  const isTrained = ({ tensor }: Step) => parameters.has(tensor) && !reverted.has(tensor);
  const resolver = new Resolver(base.sources);
  const isStored = (step: Step) => resolver.stored(step.value)?.dtype === step.dtype;
  const computed = asked.filter((step) => !isTrained(step) && !isStored(step));
  const blends = await computeBlends(computed, base.sources, new Map(), {
    onOverflow: (name, values) => {
      throw new RecipeError(
        `${plural(values, "value")} of ${name} do not fit float16; save as bfloat16 or float32`,
        [],
        {
          field: "save_dtype",
        },
      );
    },
  });
  const converter = new Converter();
  const tensors = asked.map((step): TensorData => {
    const { tensor: name, shape } = step;
    // Made when it is written: together they would be another copy of the model.
    return {
      name,
      shape,
      dtype: step.dtype,
      get data() {
        const weights = isTrained(step) ? parameters.get(name)?.weights : undefined;
        if (weights) return encode(converter, step, weights);
        return blends.get(name) ?? readStored(step, resolver);
      },
    };
  });
  await writeSharded(folder, tensors);
  const recipe = { ...base.plan.recipe, dtype };
  await writeCompanions({ ...base.plan, recipe }, base.sources, folder);
}

/** @throws {RecipeError} if float16 does not hold the weights */
function encode(converter: Converter, { tensor, dtype }: Step, weights: Float32Array): Uint8Array {
  const { bytes, overflowed } = converter.encode(dtype as KernelDType, weights);
  if (overflowed === 0) return bytes;
  throw new RecipeError(
    `${plural(overflowed, "value")} of ${tensor} became too large for float16; save as bfloat16 or float32 (save_dtype) and resume`,
    [],
    { tensor, field: "save_dtype" },
  );
}

/** Integers and packed numbers stay as they are; what learned in float64 is kept in float32. */
function withDType(step: Step, dtype: CheckpointToWrite["dtype"]): Step {
  if (!isFloatDType(step.dtype)) return step;
  if (dtype !== "keep") return { ...step, dtype: DTYPE_BY_TORCH_NAME[dtype] };
  return step.dtype === "F64" ? { ...step, dtype: "F32" } : step;
}

function readStored(step: Step, resolver: Resolver): Uint8Array {
  const stored = resolver.stored(step.value);
  if (!stored) throw new TypeError(`${step.tensor} is stored nowhere`);
  const data = new Uint8Array(stored.bytes);
  const descriptor = openSync(stored.file.path, "r");
  try {
    for (let at = 0; at < data.length; ) {
      const read = readSync(descriptor, data, at, data.length - at, stored.offset + at);
      if (read === 0) throw new RangeError(`${stored.file.path} became shorter while it was read`);
      at += read;
    }
  } finally {
    closeSync(descriptor);
  }
  return data;
}
