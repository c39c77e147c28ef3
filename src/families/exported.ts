// Families that are merged and exported for llama.cpp, and not run: nobody has compared the engine with transformers on them.
import { readRouting } from "./page/experts.js";
import type { Family } from "./page/family.js";
import { readBiases } from "./page/llama-cpp.js";
import { otherShares } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, LLAMA_PARTS, PRE_NORMS } from "./page/tensor-names.js";
import { rmsNorm } from "./page/traits.js";

export const exported: readonly Family[] = [
  {
    name: "Seed-OSS",
    modelTypes: ["seed_oss"],
    reference: "ByteDance Seed 2025, Seed-OSS-36B; transformers SeedOssForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    runs: false,
    defaults: {
      vocab_size: 155_136,
      intermediate_size: 27_648,
      num_attention_heads: 80,
      num_key_value_heads: 8,
      head_dim: 128,
      max_position_embeddings: 524_288,
      attention_bias: true,
      attention_out_bias: false,
    },
    traits: (fields) => ({
      biases: {
        qkv: fields.flag("attention_bias"),
        o: fields.flag("attention_out_bias"),
        feedForward: fields.flag("mlp_bias"),
      },
    }),
    llamaCpp: {
      name: "seed_oss",
      biases: ["q", "k", "v"],
      names: { beforeFeedForward: "post_attention_norm" },
      read: { className: "SeedOssForCausalLM", fields: (read) => ({ ...readBiases(read), attention_out_bias: false }) },
    },
  },
  {
    name: "MiniMax-M2",
    modelTypes: ["minimax_m2"],
    reference: "MiniMax 2025, MiniMax-M2; transformers MiniMaxM2ForCausalLM",
    tensors: {
      parts: {
        ...ATTENTION,
        ...PRE_NORMS,
        "block_sparse_moe.gate": "router",
        "block_sparse_moe.e_score_correction_bias": "router",
        "block_sparse_moe.experts.*.w1": "gate_proj",
        "block_sparse_moe.experts.*.w3": "up_proj",
        "block_sparse_moe.experts.*.w2": "down_proj",
      },
    },
    runs: false,
    defaults: {
      vocab_size: 200_064,
      hidden_size: 3072,
      intermediate_size: 1536,
      num_attention_heads: 48,
      num_key_value_heads: 8,
      head_dim: 128,
      max_position_embeddings: 196_608,
      num_experts_per_tok: 8,
      num_local_experts: 256,
    },
    traits: (fields, sizes) => ({
      attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
      ropes: [
        readRope({
          fields,
          ...sizes,
          theta: 5_000_000,
          partial: (fields.countOrNull("rotary_dim") ?? sizes.headDim) / sizes.headDim,
        }),
      ],
      experts: {
        routing: readRouting(
          fields,
          { experts: "num_local_experts", width: "intermediate_size" },
          { scores: "sigmoid", normaliser: 0, balance: null },
        ),
        router: "block_sparse_moe.gate",
        correction: "block_sparse_moe.e_score_correction_bias",
        names: {
          layout: "each",
          gate: "block_sparse_moe.experts.*.w1",
          up: "block_sparse_moe.experts.*.w3",
          down: "block_sparse_moe.experts.*.w2",
        },
      },
    }),
    llamaCpp: {
      name: "minimax-m2",
      ownHead: true,
      differs: otherShares,
      experts: { scores: "sigmoid" },
      read: {
        className: "MiniMaxM2ForCausalLM",
        fields: ({ number }) => ({
          num_local_experts: number("expert_count"),
          num_experts_per_tok: number("expert_used_count"),
          rotary_dim: number("rope.dimension_count"),
        }),
      },
    },
  },
];
