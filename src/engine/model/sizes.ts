// Sizes of a decoder in bytes, from its specification.

import type { DecoderSpec, StoredWeight } from "../../families/index.js";
import { type DType, elementCount } from "../../kit/index.js";
import { cacheParts } from "./feeds.js";
import { locateWeights, weightsOf } from "./weight-names.js";

export const FLOAT32 = 4;

/**
 * Tokens per pass: enough for fast matrix products, few enough for small scores and logits. Half of the scores among them
 * are masked, and such small exponentials are slow on some processors.
 */
export const PASS_TOKENS = 192;
/** Floats of a pass's logits; two copies take 128 MB. */
const PASS_LOGITS = 2 ** 24;
/** Tokens of a pass where the logits of all of them are needed. */
export const logitsTokens = (vocabularySize: number): number => Math.min(PASS_TOKENS, PASS_LOGITS / vocabularySize);

/** Bytes of the weights as float32 and of the largest of them, and those that stay in their files as they are stored. */
export function weightSizes(
  spec: DecoderSpec,
  { tensors, name }: { readonly tensors: ReadonlyMap<string, { readonly dtype: DType }>; readonly name: string },
): { floats: number; largest: number; mapped: number } {
  const { stored } = locateWeights(spec, tensors.keys(), name);
  // The embedding is a matrix of the computation where it is the head, too.
  const tables = [spec.head ? spec.embedding : undefined, spec.layerInputs?.embedding];
  const inFiles = new Set<StoredWeight | undefined>([
    ...tables,
    ...spec.layers.flatMap(({ experts }) => {
      const matrices = [experts?.gate, experts?.up, experts?.gateUp, experts?.down];
      return matrices.flatMap((one) => one?.weights ?? []);
    }),
  ]);
  let [floats, largest, mapped] = [0, 0, 0];
  const seen = new Set<string>();
  for (const weight of weightsOf(spec)) {
    const key = `${weight.name} ${weight.rows?.from}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const elements = elementCount(weight.shape);
    if (inFiles.has(weight)) {
      const dtype = tensors.get(stored.get(weight.name) ?? "")?.dtype;
      mapped += elements * (dtype === "BF16" || dtype === "F16" ? 2 : FLOAT32);
      continue;
    }
    floats += FLOAT32 * elements;
    largest = Math.max(largest, FLOAT32 * elements);
  }
  return { floats, largest, mapped };
}

/** Bytes of the cache of texts of so many tokens. @param bytes of a number */
export function cacheBytes(spec: DecoderSpec, texts: number, tokens: number, bytes = FLOAT32): number {
  return cacheParts(spec).reduce((sum, { kind, strips, length, width }) => {
    return sum + bytes * texts * strips * width * (kind === "positions" ? tokens : length);
  }, 0);
}

/**
 * Bytes of what the way back reads of each layer, all of which is there when the loss is computed.
 * @param time tokens of a text
 */
export function keptBytes(spec: DecoderSpec, tokens: number, time: number): number {
  const { hidden, heads, attention, routing } = spec;
  return spec.layers.reduce((sum, { weights, experts, kvHeads, headDim }) => {
    // The stream after each half, and its norms; what a norm of a half's output reads.
    const streams = 4 + [weights.afterAttention, weights.afterFeedForward].filter(Boolean).length;
    // Queries, keys and values, and what the heads give; what norms of queries and keys read.
    const strips = (attention.qkNorm ? 3 : 2) * (heads + kvHeads) * headDim;
    const scores = (attention.softcap === null ? 1 : 2) * heads * time;
    // Gate, activation, up and their product; without a gate, two of them.
    const width = (weights.up ? spec.feedForward : 0) + (experts && routing ? routing.chosen * routing.width : 0);
    const wide = (weights.up && !weights.gate ? 2 : 4) * width;
    return sum + FLOAT32 * tokens * (streams * hidden + strips + scores + wide);
  }, 0);
}
