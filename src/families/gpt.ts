// GPT-2 and its descendants.
import { readRouting } from "./page/experts.js";
import type { Family } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";
import { otherWindows } from "./page/llama-differences.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, PRE_NORMS } from "./page/tensor-names.js";
import { attentionBiases, layerKinds } from "./page/traits.js";

const WINDOWS = everyNth(2);

/** Experts are stored [experts, in, out], and their biases together. */
const STACKED: Family["tensors"] = {
  parts: {
    ...ATTENTION,
    ...PRE_NORMS,
    "self_attn.sinks": "mixer",
    "mlp.router": "router",
    "mlp.experts.gate_up_proj": "gate_up_proj",
    "mlp.experts.down_proj": "down_proj",
  },
  transposed: ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
};

const GPT_2: NonNullable<Family["tensors"]> = {
  stems: ["transformer.", ""],
  layers: "h",
  parts: {
    "attn.c_attn": "qkv_proj",
    "attn.c_proj": "o_proj",
    "mlp.c_fc": "up_proj",
    "mlp.c_proj": "down_proj",
    ln_1: "input_norm",
    ln_2: "pre_mlp_norm",
  },
  outside: { wte: "embed_tokens", wpe: "position_embeddings", ln_f: "final_norm", lm_head: "lm_head" },
  transposed: "all",
};

export const gpt: readonly Family[] = [
  {
    name: "GPT-2",
    modelTypes: ["gpt2"],
    tensors: GPT_2,
    defaults: { tie_word_embeddings: true },
  },
  {
    name: "GPT",
    modelTypes: ["openai-gpt"],
    tensors: { ...GPT_2, outside: { tokens_embed: "embed_tokens", positions_embed: "position_embeddings" } },
    defaults: { tie_word_embeddings: true },
  },
  {
    name: "GPT-NeoX", // Pythia
    modelTypes: ["gpt_neox"],
    tensors: {
      stems: ["gpt_neox.", ""],
      parts: {
        "attention.query_key_value": "qkv_proj",
        "attention.dense": "o_proj",
        "mlp.dense_h_to_4h": "up_proj",
        "mlp.dense_4h_to_h": "down_proj",
        ...PRE_NORMS,
      },
      outside: { embed_in: "embed_tokens", embed_out: "lm_head", lm_head: "lm_head", final_layer_norm: "final_norm" },
    },
  },
  {
    name: "GPT-Neo",
    modelTypes: ["gpt_neo"],
    kinds: [
      {
        numbers: {},
        kind: (layer, _, __, { attention_types: groups }) => expanded(groups)[layer],
        write: (kinds) => ({ attention_types: [[kinds, 1]] }),
      },
    ],
  },
  {
    name: "gpt-oss", // sinks of attention, and experts with limits
    modelTypes: ["gpt_oss"],
    tensors: STACKED,
    reference: "OpenAI 2025, arXiv 2508.10925; transformers GptOssForCausalLM",
    kinds: [WINDOWS],
    defaults: {
      vocab_size: 201_088,
      hidden_size: 2880,
      intermediate_size: 2880,
      head_dim: 64,
      num_attention_heads: 64,
      num_key_value_heads: 8,
      sliding_window: 128,
      max_position_embeddings: 131_072,
      rms_norm_eps: 1e-5,
      attention_bias: true,
      num_local_experts: 128,
      num_experts_per_tok: 4,
      router_aux_loss_coef: 0.001,
      swiglu_alpha: 1.702,
      swiglu_limit: 7,
      rope_parameters: {
        rope_type: "yarn",
        rope_theta: 150_000,
        factor: 32,
        truncate: false,
        original_max_position_embeddings: 4096,
      },
    },
    llamaCpp: {
      name: "gpt-oss",
      biases: ["q", "k", "v", "o"],
      differs: [otherWindows(2)],
      windows: true,
      ownHead: true,
      roundsYarn: true,
      names: { beforeFeedForward: "post_attention_norm" },
      experts: { clamp: { limit: 7, alpha: 1.702 } },
    },
    traits: (fields, sizes) => {
      const kinds = layerKinds(fields, sizes.layers, WINDOWS);
      return {
        biases: attentionBiases(fields),
        sinks: "self_attn.sinks",
        ropes: [readRope({ fields, ...sizes, theta: 150_000 })],
        layer: (index) => ({ window: kinds[index]?.window }),
        experts: {
          routing: readRouting(
            fields,
            { experts: "num_local_experts", width: "intermediate_size" },
            {
              clamp: { limit: fields.positive("swiglu_limit"), alpha: fields.positive("swiglu_alpha") },
            },
          ),
          router: "mlp.router",
          routerBias: true,
          names: { layout: "pairs", gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" },
        },
      };
    },
  },
  { name: "OpenAI Privacy Filter", modelTypes: ["openai_privacy_filter"], tensors: STACKED },
];

/** The kinds of GPT-Neo's layers: groups of kinds, each with how often they repeat. */
function expanded(groups: unknown): unknown[] {
  const list = Array.isArray(groups) ? (groups as unknown[]) : [];
  return list.flatMap((group) => {
    const [kinds, times] = Array.isArray(group) ? (group as unknown[]) : [];
    return Array.from({ length: Number(times) }, () => kinds).flat();
  });
}
