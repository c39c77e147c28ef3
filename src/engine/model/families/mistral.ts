// Mistral: Llama with a window of attention, the same in every layer, in its first versions.

import { type Family, PRE_NORMS } from "./family.js";
import { readRope } from "./rope.js";
import { activation, rmsNorm, sameWindow } from "./traits.js";

export const mistral: Family = {
  name: "Mistral",
  modelTypes: ["mistral"],
  reference: "Jiang et al. 2023, arXiv 2310.06825; transformers MistralForCausalLM",
  defaults: {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 14_336,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    head_dim: null,
    hidden_act: "silu",
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: false,
    sliding_window: 4096,
  },
  traits: (fields, sizes) => ({
    norm: rmsNorm(fields),
    norms: PRE_NORMS,
    activation: activation(fields),
    ropes: [readRope({ fields, ...sizes })],
    layer: sameWindow(fields),
  }),
};
