// GPT-2 and its descendants.
import type { Family } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";
import { PRE_NORMS } from "./page/tensor-names.js";

export const gpt: readonly Family[] = [
  {
    name: "GPT-2",
    modelTypes: ["gpt2"],
    tensors: {
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
      transposed: true,
    },
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
  { name: "gpt-oss", modelTypes: ["gpt_oss"], kinds: [everyNth(2)] },
];

/** The kinds of GPT-Neo's layers: groups of kinds, each with how often they repeat. */
function expanded(groups: unknown): unknown[] {
  const list = Array.isArray(groups) ? (groups as unknown[]) : [];
  return list.flatMap((group) => {
    const [kinds, times] = Array.isArray(group) ? (group as unknown[]) : [];
    return Array.from({ length: Number(times) }, () => kinds).flat();
  });
}
