// Phi-3, Phi-3.5 and Phi-4 (also mini): Llama with fused projections, and LongRoPE for long contexts.
import type { Family } from "./family.js";
import { readRope } from "./rope.js";
import { sameWindow } from "./traits.js";

export const phi3: Family = {
  name: "Phi-3",
  modelTypes: ["phi3"],
  reference: "Abdin et al. 2024, arXiv 2404.14219; transformers Phi3ForCausalLM",
  defaults: {
    vocab_size: 32_064,
    hidden_size: 3072,
    intermediate_size: 8192,
    max_position_embeddings: 4096,
    original_max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    sliding_window: null,
  },
  traits: (fields, sizes) => ({
    fused: { qkv: "self_attn.qkv_proj", gateUp: "mlp.gate_up_proj" },
    // Its first configurations call LongRoPE "su", and some of them "yarn" (transformers 5.18, configuration_phi3.py).
    ropes: [readRope({ fields, ...sizes, partial: true, aliases: { su: "longrope", yarn: "longrope" } })],
    layer: sameWindow(fields),
  }),
};
