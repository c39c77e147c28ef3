// Readings of a configuration that several families share: norms, activations, biases, windows.
import type { ConfigFields } from "./config-fields.js";
import type { KindRule } from "./layer-kinds.js";
import { LAYER_TYPES, type LayerType } from "./rope.js";
import type { Activation, NormSpec } from "./spec.js";

/** Llama's norm: x / sqrt(mean(x^2) + eps) times the weight. */
export function rmsNorm(fields: ConfigFields, epsilon = "rms_norm_eps"): NormSpec {
  return { kind: "rms", eps: fields.positive(epsilon), offset: 0 };
}

/** Gemma's: the same times 1 + weight. */
export function centredRmsNorm(fields: ConfigFields): NormSpec {
  return { ...rmsNorm(fields), offset: 1 };
}

/** With the mean subtracted. */
export function layerNorm(fields: ConfigFields, epsilon: string): NormSpec {
  return { kind: "layer", eps: fields.positive(epsilon), offset: 0 };
}

/** Norms only after each half, by OLMo 2's names. */
export const NORMS_AFTER = {
  afterAttention: "post_attention_layernorm",
  afterFeedForward: "post_feedforward_layernorm",
};

/** Norms before and after both halves, by Gemma 2's names. */
export const SANDWICHED = {
  beforeAttention: "input_layernorm",
  afterAttention: "post_attention_layernorm",
  beforeFeedForward: "pre_feedforward_layernorm",
  afterFeedForward: "post_feedforward_layernorm",
};

/** `attention_bias`: biases of all projections of attention. */
export function attentionBiases(fields: ConfigFields): { qkv: boolean; o: boolean } {
  const bias = fields.flag("attention_bias");
  return { qkv: bias, o: bias };
}

/** By the names of transformers, some of which are synonyms. */
const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  silu: "silu",
  swish: "silu",
  gelu: "gelu",
  gelu_python: "gelu",
  gelu_pytorch_tanh: "gelu_tanh",
  gelu_python_tanh: "gelu_tanh",
  gelu_new: "gelu_tanh",
  gelu_fast: "gelu_tanh",
  relu: "relu",
  relu2: "relu2",
};

export function readActivation(fields: ConfigFields, field = "hidden_act"): Activation {
  return fields.choice(field, ACTIVATIONS, "silu");
}

/** `sliding_window` in every layer; no window where it is null. */
export function sameWindow(fields: ConfigFields): () => { window: number | null } {
  const window = fields.countOrNull("sliding_window");
  return () => ({ window });
}

/**
 * Kind and window of each layer: `layer_types`, or by a rule where the file does not list them. Local layers
 * ("sliding_attention") see `sliding_window` positions, global ones ("full_attention") all.
 */
export function layerKinds(
  fields: ConfigFields,
  layers: number,
  { kind, numbers }: KindRule,
): { type: LayerType; window: number | null }[] {
  const byRule = () => {
    const values = Object.entries(numbers).map(([field, { missing }]) => fields.countOrNull(field) ?? missing);
    return Array.from({ length: layers }, (_, index) => kind(index, values, layers, {}) as LayerType);
  };
  const types = fields.choicesOrNull("layer_types", layers, LAYER_TYPES) ?? byRule();
  if (!types.includes("sliding_attention")) return types.map((type) => ({ type, window: null }));
  const window = fields.count("sliding_window");
  return types.map((type) => ({ type, window: type === "sliding_attention" ? window : null }));
}

/** Refuses Gemma's `use_bidirectional_attention`, with which tokens attend to later ones. */
export function requireCausal(fields: ConfigFields): void {
  if (fields.flag("use_bidirectional_attention")) {
    fields.refuse("use_bidirectional_attention", "is true; only causal decoders are supported");
  }
}

/**
 * Gemma's scale of embeddings: the square root of their width in float32, in which the engine and llama.cpp compute.
 * transformers rounds it to the dtype that it loads the weights in, whatever the configuration says (5.24, modeling_gemma.py,
 * GemmaTextScaledWordEmbedding), so only its bfloat16 models scale by other numbers.
 */
export const gemmaEmbeddingScale = (width: number): number => Math.fround(Math.sqrt(width));
