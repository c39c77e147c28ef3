// Cohere's Command R and Aya Expanse: one mean-subtracting norm before a parallel block, rotation of neighbouring
// dimensions, scaled logits. Cohere 2 (Command R7B) adds windows, and global layers without positions.
import type { ConfigFields } from "./config-fields.js";
import type { Family, Traits } from "./family.js";
import { readRope } from "./rope.js";
import { attentionBiases, everyNthGlobal, layerKinds, layerNorm } from "./traits.js";

const DEFAULTS = {
  vocab_size: 256_000,
  hidden_size: 8192,
  intermediate_size: 22_528,
  num_attention_heads: 64,
  max_position_embeddings: 8192,
  layer_norm_eps: 1e-5,
  tie_word_embeddings: true,
  logit_scale: 0.0625,
};

export const cohere: Family = {
  name: "Cohere",
  modelTypes: ["cohere"],
  reference: "Aya Expanse, Dang et al. 2024, arXiv 2412.04261; transformers CohereForCausalLM",
  defaults: { ...DEFAULTS, use_qk_norm: false },
  traits: (fields, sizes) => ({
    ...common(fields),
    attention: {
      qkNorm: fields.flag("use_qk_norm") ? { ...layerNorm(fields, "layer_norm_eps"), over: "eachHead" } : null,
    },
    ropes: [readRope({ fields, ...sizes, pairs: "interleaved", theta: 500_000 })],
  }),
};

export const cohere2: Family = {
  name: "Cohere 2",
  modelTypes: ["cohere2"],
  reference: "Command A, Cohere 2025, arXiv 2504.00698; transformers Cohere2ForCausalLM",
  defaults: { ...DEFAULTS, sliding_window: 4096, sliding_window_pattern: 4 },
  traits: (fields, sizes) => {
    const kinds = layerKinds(fields, sizes.layers, everyNthGlobal(fields.count("sliding_window_pattern")));
    return {
      ...common(fields),
      ropes: [readRope({ fields, ...sizes, pairs: "interleaved" })],
      // Layers without a window have no positions.
      layer: (index) => ({ window: kinds[index]?.window, rope: kinds[index]?.window ? 0 : null }),
    };
  },
};

function common(fields: ConfigFields): Traits {
  return {
    norm: layerNorm(fields, "layer_norm_eps"),
    norms: { beforeAttention: "input_layernorm" },
    layout: "parallel",
    biases: attentionBiases(fields),
    logitScale: fields.positive("logit_scale"),
  };
}
