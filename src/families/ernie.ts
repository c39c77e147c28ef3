// Baidu's ERNIE 4.5: Llama that turns neighbouring dimensions.
import type { Family } from "./page/family.js";
import { readRope } from "./page/rope.js";
import { EXPERTS, LLAMA_PARTS, SHARED_EXPERTS } from "./page/tensor-names.js";

export const ernie: readonly Family[] = [
  {
    name: "ERNIE 4.5",
    modelTypes: ["ernie4_5"],
    reference: "ERNIE team 2025, ERNIE 4.5 technical report; transformers Ernie4_5ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: {
      vocab_size: 103_424,
      hidden_size: 1024,
      intermediate_size: 3072,
      num_attention_heads: 16,
      num_key_value_heads: 2,
      head_dim: 128,
      max_position_embeddings: 131_072,
      rms_norm_eps: 1e-5,
      tie_word_embeddings: true,
      use_bias: false,
    },
    traits: (fields, sizes) => {
      const bias = fields.flag("use_bias");
      return {
        biases: { qkv: bias, o: bias, feedForward: bias },
        ropes: [readRope({ fields, ...sizes, pairs: "interleaved", theta: 500_000 })],
      };
    },
    llamaCpp: { name: "ernie4_5", read: { className: "Ernie4_5ForCausalLM" } },
  },
  {
    name: "ERNIE 4.5 MoE",
    modelTypes: ["ernie4_5_moe"],
    kinds: [
      {
        numbers: {
          moe_layer_interval: { missing: 1, least: 1 },
          moe_layer_start_index: { missing: 1, least: 0 },
          moe_layer_end_index: { missing: -1, least: 0 },
        },
        kind: (layer, [every = 1, first = 0, last = -1], layers) =>
          (layer + 1) % every === 0 && layer >= first && layer <= (last < 0 ? layers - 1 : last) ? "sparse" : "dense",
      },
    ],
  },
  {
    name: "ERNIE 4.5 VL", // routers of text and of images are published [in, out]
    modelTypes: ["ernie4_5_vl_moe_text", "ernie4_5_vl_moe"],
    tensors: {
      parts: {
        ...LLAMA_PARTS,
        ...EXPERTS,
        ...SHARED_EXPERTS,
        "mlp.gate.weight_1": "router",
        "mlp.moe_statics.e_score_correction_bias": "router",
      },
      transposed: ["mlp.gate", "mlp.gate.weight_1"],
    },
  },
];
