// Z.ai's GLM. The dense GLM-4: half of each head turns, by neighbouring dimensions; gate and up in one matrix. GLM-4.5:
// experts of sigmoids after some dense layers, and its halves of pairs are apart.
import type { ConfigFields } from "./page/config-fields.js";
import { sigmoidExperts } from "./page/experts.js";
import type { Family, Sizes, Traits } from "./page/family.js";
import { denseBefore } from "./page/layer-kinds.js";
import { type GgufMetadata, readGroups, readPart, readSigmoidExperts } from "./page/llama-cpp.js";
import { otherHeads } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, EXPERTS, LLAMA_PARTS, PRE_NORMS, SHARED_EXPERTS } from "./page/tensor-names.js";
import { rmsNorm } from "./page/traits.js";

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
    llamaCpp: {
      name: "chatglm",
      fused: true,
      biases: ["q", "k", "v"],
      differs: [otherHeads],
      read: { className: "GlmForCausalLM", fields: readAttention },
    },
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
      fused: true,
      biases: ["q", "k", "v"],
      read: { className: "Glm4ForCausalLM", fields: readAttention },
    },
  },
  {
    name: "GLM-4.5", // also 4.6 and Air
    modelTypes: ["glm4_moe"],
    reference: "Z.ai 2025, arXiv 2508.06471; transformers Glm4MoeForCausalLM",
    tensors: { parts: { ...LLAMA_PARTS, ...EXPERTS, ...SHARED_EXPERTS } },
    kinds: [denseBefore("first_k_dense_replace", 1)],
    defaults: {
      vocab_size: 151_552,
      intermediate_size: 10_944,
      num_attention_heads: 96,
      num_key_value_heads: 8,
      max_position_embeddings: 131_072,
      rms_norm_eps: 1e-5,
      use_qk_norm: false,
      first_k_dense_replace: 1,
      moe_intermediate_size: 1408,
      num_experts_per_tok: 8,
      n_shared_experts: 1,
      n_routed_experts: 128,
      routed_scaling_factor: 1,
      n_group: 1,
      topk_group: 1,
      norm_topk_prob: true,
    },
    traits: (fields, sizes) => ({
      biases: { qkv: fields.flag("attention_bias") },
      ...(fields.flag("use_qk_norm") ? { attention: { qkNorm: { ...rmsNorm(fields), over: "head" } } } : {}),
      ropes: [readRope({ fields, ...sizes, partial: 0.5 })],
      experts: sigmoidExperts(fields),
    }),
    llamaCpp: {
      name: "glm4moe",
      biases: ["q", "k", "v"],
      names: { beforeFeedForward: "post_attention_norm" },
      experts: { scores: "sigmoid", dense: true, shared: "count" },
      read: {
        className: "Glm4MoeForCausalLM",
        fields: (read) => ({
          ...readAttention(read),
          ...readSigmoidExperts(read, "n_routed_experts"),
          ...readGroups(read),
          use_qk_norm: read.has("blk.0.attn_q_norm.weight"),
          n_shared_experts: read.number("expert_shared_count") ?? 1,
          first_k_dense_replace: read.number("leading_dense_block_count") ?? 0,
          num_nextn_predict_layers: 0,
        }),
      },
    },
  },
];

function readAttention(read: GgufMetadata) {
  return { attention_bias: read.has("blk.0.attn_q.bias"), partial_rotary_factor: readPart(read) };
}

function common(fields: ConfigFields, sizes: Sizes): Traits {
  return {
    biases: { qkv: fields.flag("attention_bias") },
    fused: { gateUp: "mlp.gate_up_proj" },
    ropes: [readRope({ fields, ...sizes, pairs: "interleaved", partial: 0.5 })],
  };
}
