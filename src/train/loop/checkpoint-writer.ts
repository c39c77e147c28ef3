import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { computeBlends } from "../../engine/index.js";
import { type CheckpointTensor, factorNames } from "../../formats/checkpoint/index.js";
import { readRange, readTensorPieces, writeSharded } from "../../formats/safetensors/index.js";
import { Converter, type KeptChange, type KernelDType, Rounding } from "../../kernels/index.js";
import { exists, readJsonObject, writeFolder } from "../../kit/files/index.js";
import { bytesPerElement, DTYPE_BY_TORCH_NAME } from "../../kit/index.js";
import { type OpenedPlan, type Step, withDType } from "../../merge/index.js";
import { writeCompanions } from "../../merge/output/index.js";
import { Resolver } from "../../tensor/expressions/index.js";
import type { Run } from "../run/run-schema.js";
import { encodeMeasured, encodeValues, type LoraPlan, writeAdapter } from "./lora.js";
import type { Parameter } from "./optimizer.js";

/** Steps, loss and configuration of a checkpoint. */
export const TRAINING_FILE = "training.json";

export interface CheckpointToWrite {
  readonly base: OpenedPlan;
  readonly parameters: ReadonlyMap<string, Parameter>;
  readonly lora?: LoraPlan | undefined;
  readonly baseName: string;
  readonly dtype: Run["save_dtype"];
  /** Names of tensors to take from the base. */
  readonly reverted?: ReadonlySet<string>;
  /** Tokens that end an answer; generation_config.json names all of them. */
  readonly stopIds?: readonly number[];
  readonly provenance: object;
}

/**
 * Writes a checkpoint, or an adapter where factors were trained.
 * @returns how much of the change from the base its element type keeps; undefined if nothing was rounded
 * @throws DiskFullError if there is no room; nothing is left of it then
 */
export async function writeCheckpoint(folder: string, checkpoint: CheckpointToWrite): Promise<KeptChange | undefined> {
  const fill = async (partial: string) => {
    const converter = new Converter();
    const rounding = new Rounding(converter);
    if (checkpoint.lora) await writeFactors(partial, checkpoint, checkpoint.lora, rounding);
    else await writeWeights(partial, checkpoint, converter, rounding);
    const kept = rounding.result();
    const provenance = { ...checkpoint.provenance, ...(kept ? { kept } : {}) };
    await writeFile(join(partial, TRAINING_FILE), `${JSON.stringify(provenance, null, 2)}\n`);
    return kept;
  };
  return await writeFolder(folder, "the checkpoint", fill, { replace: true, retry: "resume" });
}

async function writeFactors(
  folder: string,
  { parameters, baseName, dtype }: CheckpointToWrite,
  plan: LoraPlan,
  rounding: Rounding,
) {
  const valuesOf = (name: string) => parameters.get(name)?.weights ?? new Float32Array();
  await writeAdapter(folder, {
    plan,
    rounding,
    base: baseName,
    factors: (module) => {
      const names = factorNames(module);
      return { a: valuesOf(names.a), b: valuesOf(names.b) };
    },
    ...(dtype === "keep" ? {} : { dtype: DTYPE_BY_TORCH_NAME[dtype] }),
  });
}

async function writeWeights(
  folder: string,
  checkpoint: CheckpointToWrite,
  converter: Converter,
  rounding: Rounding,
): Promise<void> {
  const { base, parameters, dtype, reverted = new Set() } = checkpoint;
  const asked = savedSteps(base, dtype);
  const isTrained = ({ tensor }: Step) => parameters.has(tensor) && !reverted.has(tensor);
  const resolver = new Resolver(base.sources);
  const isStored = (step: Step) => resolver.stored(step.value)?.dtype === step.dtype;
  const computed = async (step: Step) => {
    const blends = await computeBlends([step], base.sources, new Map());
    return new Uint8Array(blends.get(step.tensor) as SharedArrayBuffer);
  };
  /** Values of the base, in pieces; a base that is merged on the fly is not measured. */
  const baseOf = (step: Step) => {
    const stored = resolver.stored(step.value);
    if (!stored || !["F32", "F16", "BF16"].includes(stored.dtype)) return undefined;
    const size = bytesPerElement(stored.dtype);
    return async (from: number, to: number) => {
      const bytes = await readRange(stored.file, stored.offset + from * size, stored.offset + to * size);
      return converter.decode(stored.dtype as KernelDType, bytes);
    };
  };
  const tensors = asked.map((step) => {
    const { tensor: name, shape } = step;
    // Computed when it is written, as all of them would be another copy of the model.
    return {
      name,
      shape,
      dtype: step.dtype,
      get data() {
        const weights = isTrained(step) ? parameters.get(name)?.weights : undefined;
        if (weights) {
          const dtype = step.dtype as KernelDType;
          const before = baseOf(step);
          if (dtype === "F32" || !before) return encodeValues(converter, name, dtype, weights);
          return encodeMeasured(converter, name, dtype, weights, rounding, { before, isNorm: shape.length === 1 });
        }
        if (!isStored(step)) return computed(step);
        const stored = resolver.stored(step.value) as CheckpointTensor;
        return readTensorPieces(stored.file, stored);
      },
    };
  });
  await writeSharded(folder, tensors);
  const recipe = { ...base.plan.recipe, dtype };
  await writeCompanions({ ...base.plan, recipe }, base.sources, folder);
  await writeStopIds(folder, checkpoint.stopIds ?? []);
}

/** A model that learned to end its replies with a mark of its chat template runs on in programs that do not know it. */
async function writeStopIds(folder: string, stopIds: readonly number[]): Promise<void> {
  const path = join(folder, "generation_config.json");
  const generation = (await exists(path)) ? await readJsonObject(path) : {};
  const known = [generation.eos_token_id ?? []].flat();
  const all = [...new Set([...known, ...stopIds])];
  if (all.length < 2 || all.length === known.length) return;
  await writeFile(path, `${JSON.stringify({ ...generation, eos_token_id: all }, null, 2)}\n`);
}

/** Integers and packed numbers keep their type; float64 tensors are trained in float32. */
function savedSteps({ plan, sources }: OpenedPlan, dtype: CheckpointToWrite["dtype"]): readonly Step[] {
  const steps = plan.steps.map((step): Step => (step.dtype === "F64" ? { ...step, dtype: "F32" } : step));
  const lead = sources.get(plan.configFrom);
  return dtype === "keep" || !lead ? steps : withDType(steps, dtype, lead, sources).steps;
}
