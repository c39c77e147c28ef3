// Gemma: scaled embeddings and norms centred at 1. Gemma 2 adds norms after both halves, softcaps and windows in every
// other layer; Gemma 3 norms of queries and keys instead of softcaps, and a rotation of its own for local layers.
import type { ConfigFields } from "./config-fields.js";
import type { Family, Sizes, Traits } from "./family.js";
import { readRopesByLayerType } from "./rope.js";
import {
  activation,
  attentionBiases,
  centredRmsNorm,
  everyNthGlobal,
  gemmaEmbeddingScale,
  layerKinds,
  requireCausal,
} from "./traits.js";

const DEFAULTS = {
  vocab_size: 256_000,
  head_dim: 256,
  max_position_embeddings: 8192,
  tie_word_embeddings: true,
};

/** Norms before and after both halves. */
const SANDWICH_NORMS = {
  beforeAttention: "input_layernorm",
  afterAttention: "post_attention_layernorm",
  beforeFeedForward: "pre_feedforward_layernorm",
  afterFeedForward: "post_feedforward_layernorm",
};

export const gemma: Family = {
  name: "Gemma",
  modelTypes: ["gemma"],
  reference: "Gemma team 2024, arXiv 2403.08295; transformers GemmaForCausalLM",
  defaults: {
    ...DEFAULTS,
    hidden_size: 3072,
    intermediate_size: 24_576,
    num_attention_heads: 16,
    num_key_value_heads: 16,
    hidden_act: "gelu_pytorch_tanh",
  },
  traits: (fields, sizes) => {
    // The first release writes "gelu" and means the approximation (transformers 5.18, configuration_gemma.py).
    const named = activation(fields);
    return {
      ...common(fields, sizes),
      activation: named === "gelu" ? "gelu_tanh" : named,
    };
  },
};

const LOCAL_DEFAULTS = {
  ...DEFAULTS,
  hidden_size: 2304,
  intermediate_size: 9216,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  hidden_activation: "gelu_pytorch_tanh",
  query_pre_attn_scalar: 256,
  sliding_window: 4096,
};

export const gemma2: Family = {
  name: "Gemma 2",
  modelTypes: ["gemma2"],
  reference: "Gemma team 2024, arXiv 2408.00118; transformers Gemma2ForCausalLM",
  defaults: { ...LOCAL_DEFAULTS, attn_logit_softcapping: 50, final_logit_softcapping: 30 },
  traits: (fields, sizes) => {
    const kinds = layerKinds(fields, sizes.layers, everyNthGlobal(2));
    return {
      ...common(fields, sizes),
      norms: SANDWICH_NORMS,
      activation: activation(fields, "hidden_activation"),
      attention: { scale: scale(fields), softcap: fields.positiveOrNull("attn_logit_softcapping") },
      logitSoftcap: fields.positiveOrNull("final_logit_softcapping"),
      layer: (index) => kinds[index] ?? {},
    };
  },
};

export const gemma3: Family = {
  name: "Gemma 3",
  modelTypes: ["gemma3_text", "gemma3"],
  reference: "Gemma team 2025, arXiv 2503.19786; transformers Gemma3ForCausalLM",
  defaults: {
    ...LOCAL_DEFAULTS,
    vocab_size: 262_208,
    max_position_embeddings: 131_072,
    sliding_window_pattern: 6,
    final_logit_softcapping: null,
  },
  traits: (fields, sizes) => {
    const pattern = everyNthGlobal(fields.count("sliding_window_pattern"));
    const kinds = layerKinds(fields, sizes.layers, pattern);
    const thetas = { full_attention: 1_000_000, sliding_attention: 10_000 };
    const ropes = readRopesByLayerType({ fields, ...sizes, thetas });
    return {
      ...common(fields, sizes),
      norms: SANDWICH_NORMS,
      activation: activation(fields, "hidden_activation"),
      // transformers keeps attn_logit_softcapping in the configuration but does not apply it in this family.
      attention: { scale: scale(fields), qkNorm: { ...centredRmsNorm(fields), over: "head" } },
      logitSoftcap: fields.positiveOrNull("final_logit_softcapping"),
      ropes: [ropes.full_attention, ropes.sliding_attention],
      layer: (index) => ({ ...kinds[index], rope: kinds[index]?.type === "sliding_attention" ? 1 : 0 }),
    };
  },
};

function common(fields: ConfigFields, { hidden }: Sizes): Traits {
  requireCausal(fields);
  return {
    norm: centredRmsNorm(fields),
    biases: attentionBiases(fields),
    embeddingScale: gemmaEmbeddingScale(fields, hidden),
  };
}

function scale(fields: ConfigFields): number {
  return fields.positive("query_pre_attn_scalar") ** -0.5;
}
