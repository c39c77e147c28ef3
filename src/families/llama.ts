// Llama, and those of its line.
import type { Family } from "./page/family.js";
import { ROTATED } from "./page/layer-kinds.js";
import { LLAMA_GRAPH, readBiases } from "./page/llama-cpp.js";
import { ATTENTION, LLAMA_PARTS, PRE_NORMS } from "./page/tensor-names.js";
import { attentionBiases } from "./page/traits.js";

export const llama: readonly Family[] = [
  {
    name: "Llama", // 1 to 3, Falcon 3, Yi, SmolLM, TinyLlama and others with its layout
    modelTypes: ["llama"],
    reference: "Touvron et al. 2023, arXiv 2302.13971; Llama 3, arXiv 2407.21783; transformers LlamaForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    traits: (fields) => ({ biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") } }),
    llamaCpp: { ...LLAMA_GRAPH, read: { className: "LlamaForCausalLM", fields: readBiases } },
  },
  {
    name: "Llama 3.2 Vision", // cross-attention to the image takes whole layers of its own among the others
    modelTypes: ["mllama_text_model"],
    tensors: {
      parts: {
        ...LLAMA_PARTS,
        "cross_attn.q_proj": "q_proj",
        "cross_attn.k_proj": "k_proj",
        "cross_attn.v_proj": "v_proj",
        "cross_attn.o_proj": "o_proj",
        "cross_attn.q_norm": "q_norm",
        "cross_attn.k_norm": "k_norm",
      },
    },
  },
  {
    name: "Llama 4",
    modelTypes: ["llama4", "llama4_text"],
    tensors: {
      parts: {
        ...ATTENTION,
        ...PRE_NORMS,
        "feed_forward.gate_proj": "gate_proj",
        "feed_forward.up_proj": "up_proj",
        "feed_forward.down_proj": "down_proj",
        "feed_forward.router": "router",
        "feed_forward.experts.gate_up_proj": "gate_up_proj",
        "feed_forward.experts.down_proj": "down_proj",
        "feed_forward.shared_expert.gate_proj": "gate_proj",
        "feed_forward.shared_expert.up_proj": "up_proj",
        "feed_forward.shared_expert.down_proj": "down_proj",
      },
      transposed: ["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"],
    },
    kinds: [
      ROTATED,
      {
        numbers: { interleave_moe_layer_step: { missing: 1, least: 1 } },
        list: "moe_layers",
        kind: (layer, [every = 1]) => (layer + 1) % every === 0,
      },
    ],
  },
  {
    name: "Llama (Meta's names)", // params.json, and the consolidated files of Mistral
    modelTypes: ["meta"],
    tensors: {
      stems: ["", "model."],
      parts: {
        "attention.wq": "q_proj",
        "attention.wk": "k_proj",
        "attention.wv": "v_proj",
        "attention.wo": "o_proj",
        "feed_forward.w1": "gate_proj",
        "feed_forward.w2": "down_proj",
        "feed_forward.w3": "up_proj",
        attention_norm: "input_norm",
        ffn_norm: "pre_mlp_norm",
      },
      outside: { tok_embeddings: "embed_tokens", norm: "final_norm", output: "lm_head" },
    },
  },
];
