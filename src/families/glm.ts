// Z.ai's dense GLM-4: half of each head turns, by neighbouring dimensions; gate and up in one matrix.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Sizes, Traits } from "./page/family.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, PRE_NORMS } from "./page/tensor-names.js";

const PARTS = { ...ATTENTION, "mlp.gate_up_proj": "gate_up_proj", "mlp.down_proj": "down_proj", ...PRE_NORMS } as const;

const DEFAULTS = {
  vocab_size: 151_552,
  intermediate_size: 13_696,
  num_key_value_heads: 2,
  head_dim: 128,
  max_position_embeddings: 131_072,
  rms_norm_eps: 1.5625e-7,
  attention_bias: true,
};

export const glm: readonly Family[] = [
  {
    name: "GLM-4", // the first, glm-4-9b-hf
    modelTypes: ["glm"],
    reference: "GLM team 2024, arXiv 2406.12793; transformers GlmForCausalLM",
    tensors: { parts: PARTS },
    defaults: DEFAULTS,
    traits: common,
  },
  {
    name: "GLM-4-0414", // norms after both halves, too
    modelTypes: ["glm4"],
    reference: "Z.ai 2025, GLM-4-0414; transformers Glm4ForCausalLM",
    tensors: {
      parts: { ...PARTS, post_self_attn_layernorm: "post_attention_norm", post_mlp_layernorm: "post_mlp_norm" },
    },
    defaults: DEFAULTS,
    traits: (fields, sizes) => ({
      ...common(fields, sizes),
      norms: {
        beforeAttention: "input_layernorm",
        afterAttention: "post_self_attn_layernorm",
        beforeFeedForward: "post_attention_layernorm",
        afterFeedForward: "post_mlp_layernorm",
      },
    }),
    llamaCpp: {
      name: "glm4",
      biases: ["q", "k", "v"],
      read: {
        className: "Glm4ForCausalLM",
        fields: ({ number, has }) => ({
          attention_bias: has("blk.0.attn_q.bias"),
          partial_rotary_factor: (number("rope.dimension_count") ?? 0) / (number("attention.key_length") ?? 0),
        }),
      },
    },
  },
];

function common(fields: ConfigFields, sizes: Sizes): Traits {
  return {
    biases: { qkv: fields.flag("attention_bias") },
    fused: { gateUp: "mlp.gate_up_proj" },
    ropes: [readRope({ fields, ...sizes, pairs: "interleaved", partial: 0.5 })],
  };
}
