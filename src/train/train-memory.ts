// What training takes in memory, from sizes alone.

import type { ModelSource } from "../engine/index.js";
import {
  arenaBytes,
  derivedLogitsBytes,
  fitsIn,
  type MemoryAdvice,
  type MemoryEstimate,
  programBytes,
  requireMemory,
  summed,
} from "../engine/memory/index.js";
import { type DecoderSpec, FLOAT32, keptBytes, locateWeights, readSpec, weightSizes } from "../engine/model/index.js";
import { elementCount } from "../kit/index.js";
import type { FreeMemory } from "../kit/memory/index.js";
import { factorsOf, type LoraPlan, leftOutOfLora, loraBase, planLora } from "./loop/lora.js";
import { LORA_DEFAULTS } from "./run/run-schema.js";

/** What is trained, and the batches it is trained on. */
export interface TrainingUse {
  readonly method: "full" | "lora";
  /** Names of the trained tensors. Default: all of the decoder, with lora those in layers. */
  readonly trained?: ReadonlySet<string> | undefined;
  /** Default, with lora: factors of the default rank for `trained`. */
  readonly lora?: LoraPlan | undefined;
  /** Sequences of a batch. */
  readonly texts: number;
  /** Batches of a step, which advice names. Default: 1. */
  readonly accumulation?: number | undefined;
  /** Tokens of a sequence. */
  readonly tokens: number;
  /** Whether a held-out loss is measured, in a session of its own. Default: false. */
  readonly heldOut?: boolean | undefined;
}

/** Weights and two moments: what a state has, which a copy of is written. */
const STATE_COPIES = 3;
/** Weights, gradients and two moments, each as float32. */
const TRAINED_COPIES = 4;
/** Lengths of sequences that advice names; the last is too short to train on. */
const SHORTER = [512, 256, 128, 64, 32, 16];
/** Node.js, ONNX Runtime and its arenas. Measured, docs/machines.md. */
const PROGRAM = 250e6;

/** @throws CheckpointError if the engine does not train the model */
export function estimateTraining(source: ModelSource, use: TrainingUse): MemoryEstimate {
  const spec = readSpec(source.config, source.tensors.keys());
  const { floats, mapped } = weightSizes(spec, source);
  const { lora, trained } = trainedParts(source, spec, use);
  const size = (name: string) => elementCount(source.tensors.get(name)?.shape ?? []);
  const elements = lora
    ? lora.modules.reduce((sum, module) => {
        const { a, b } = factorsOf(module, lora.settings.rank);
        return sum + elementCount(a.shape) + elementCount(b.shape);
      }, 0)
    : [...trained].reduce((sum, name) => sum + size(name), 0);
  const frozen = lora ? floats : Math.max(0, floats - FLOAT32 * elements);
  const { stored } = locateWeights(spec, source.tensors.keys(), source.name);
  const isHeadTrained = !lora && trained.has(stored.get((spec.head ?? spec.embedding).name) ?? "");
  const tokens = use.texts * use.tokens;
  return summed(
    {
      weights: frozen * (use.heldOut ? 2 : 1),
      optimizer: TRAINED_COPIES * FLOAT32 * elements,
      logits: arenaBytes(derivedLogitsBytes(spec, tokens, isHeadTrained), isHeadTrained),
      activations: arenaBytes(keptBytes(spec, tokens, use.tokens), isHeadTrained),
      program: programBytes(spec, PROGRAM),
    },
    { spare: STATE_COPIES * FLOAT32 * elements, mapped: lora ? mapped : 0 },
  );
}

/** Refuses training that does not fit. @returns what it takes @throws LayergraftError code `memory` */
export function requireTrainingMemory(source: ModelSource, use: TrainingUse): MemoryEstimate {
  const method = use.method === "lora" ? "LoRA" : "Full";
  const name = [...source.sources.values()][0]?.name ?? source.name;
  // One token is a lower bound, before the data is read.
  const batch = use.tokens > 1 ? `, ${use.texts} x ${use.tokens} tokens at once,` : "";
  const what = `${method} training of ${name}${batch}`;
  const advice = (free: FreeMemory): MemoryAdvice => {
    const fits = (other: Partial<TrainingUse>) => {
      return fitsIn(estimateTraining(source, { ...use, ...other }), free);
    };
    if (use.texts > 1 && fits({ texts: 1 })) {
      const value = `${use.texts * (use.accumulation ?? 1)}`;
      return { text: "Use a smaller batch, with accumulation for the rest.", option: "batch", value };
    }
    if (use.method === "full" && fits({ texts: 1, method: "lora", trained: undefined, lora: undefined }))
      return { text: "Use the method lora, and a small batch.", option: "method" };
    const shorter = SHORTER.find((tokens) => tokens < use.tokens && fits({ texts: 1, tokens }));
    if (shorter !== undefined)
      return { text: "Use shorter sequences (sequence_length).", option: "sequenceLength", value: `${shorter}` };
    const tensors = [...source.tensors.values()];
    const last = tensors.reduce((most, { layer }) => Math.max(most, layer ?? 0), 0);
    const inLast = tensors.filter(({ layer }) => layer === last).map(({ tensor }) => tensor);
    if (fits({ texts: 1, trained: new Set(inLast), lora: undefined }))
      return { text: "Train some of the layers (train), and a small batch.", option: "train", value: `${last}` };
    return {
      text: "Use a smaller model, or hand it over to a machine with more memory (engine: trl).",
      option: "engine",
    };
  };
  const estimate = estimateTraining(source, use);
  requireMemory({ what, estimate, advice });
  return estimate;
}

function trainedParts(source: ModelSource, spec: DecoderSpec, { method, trained, lora }: TrainingUse) {
  const { stored } = locateWeights(spec, source.tensors.keys(), source.name);
  const all = trained ?? new Set(stored.values());
  if (method === "full" || lora) return { trained: all, lora };
  const leftOut = new Set(leftOutOfLora(spec, source.config.modelType).map(({ name }) => stored.get(name)));
  const inLayers = [...all].filter((name) => source.tensors.get(name)?.layer !== null && !leftOut.has(name));
  return { trained: all, lora: planLora(new Set(inLayers), loraBase(source, spec, stored), LORA_DEFAULTS) };
}
