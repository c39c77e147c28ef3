// Encoders: BERT with RoBERTa, XLM-R and embedding models of their layout, and ModernBERT.
import type { Family } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";

const KINDS = [everyNth(3, { field: "global_attn_every_n_layers", first: 0 })];

export const bert: readonly Family[] = [
  {
    name: "BERT", // norms after each half
    modelTypes: ["bert", "roberta", "xlm-roberta", "camembert"],
    tensors: {
      stems: ["bert.", "roberta.", ""],
      layers: "encoder.layer",
      parts: {
        "attention.self.query": "q_proj",
        "attention.self.key": "k_proj",
        "attention.self.value": "v_proj",
        "attention.output.dense": "o_proj",
        "attention.output.LayerNorm": "post_attention_norm",
        "intermediate.dense": "up_proj",
        "output.dense": "down_proj",
        "output.LayerNorm": "post_mlp_norm",
      },
      outside: {
        "embeddings.word_embeddings": "embed_tokens",
        "embeddings.position_embeddings": "position_embeddings",
        decoder: "lm_head",
        lm_head: "lm_head", // the bias of the head is beside it
      },
    },
    defaults: { tie_word_embeddings: true },
  },
  {
    name: "ModernBERT",
    modelTypes: ["modernbert"],
    tensors: {
      parts: {
        attn_norm: "input_norm", // not in layer 0
        "attn.Wqkv": "qkv_proj",
        "attn.Wo": "o_proj",
        mlp_norm: "pre_mlp_norm",
        "mlp.Wi": "gate_up_proj",
        "mlp.Wo": "down_proj",
      },
      outside: { "embeddings.tok_embeddings": "embed_tokens", final_norm: "final_norm", decoder: "lm_head" },
    },
    kinds: KINDS,
    defaults: { tie_word_embeddings: true },
  },
  { name: "ModernBERT decoder", modelTypes: ["modernbert-decoder"], kinds: KINDS },
];
