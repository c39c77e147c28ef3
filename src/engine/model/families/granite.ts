// Granite 3: Llama with four scales, of embeddings, attention, residuals and logits.

import { type Family, PRE_NORMS } from "./family.js";
import { readRope } from "./rope.js";
import { activation, rmsNorm } from "./traits.js";

export const granite: Family = {
  name: "Granite",
  modelTypes: ["granite"],
  reference: "IBM Granite 3.0 language models, 2024; transformers GraniteForCausalLM",
  defaults: {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_attention_heads: 32,
    num_key_value_heads: null,
    hidden_act: "silu",
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: false,
    attention_bias: false,
    mlp_bias: false,
    embedding_multiplier: 1,
    attention_multiplier: 1,
    residual_multiplier: 1,
    logits_scaling: 1,
  },
  traits: (fields, sizes) => {
    const attentionBias = fields.flag("attention_bias");
    return {
      norm: rmsNorm(fields),
      norms: PRE_NORMS,
      activation: activation(fields),
      biases: { qkv: attentionBias, o: attentionBias, feedForward: fields.flag("mlp_bias") },
      embeddingScale: fields.positive("embedding_multiplier"),
      attention: { scale: fields.positive("attention_multiplier") },
      residualScale: fields.positive("residual_multiplier"),
      logitScale: 1 / fields.positive("logits_scaling"), // the one that divides
      ropes: [readRope({ fields, ...sizes })],
    };
  },
};
