// Gemma: scaled embeddings and norms centred at 1. Gemma 2 adds norms after both halves, softcaps and windows in every
// other layer; Gemma 3 norms of queries and keys instead of softcaps, and a rotation of its own for local layers.
import { gemma4 } from "./gemma-4.js";
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Sizes, Traits } from "./page/family.js";
import { everyNth, SLIDING } from "./page/layer-kinds.js";
import { type GgufMetadata, type LlamaCpp, readWindows } from "./page/llama-cpp.js";
import { ownHead } from "./page/llama-differences.js";
import { readRopesByLayerType } from "./page/rope.js";
import type { DecoderSpec } from "./page/spec.js";
import { ATTENTION, GATED_MLP, inModule, LLAMA_PARTS, SANDWICH_NORMS } from "./page/tensor-names.js";
import {
  attentionBiases,
  centredRmsNorm,
  gemmaEmbeddingScale,
  layerKinds,
  readActivation,
  requireCausal,
  SANDWICHED,
} from "./page/traits.js";

const DEFAULTS = {
  vocab_size: 256_000,
  head_dim: 256,
  max_position_embeddings: 8192,
  tie_word_embeddings: true,
};

const LOCAL_DEFAULTS = {
  ...DEFAULTS,
  hidden_size: 2304,
  intermediate_size: 9216,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  hidden_activation: "gelu_pytorch_tanh",
  query_pre_attn_scalar: 256,
  sliding_window: 4096,
};

const TENSORS: Family["tensors"] = { parts: { ...ATTENTION, ...GATED_MLP, ...SANDWICH_NORMS } };

const GRAPH: Omit<LlamaCpp, "name"> = {
  activation: "gelu_tanh",
  embeddingScale: ({ hidden }) => gemmaEmbeddingScale(hidden),
};

const [KINDS_2, KINDS_3] = [everyNth(2), everyNth(6, { field: "sliding_window_pattern" })];

export const gemma: readonly Family[] = [
  {
    name: "Gemma",
    modelTypes: ["gemma"],
    reference: "Gemma team 2024, arXiv 2403.08295; transformers GemmaForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: {
      ...DEFAULTS,
      hidden_size: 3072,
      intermediate_size: 24_576,
      num_attention_heads: 16,
      num_key_value_heads: 16,
      hidden_act: "gelu_pytorch_tanh",
    },
    traits: (fields, sizes) => {
      // The first release writes "gelu" and means the approximation (transformers 5.18, configuration_gemma.py).
      const named = readActivation(fields);
      return { ...common(fields, sizes), activation: named === "gelu" ? "gelu_tanh" : named };
    },
    llamaCpp: {
      ...GRAPH,
      name: "gemma",
      differs: [ownHead],
      read: { className: "GemmaForCausalLM", fields: () => ACTIVATION },
    },
  },
  {
    name: "Gemma 2",
    modelTypes: ["gemma2"],
    reference: "Gemma team 2024, arXiv 2408.00118; transformers Gemma2ForCausalLM",
    tensors: TENSORS,
    kinds: [KINDS_2],
    defaults: { ...LOCAL_DEFAULTS, attn_logit_softcapping: 50, final_logit_softcapping: 30 },
    traits: (fields, sizes) => {
      const kinds = layerKinds(fields, sizes.layers, KINDS_2);
      return {
        ...common(fields, sizes),
        norms: SANDWICHED,
        activation: readActivation(fields, "hidden_activation"),
        attention: { scale: scale(fields), softcap: fields.positiveOrNull("attn_logit_softcapping") },
        logitSoftcap: fields.positiveOrNull("final_logit_softcapping"),
        layer: (index) => kinds[index] ?? {},
      };
    },
    llamaCpp: {
      ...GRAPH,
      name: "gemma2",
      differs: [
        ownHead,
        ({ attention: { softcap }, logitSoftcap }) =>
          (softcap === null || logitSoftcap === null) && "it does not cap both scores and logits",
      ],
      windows: true,
      attentionScale: scaleInLlamaCpp(46),
      read: {
        className: "Gemma2ForCausalLM",
        fields: (read) => ({
          ...readScale(read, 46),
          ...readWindows(read, 2),
          attn_logit_softcapping: read.number("attn_logit_softcapping") ?? null,
          final_logit_softcapping: read.number("final_logit_softcapping") ?? null,
        }),
      },
    },
  },
  {
    name: "Gemma 3",
    modelTypes: ["gemma3_text", "gemma3"],
    reference: "Gemma team 2025, arXiv 2503.19786; transformers Gemma3ForCausalLM",
    tensors: TENSORS,
    kinds: [KINDS_3],
    defaults: {
      ...LOCAL_DEFAULTS,
      vocab_size: 262_208,
      max_position_embeddings: 131_072,
      final_logit_softcapping: null,
    },
    traits: (fields, sizes) => {
      const kinds = layerKinds(fields, sizes.layers, KINDS_3);
      const thetas = { full_attention: 1_000_000, sliding_attention: 10_000 };
      const ropes = readRopesByLayerType({ fields, ...sizes, thetas });
      return {
        ...common(fields, sizes),
        norms: SANDWICHED,
        activation: readActivation(fields, "hidden_activation"),
        // transformers keeps attn_logit_softcapping in the configuration but does not apply it in this family.
        attention: { scale: scale(fields), qkNorm: { ...centredRmsNorm(fields), over: "head" } },
        logitSoftcap: fields.positiveOrNull("final_logit_softcapping"),
        ropes: [ropes.full_attention, ropes.sliding_attention],
        layer: (index) => ({ ...kinds[index], rope: kinds[index]?.type === SLIDING ? 1 : 0 }),
      };
    },
    llamaCpp: {
      ...GRAPH,
      name: "gemma3",
      windows: true,
      localBase: true,
      attentionScale: scaleInLlamaCpp(62),
      read: {
        className: "Gemma3ForCausalLM",
        fields: (read) => ({
          ...readScale(read, 62),
          ...readWindows(read, 6),
          rope_local_base_freq: read.number("rope.freq_base_swa") ?? 10_000,
          final_logit_softcapping: read.number("final_logit_softcapping") ?? null,
        }),
      },
    },
  },
  { name: "Gemma 3n", modelTypes: ["gemma3n", "gemma3n_text"], kinds: [everyNth(5)] },
  ...gemma4,
  { name: "VaultGemma", modelTypes: ["vaultgemma"], kinds: [KINDS_2] },
  {
    name: "RecurrentGemma",
    modelTypes: ["recurrent_gemma"],
    tensors: {
      parts: {
        ...inModule("temporal_block", "mixer", ["linear_x", "linear_y", "linear_out", "conv_1d"]),
        ...inModule("temporal_block.rg_lru", "mixer", [
          "input_gate_weight",
          "recurrent_gate_weight",
          "recurrent_param",
        ]),
        "temporal_block.q_proj": "q_proj",
        "temporal_block.k_proj": "k_proj",
        "temporal_block.v_proj": "v_proj",
        "temporal_block.o_proj": "o_proj",
        "mlp_block.gate_proj": "gate_proj",
        "mlp_block.up_proj": "up_proj",
        "mlp_block.down_proj": "down_proj",
        temporal_pre_norm: "input_norm",
        channel_pre_norm: "pre_mlp_norm",
      },
      outside: { embed_tokens: "embed_tokens", final_norm: "final_norm", lm_head: "lm_head" },
      transposed: ["temporal_block.rg_lru.input_gate_weight", "temporal_block.rg_lru.recurrent_gate_weight"],
    },
    kinds: [
      {
        numbers: {},
        list: "block_types",
        kind: (layer, _, __, { block_types: cycle }) =>
          Array.isArray(cycle) ? cycle[layer % cycle.length] : undefined,
      },
    ],
  },
];

function common(fields: ConfigFields, { hidden }: Sizes): Traits {
  requireCausal(fields);
  return {
    norm: centredRmsNorm(fields),
    biases: attentionBiases(fields),
    embeddingScale: gemmaEmbeddingScale(hidden),
  };
}

function scale(fields: ConfigFields): number {
  return fields.positive("query_pre_attn_scalar") ** -0.5;
}

/** The models of 27B, which llama.cpp knows by their number of layers, have a scale of their own. */
function scaleInLlamaCpp(largest: number): (spec: DecoderSpec) => number {
  return ({ layers, hidden, heads, headDim }) =>
    (layers.length === largest ? Math.trunc(hidden / heads) : headDim) ** -0.5;
}

const ACTIVATION = { hidden_act: "gelu_pytorch_tanh", hidden_activation: "gelu_pytorch_tanh" };

/** Scores are divided by the root of a head's width; the largest models have a number of their own. */
function readScale({ number }: GgufMetadata, largest: number) {
  const [hidden = 0, heads = 1] = [number("embedding_length"), number("attention.head_count")];
  const width = number("attention.key_length") ?? hidden / heads;
  const scalar = number("block_count") === largest ? Math.trunc(hidden / heads) : width;
  return { ...ACTIVATION, query_pre_attn_scalar: scalar };
}
