// Phi-3, Phi-3.5 and Phi-4 (also mini): Llama with fused projections, and LongRoPE for long contexts.

import { type Family, PRE_NORMS } from "./family.js";
import { readRope } from "./rope.js";
import { activation, rmsNorm, sameWindow } from "./traits.js";

export const phi3: Family = {
  name: "Phi-3",
  modelTypes: ["phi3"],
  reference: "Abdin et al. 2024, arXiv 2404.14219; transformers Phi3ForCausalLM",
  defaults: {
    vocab_size: 32_064,
    hidden_size: 3072,
    intermediate_size: 8192,
    num_attention_heads: 32,
    num_key_value_heads: null,
    hidden_act: "silu",
    max_position_embeddings: 4096,
    original_max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    tie_word_embeddings: false,
    sliding_window: null,
  },
  traits: (fields, sizes) => ({
    norm: rmsNorm(fields),
    norms: PRE_NORMS,
    activation: activation(fields),
    fused: { qkv: "self_attn.qkv_proj", gateUp: "mlp.gate_up_proj" },
    // Its first configurations call LongRoPE "su", and some of them "yarn" (transformers 5.18, configuration_phi3.py).
    ropes: [readRope({ fields, ...sizes, partial: true, aliases: { su: "longrope", yarn: "longrope" } })],
    layer: sameWindow(fields),
  }),
};
