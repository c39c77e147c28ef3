// Liquid AI's LFM2: short convolutions between two gates, with attention in some layers.
import type { ConfigFields } from "./page/config-fields.js";
import { sigmoidRouting } from "./page/experts.js";
import type { Family, Sizes, Traits } from "./page/family.js";
import { denseBefore, FULL } from "./page/layer-kinds.js";
import { type GgufMetadata, readExperts } from "./page/llama-cpp.js";
import { otherShares } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { inModule } from "./page/tensor-names.js";
import { rmsNorm } from "./page/traits.js";

const DEFAULTS = {
  vocab_size: 65_536,
  num_key_value_heads: 8,
  max_position_embeddings: 128_000,
  norm_eps: 1e-5,
  tie_word_embeddings: true,
  conv_bias: false,
  conv_L_cache: 3,
};

const TENSORS: Family["tensors"] = {
  parts: {
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.out_proj": "o_proj",
    "self_attn.q_layernorm": "q_norm",
    "self_attn.k_layernorm": "k_norm",
    ...inModule("conv", "mixer", ["in_proj", "conv", "out_proj"]),
    "feed_forward.w1": "gate_proj",
    "feed_forward.w3": "up_proj",
    "feed_forward.w2": "down_proj",
    "feed_forward.gate": "router",
    "feed_forward.expert_bias": "router",
    "feed_forward.experts.*.w1": "gate_proj",
    "feed_forward.experts.*.w3": "up_proj",
    "feed_forward.experts.*.w2": "down_proj",
    "feed_forward.experts.gate_up_proj": "gate_up_proj",
    "feed_forward.experts.down_proj": "down_proj",
    operator_norm: "input_norm",
    ffn_norm: "pre_mlp_norm",
  },
  outside: { embed_tokens: "embed_tokens", embedding_norm: "final_norm", lm_head: "lm_head" },
};

const GRAPH = { recurrence: "convolution", names: { finalNorm: "token_embd_norm" } } as const;

export const lfm: readonly Family[] = [
  {
    name: "LFM2",
    modelTypes: ["lfm2"],
    reference: "Liquid AI 2025, arXiv 2511.23404; transformers Lfm2ForCausalLM",
    tensors: TENSORS,
    defaults: {
      ...DEFAULTS,
      hidden_size: 2560,
      intermediate_size: 12_288,
      block_multiple_of: 256,
      block_ffn_dim_multiplier: 1,
      block_auto_adjust_ff_dim: true,
    },
    traits: (fields, sizes) => ({ ...traitsOf(fields, sizes), sizes: { feedForward: feedForward(fields) } }),
    llamaCpp: {
      ...GRAPH,
      name: "lfm2",
      read: {
        className: "Lfm2ForCausalLM",
        epsilon: "norm_eps",
        fields: (read) => ({ ...readLayers(read), block_auto_adjust_ff_dim: false }),
      },
    },
  },
  {
    name: "LFM2 MoE", // experts of sigmoids after some dense layers
    modelTypes: ["lfm2_moe"],
    reference: "Liquid AI 2025, arXiv 2511.23404; transformers Lfm2MoeForCausalLM",
    tensors: TENSORS,
    kinds: [denseBefore("num_dense_layers", 2)],
    defaults: {
      ...DEFAULTS,
      hidden_size: 2048,
      intermediate_size: 7168,
      moe_intermediate_size: 1792,
      num_dense_layers: 2,
      num_experts: 32,
      num_experts_per_tok: 4,
      use_expert_bias: true,
      norm_topk_prob: true,
      routed_scaling_factor: 1,
    },
    traits: (fields, sizes) => {
      const dense = fields.count("num_dense_layers", 0);
      return {
        ...traitsOf(fields, sizes),
        experts: {
          routing: sigmoidRouting(fields, "num_experts", 1e-6),
          inLayer: (layer) => layer >= dense,
          router: "feed_forward.gate",
          ...(fields.flag("use_expert_bias") ? { correction: "feed_forward.expert_bias" } : {}),
          names: {
            layout: "each",
            gate: "feed_forward.experts.*.w1",
            up: "feed_forward.experts.*.w3",
            down: "feed_forward.experts.*.w2",
            fused: { gateUp: "feed_forward.experts.gate_up_proj", down: "feed_forward.experts.down_proj" },
          },
        },
      };
    },
    llamaCpp: {
      ...GRAPH,
      name: "lfm2moe",
      differs: otherShares,
      experts: { scores: "sigmoid", dense: true },
      read: {
        className: "Lfm2MoeForCausalLM",
        epsilon: "norm_eps",
        fields: (read) => ({
          ...readLayers(read),
          ...readExperts(read, "num_experts"),
          num_dense_layers: read.number("leading_dense_block_count") ?? 0,
          use_expert_bias: read.layersWith("exp_probs_b.bias").includes(true),
        }),
      },
    },
  },
];

const readLayers = ({ number, layersWith }: GgufMetadata) => ({
  conv_L_cache: number("shortconv.l_cache"),
  layer_types: layersWith("attn_q.weight").map((attends) => (attends ? FULL : "conv")),
});

function traitsOf(fields: ConfigFields, sizes: Sizes): Traits {
  const { hidden, layers } = sizes;
  const norm = rmsNorm(fields, "norm_eps");
  const [kernel, bias] = [fields.count("conv_L_cache", 2), fields.flag("conv_bias")];
  const module = (name: string, shape: readonly number[]) => ({
    weight: { name: `conv.${name}.weight`, shape },
    ...(bias ? { bias: { name: `conv.${name}.bias`, shape: shape.slice(0, 1) } } : {}),
  });
  const isFull = attends(fields, layers);
  return {
    norm,
    norms: { beforeAttention: "operator_norm", beforeFeedForward: "ffn_norm" },
    names: { o: "out_proj", finalNorm: "embedding_norm" },
    feedForward: { gate: "feed_forward.w1", up: "feed_forward.w3", down: "feed_forward.w2" },
    activation: "silu",
    attention: { qkNorm: { ...norm, over: "head" } },
    qkNorms: { q: "q_layernorm", k: "k_layernorm" },
    ropes: [readRope({ fields, ...sizes, theta: 1_000_000 })],
    recurrence: {
      kind: "convolution",
      kernel,
      channels: hidden,
      state: null,
      weights: {
        mix: module("in_proj", [3 * hidden, hidden]),
        convolution: module("conv", [hidden, 1, kernel]),
        mixed: module("out_proj", [hidden, hidden]),
      },
    },
    layer: (index) => ({ has: [isFull(index) ? "attention" : "recurrence", "feedForward"] }),
  };
}

/** Which layers attend: by `layer_types`, else those of `full_attn_idxs`, else all. */
function attends(fields: ConfigFields, layers: number): (index: number) => boolean {
  const types = fields.choicesOrNull("layer_types", layers, [FULL, "conv"]);
  const listed = fields.get("full_attn_idxs");
  if (types) return (index) => types[index] === FULL;
  return (index) => !Array.isArray(listed) || listed.includes(index);
}

/** Width of the feed-forward part: two thirds of the field, rounded up to a multiple, where it is adjusted. */
function feedForward(fields: ConfigFields): number {
  const width = fields.has("block_ff_dim") ? fields.count("block_ff_dim") : fields.count("intermediate_size");
  if (!fields.flag("block_auto_adjust_ff_dim")) return width;
  const multiplier = fields.positiveOrNull("block_ffn_dim_multiplier");
  const least = Math.trunc((2 * width) / 3);
  if (multiplier === null) return least;
  const multiple = fields.count("block_multiple_of");
  return multiple * Math.ceil(Math.trunc(multiplier * least) / multiple);
}
