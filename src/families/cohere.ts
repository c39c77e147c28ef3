// Cohere's Command R and Aya Expanse: one mean-subtracting norm before a parallel block, rotation of neighbouring
// dimensions, scaled logits. Cohere 2 (Command R7B) adds windows, and global layers without positions.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Traits } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";
import { readWindows } from "./page/llama-cpp.js";
import { otherHeads, ownHead } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, GATED_MLP } from "./page/tensor-names.js";
import { attentionBiases, layerKinds, layerNorm } from "./page/traits.js";

const DEFAULTS = {
  vocab_size: 256_000,
  hidden_size: 8192,
  intermediate_size: 22_528,
  num_attention_heads: 64,
  max_position_embeddings: 8192,
  layer_norm_eps: 1e-5,
  tie_word_embeddings: true,
  logit_scale: 0.0625,
};

const TENSORS: Family["tensors"] = { parts: { ...ATTENTION, ...GATED_MLP, input_layernorm: "input_norm" } };

const KINDS = everyNth(4, { field: "sliding_window_pattern" });

export const cohere: readonly Family[] = [
  {
    name: "Cohere",
    modelTypes: ["cohere"],
    reference: "Aya Expanse, Dang et al. 2024, arXiv 2412.04261; transformers CohereForCausalLM",
    tensors: TENSORS,
    defaults: { ...DEFAULTS, use_qk_norm: false },
    traits: (fields, sizes) => ({
      ...common(fields),
      attention: {
        qkNorm: fields.flag("use_qk_norm") ? { ...layerNorm(fields, "layer_norm_eps"), over: "eachHead" } : null,
      },
      ropes: [readRope({ fields, ...sizes, pairs: "interleaved", theta: 500_000 })],
    }),
    llamaCpp: {
      name: "command-r",
      biases: ["q", "k", "v"],
      differs: [
        otherHeads,
        ownHead,
        ({ attention: { qkNorm }, layers }) =>
          qkNorm !== null && layers.length < 64 && "it has norms of queries and keys",
      ],
      scales: ["logit"],
      read: {
        className: "CohereForCausalLM",
        epsilon: "layer_norm_eps",
        fields: ({ number, has }) => ({
          logit_scale: number("logit_scale"),
          use_qk_norm: has("blk.0.attn_q_norm.weight"),
        }),
      },
    },
  },
  {
    name: "Cohere 2",
    modelTypes: ["cohere2"],
    reference: "Command A, Cohere 2025, arXiv 2504.00698; transformers Cohere2ForCausalLM",
    tensors: TENSORS,
    kinds: [KINDS],
    defaults: { ...DEFAULTS, sliding_window: 4096 },
    traits: (fields, sizes) => {
      const kinds = layerKinds(fields, sizes.layers, KINDS);
      return {
        ...common(fields),
        ropes: [readRope({ fields, ...sizes, pairs: "interleaved" })],
        // Layers without a window have no positions.
        layer: (index) => ({ window: kinds[index]?.window, rope: kinds[index]?.window ? 0 : null }),
      };
    },
    llamaCpp: {
      name: "cohere2",
      differs: [otherHeads, ownHead],
      windows: true,
      unrotated: ({ window }) => window === null,
      scales: ["logit"],
      read: {
        className: "Cohere2ForCausalLM",
        epsilon: "layer_norm_eps",
        fields: (read) => ({ logit_scale: read.number("logit_scale"), ...readWindows(read, 4) }),
      },
    },
  },
];

function common(fields: ConfigFields): Traits {
  return {
    norm: layerNorm(fields, "layer_norm_eps"),
    norms: { beforeAttention: "input_layernorm" },
    layout: "parallel",
    biases: attentionBiases(fields),
    logitScale: fields.positive("logit_scale"),
  };
}
