// How the kinds of layers follow from their places, family by family, as in the configuration classes of transformers 5.24.

import { type Json, LAYER_COUNTS } from "./config.js";

/** How a field of config.json says which kind a layer is. */
export interface Rule {
  /** Values of `model_type` that follow it, also where the fields are missing. */
  readonly families: readonly string[];
  /** Whether other families follow it too if they have one of its fields. */
  readonly isGeneral?: true;
  /** Fields that it reads: what a missing one is, and the least that it can be. */
  readonly numbers: Readonly<Record<string, { readonly missing: number; readonly least: number }>>;
  /** List that takes the place of the rule, with the kind of each layer, or with the layers (`PLACES`). */
  readonly list?: string;
  /** Kind of a layer. @param values of `numbers`, in their order */
  readonly kind: (layer: number, values: readonly number[], layers: number, config: Json) => unknown;
  /** The fields for layers of these kinds, if neither the list nor other numbers say it. */
  readonly write?: (kinds: readonly unknown[]) => Json;
}

/** Lists of the layers of one kind, and the number of the first layer. */
export const PLACES: Readonly<Record<string, number>> = {
  attn_layer_indices: 0, // Bamba
  cross_attention_layers: 0, // Mllama
  full_attn_idxs: 0, // LFM2
  moe_layers: 0, // Llama 4
  hybrid_layer_ids: 0, // Zamba 2
  global_attn_idx: 0, // Hymba
  full_attn_layers: 1, // Kimi Linear
  kda_layers: 1,
};

/** Counts of a decoder's layers, other names of them too, which a stack changes together. */
export const COUNTS_IN_STACKS: readonly string[] = [
  ...LAYER_COUNTS,
  ...["decoder_layers", "num_decoder_layers", "num_blocks", "layers"], // BART, ProphetNet, xLSTM, Kosmos-2
];

/** For each layer, the one whose keys and values it reads (Mistral Large 4). */
export const SOURCES = "kv_source_layers";

/** Lists with a part for each layer, or for each of a kind, by its place: IDEFICS, Inkling 2, Zamba 2. */
export const LISTS_BY_PLACE = /(?:^|\.)(gated_cross_attn_layers|attn_queries|mlp_queries|\w+_adapter_list)\.\d/;

const GEMMA_4 = ["gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"];

/** Kind that transformers gives the last layer, whatever `layer_types` says. */
export const LAST_KINDS: Readonly<Record<string, string>> = Object.fromEntries(
  GEMMA_4.map((family) => [family, "full_attention"]),
);

/** Field of Gemma 3n and 4 with which tensors outside the layers hold a part for each layer, by its place. */
export const PARTS_BY_PLACE = "hidden_size_per_layer_input";

const [FULL, SLIDING, LINEAR] = ["full_attention", "sliding_attention", "linear_attention"];

/** Full attention in every n-th layer, where `layer_types` is missing. @param first the first of them; default n - 1 */
function everyNth(n: number, families: readonly string[], others = SLIDING, field = "", first?: number): Rule {
  return {
    families,
    numbers: field === "" ? {} : { [field]: { missing: n, least: 1 } },
    list: "layer_types",
    kind: (layer, [every = n]) => ((layer - (first ?? every - 1)) % every === 0 ? FULL : others),
  };
}

/** Dense layers before those with experts; any family can have the field, unless a list is written in its place. */
const denseBefore = (field: string, missing: number, families: readonly string[], list?: string): Rule => ({
  families,
  ...(list === undefined ? { isGeneral: true } : { list }),
  numbers: { [field]: { missing, least: 0 }, moe_layer_freq: { missing: 1, least: 1 } },
  kind: (layer, [first = 0, every = 1]) => (layer >= first && layer % every === 0 ? "sparse" : "dense"),
});

/** Families that read `mlp_layer_types`. */
const WITH_MLP_TYPES = [
  "axk1",
  "axk2",
  "bailing_hybrid",
  "deepseek_v32",
  "exaone_moe",
  "glm4_moe_lite",
  "glm_moe_dsa",
  "kimi_linear",
];

/** Jamba's layers of one kind, one in each period. */
const inPeriods = (field: string, period: number, offset: number, kinds: readonly [string, string]): Rule => ({
  families: ["jamba"],
  numbers: {
    [`${field}_period`]: { missing: period, least: 1 },
    [`${field}_offset`]: { missing: offset, least: 0 },
  },
  kind: (layer, [every = 1, at = 0]) => (at >= every ? "none" : kinds[layer % every === at ? 0 : 1]),
});

/** The first rule for a field or list counts. */
export const RULES: readonly Rule[] = [
  everyNth(2, ["gemma2", "gpt_oss", "vaultgemma"]),
  everyNth(6, ["gemma3", "gemma3_text"], SLIDING, "sliding_window_pattern"),
  everyNth(5, ["gemma3n", "gemma3n_text"]),
  { ...everyNth(6, GEMMA_4), kind: (layer, _, layers) => ((layer + 1) % 6 && layer < layers - 1 ? SLIDING : FULL) },
  everyNth(4, ["cohere2", "exaone4", "exaone_moe"], SLIDING, "sliding_window_pattern"),
  everyNth(4, ["olmo3"]),
  everyNth(4, ["afmoe"], SLIDING, "global_attn_every_n_layers"),
  everyNth(4, ["granite_swa", "granitemoe_swa", "cwm"], SLIDING, "", 0),
  everyNth(3, ["modernbert", "modernbert-decoder"], SLIDING, "global_attn_every_n_layers", 0),
  everyNth(
    4,
    ["qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"],
    LINEAR,
    "full_attention_interval",
  ),
  everyNth(4, ["olmo_hybrid"], LINEAR),
  everyNth(2, ["minimax"], LINEAR, "", 0),
  {
    families: ["qwen2_moe"],
    numbers: { max_window_layers: { missing: 28, least: 0 } },
    list: "layer_types",
    kind: (layer, [windows = 0], _, { use_sliding_window: used }) =>
      used === true && layer % 2 === 0 && layer < windows ? SLIDING : FULL,
  },
  {
    families: [],
    isGeneral: true,
    numbers: { max_window_layers: { missing: 28, least: 0 } },
    list: "layer_types",
    kind: (layer, [first = 0], _, { use_sliding_window: used, sliding_window: window }) =>
      used !== false && window != null && layer >= first ? SLIDING : FULL,
  },
  {
    families: ["llama4", "llama4_text", "smollm3"],
    numbers: { no_rope_layer_interval: { missing: 4, least: 1 } },
    list: "no_rope_layers",
    kind: (layer, [every = 4]) => Number((layer + 1) % every !== 0),
  },
  {
    families: ["llama4", "llama4_text"],
    numbers: { interleave_moe_layer_step: { missing: 1, least: 1 } },
    list: "moe_layers",
    kind: (layer, [every = 1]) => (layer + 1) % every === 0,
  },
  denseBefore("first_k_dense_replace", 1, WITH_MLP_TYPES, "mlp_layer_types"),
  denseBefore("first_k_dense_replace", 3, ["deepseek_v3"]),
  denseBefore("num_dense_layers", 1, ["afmoe", "lfm2_moe"]),
  {
    families: [],
    isGeneral: true,
    numbers: { decoder_sparse_step: { missing: 1, least: 1 }, mlp_only_layers: { missing: 0, least: 0 } },
    kind: (layer, [every = 1], _, { mlp_only_layers: dense }) =>
      (layer + 1) % every === 0 && !(Array.isArray(dense) && dense.map(Number).includes(layer)) ? "sparse" : "dense",
    write: (kinds) => ({
      decoder_sparse_step: 1,
      mlp_only_layers: kinds.flatMap((kind, place) => (kind === "dense" ? [place] : [])),
    }),
  },
  {
    families: ["ernie4_5_moe"],
    numbers: {
      moe_layer_interval: { missing: 1, least: 1 },
      moe_layer_start_index: { missing: 1, least: 0 },
      moe_layer_end_index: { missing: -1, least: 0 },
    },
    kind: (layer, [every = 1, first = 0, last = -1], layers) =>
      (layer + 1) % every === 0 && layer >= first && layer <= (last < 0 ? layers - 1 : last) ? "sparse" : "dense",
  },
  inPeriods("attn_layer", 8, 4, ["attention", "mamba"]),
  inPeriods("expert_layer", 2, 1, ["sparse", "dense"]),
  {
    families: [],
    isGeneral: true,
    numbers: { num_kv_shared_layers: { missing: 0, least: 0 } },
    kind: (layer, [shared = 0], layers) => (layer >= layers - shared ? "shared" : "own"),
  },
  {
    families: ["dory"],
    numbers: Object.fromEntries(
      ["n_input_layers", "n_recurrent_layers", "n_output_layers"].map((field) => [field, { missing: 0, least: 0 }]),
    ),
    kind: (layer, [first = 0, repeated = 0, last = 0], layers) =>
      first + repeated + last !== layers
        ? "none"
        : layer < first
          ? "input"
          : layer < first + repeated
            ? "recurrent"
            : "output",
  },
  {
    families: ["recurrent_gemma"],
    numbers: {},
    list: "block_types",
    kind: (layer, _, __, { block_types: cycle }) => (Array.isArray(cycle) ? cycle[layer % cycle.length] : undefined),
  },
  {
    families: ["gpt_neo"],
    numbers: {},
    kind: (layer, _, __, { attention_types: groups }) => expanded(groups)[layer],
    write: (kinds) => ({ attention_types: [[kinds, 1]] }),
  },
];

/** The kinds of GPT-Neo's layers: groups of kinds, each with how often they repeat. */
function expanded(groups: unknown): unknown[] {
  const list = Array.isArray(groups) ? (groups as unknown[]) : [];
  return list.flatMap((group) => {
    const [kinds, times] = Array.isArray(group) ? (group as unknown[]) : [];
    return Array.from({ length: Number(times) }, () => kinds).flat();
  });
}
