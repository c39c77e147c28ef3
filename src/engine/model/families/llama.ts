// Llama and what took its shape: Falcon 3, Yi, SmolLM, TinyLlama and others.

import { type Family, PRE_NORMS } from "./family.js";
import { readRope } from "./rope.js";
import { activation, rmsNorm } from "./traits.js";

export const llama: Family = {
  name: "Llama",
  modelTypes: ["llama"],
  reference: "Touvron et al. 2023, arXiv 2302.13971; Llama 3, arXiv 2407.21783; transformers LlamaForCausalLM",
  defaults: {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_attention_heads: 32,
    num_key_value_heads: null,
    head_dim: null,
    hidden_act: "silu",
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: false,
    attention_bias: false,
    mlp_bias: false,
  },
  traits: (fields, sizes) => {
    const attentionBias = fields.flag("attention_bias");
    return {
      norm: rmsNorm(fields),
      norms: PRE_NORMS,
      activation: activation(fields),
      biases: { qkv: attentionBias, o: attentionBias, feedForward: fields.flag("mlp_bias") },
      ropes: [readRope({ fields, ...sizes })],
    };
  },
};
