// Microsoft's Phi.
import type { Family } from "./page/family.js";
import { type GgufMetadata, readPart } from "./page/llama-cpp.js";
import { otherHeads } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { OUTSIDE, PRE_NORMS } from "./page/tensor-names.js";
import { sameWindow } from "./page/traits.js";

export const phi: readonly Family[] = [
  {
    name: "Phi-3", // also 3.5 and 4: queries, keys and values in one matrix; gate and up in another; LongRoPE
    modelTypes: ["phi3"],
    reference: "Abdin et al. 2024, arXiv 2404.14219; transformers Phi3ForCausalLM",
    tensors: {
      parts: {
        "self_attn.qkv_proj": "qkv_proj",
        "self_attn.o_proj": "o_proj",
        "mlp.gate_up_proj": "gate_up_proj",
        "mlp.down_proj": "down_proj",
        ...PRE_NORMS,
      },
    },
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
      ropes: [readRope({ fields, ...sizes, partial: 1, aliases: { su: "longrope", yarn: "longrope" } })],
      layer: sameWindow(fields),
    }),
    llamaCpp: {
      name: "phi3",
      fused: true,
      differs: [otherHeads],
      ropeDivisors: ["two"],
      read: { className: "Phi3ForCausalLM", fields: rotation },
    },
  },
  {
    name: "Phi", // one norm before a parallel block
    modelTypes: ["phi"],
    tensors: {
      parts: {
        "self_attn.q_proj": "q_proj",
        "self_attn.k_proj": "k_proj",
        "self_attn.v_proj": "v_proj",
        "self_attn.dense": "o_proj",
        "mlp.fc1": "up_proj",
        "mlp.fc2": "down_proj",
        input_layernorm: "input_norm",
      },
      outside: { ...OUTSIDE, final_layernorm: "final_norm" },
    },
  },
];

function rotation(read: GgufMetadata) {
  const { number, values } = read;
  const [long, short] = [values("rope_factors_long.weight"), values("rope_factors_short.weight")];
  return {
    partial_rotary_factor: readPart(read),
    ...(long && short
      ? {
          original_max_position_embeddings: number("rope.scaling.original_context_length"),
          rope_scaling: { type: "longrope", long_factor: long, short_factor: short },
        }
      : {}),
  };
}
