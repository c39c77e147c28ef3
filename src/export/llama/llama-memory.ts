// What a model takes in llama.cpp, from the layout of its file.

import { statSync } from "node:fs";
import type { ModelSource } from "../../engine/index.js";
import { type MemoryEstimate, type MemoryUse, programBytes, summed, tokensOf } from "../../engine/memory/index.js";
import { cacheBytes, type DecoderSpec, FLOAT32, readSpec } from "../../engine/model/index.js";
import { readGgufHeader } from "../../formats/gguf/index.js";
import { encodedBytes } from "../../kernels/index.js";
import { elementCount } from "../../kit/index.js";
import type { FreeMemory } from "../../kit/memory/index.js";
import type { GgufPlan } from "../gguf/plan-gguf.js";
import { contextSize, READ_TOKENS } from "./sequences.js";

/** Encodings that llama.cpp's CPU backend keeps in another order than in the file, besides the file's pages. */
const REPACKED: ReadonlySet<string> = new Set(["Q4_0", "Q4_K"]);
/** Node.js, node-llama-cpp and its libraries. Measured, docs/machines.md. */
const PROGRAM = 190e6;
/** What planning an export keeps of each token of a tokenizer. */
const PLANNED_TOKEN = 750;
/** Keys and values are float16 there. */
const FLOAT16 = 2;
/** Logits of a batch where all are scored: in the graph, and where node-llama-cpp reads them. */
const LOGITS_COPIES = 2;
/** Tokens that llama.cpp keeps of a window, besides the window. */
const WINDOW_MARGIN = READ_TOKENS * 4;

interface LlamaFileSizes {
  readonly bytes: number;
  /** Bytes of the tensors that are repacked. */
  readonly repacked: number;
  /** Bytes that planning it takes. Default: 0. */
  readonly planned?: number;
}

/** The estimate for an export that is planned. */
export function estimateExport(plan: GgufPlan, use: MemoryUse = {}): MemoryEstimate {
  const { source, layout, tensors } = plan;
  const repacked = tensors.reduce((sum, { name, shape, encoding }) => {
    return sum + (isRepacked(name, encoding) ? encodedBytes(encoding, elementCount(shape)) : 0);
  }, 0);
  const spec = readSpec(source.config, source.tensors.keys(), "export");
  return estimate(spec, { bytes: layout.bytes, repacked, planned: PLANNED_TOKEN * spec.vocabularySize }, use);
}

/** The estimate for a GGUF file. @param source the same file as the engine reads it; undefined if it does not */
export function estimateGguf(path: string, source: ModelSource | undefined, use: MemoryUse = {}): MemoryEstimate {
  const { size: bytes } = statSync(path);
  const repacked = readGgufHeader(path).tensors.reduce((sum, { name, type, bytes: own = 0 }) => {
    return sum + (isRepacked(name, type) ? own : 0);
  }, 0);
  if (source) return estimate(readSpec(source.config, source.tensors.keys(), "export"), { bytes, repacked }, use);
  const weights = bytes + repacked;
  return summed({ weights, program: PROGRAM });
}

/** Bits of a weight in q4_k_m, on average. */
const SMALL_BITS = 4.85;

interface SizedTensor {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  /** Undefined if its type is unknown. */
  readonly bytes: number | undefined;
}

/** Tensors of a planned export. */
export const tensorsOf = ({ tensors }: GgufPlan): SizedTensor[] =>
  tensors.map(({ name, shape, encoding }) => {
    return { name, shape, type: encoding, bytes: encodedBytes(encoding, elementCount(shape)) };
  });

/** Whether a model that does not fit would, with the matrices of its layers as q4_k_m, which are in memory twice. */
export function fitsSmaller(needed: MemoryEstimate, tensors: readonly SizedTensor[], free: FreeMemory): boolean {
  const matrices = tensors.filter(({ name, shape }) => name.startsWith("blk.") && shape.length > 1);
  const saved = matrices.reduce((sum, { name, type, shape, bytes = 0 }) => {
    const now = bytes * (isRepacked(name, type) ? 2 : 1);
    return sum + Math.max(0, now - (2 * SMALL_BITS * elementCount(shape)) / 8);
  }, 0);
  return saved > 0 && needed.total - saved <= free.bytes;
}

/** Rows of the embedding are read, so it stays as it is. */
function isRepacked(name: string, encoding: string): boolean {
  return REPACKED.has(encoding.toUpperCase()) && name.startsWith("blk.");
}

function estimate(spec: DecoderSpec, { bytes, repacked, planned = 0 }: LlamaFileSizes, use: MemoryUse): MemoryEstimate {
  const { texts = 1 } = use;
  const cells = contextSize(tokensOf(spec, use), spec.contextLength);
  // Layers with a window keep that, in float16; states of recurrences are float32.
  const cache = spec.layers.reduce((sum, layer) => {
    const tokens = Math.min(cells, layer.window === null ? cells : layer.window + WINDOW_MARGIN);
    const isState = !layer.weights.k && !layer.weights.kv;
    return sum + cacheBytes({ ...spec, layers: [layer] }, texts, tokens, isState ? FLOAT32 : FLOAT16);
  }, 0);
  const read = READ_TOKENS * Math.min(texts, 4);
  return summed({
    weights: bytes + repacked,
    cache,
    logits: LOGITS_COPIES * FLOAT32 * read * spec.vocabularySize,
    activations: FLOAT32 * read * (spec.heads * cells + 4 * spec.hidden + 2 * spec.feedForward),
    program: programBytes(spec, PROGRAM) + planned,
  });
}
