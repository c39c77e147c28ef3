// Mistral, and Mixtral with experts.
import type { Family } from "./page/family.js";
import { LLAMA_GRAPH } from "./page/llama-cpp.js";
import { ATTENTION, EXPERTS, LLAMA_PARTS, PRE_NORMS } from "./page/tensor-names.js";
import { sameWindow } from "./page/traits.js";

export const mistral: readonly Family[] = [
  {
    name: "Mistral", // Llama with a window of attention, the same in every layer, in its first versions
    modelTypes: ["mistral"],
    reference: "Jiang et al. 2023, arXiv 2310.06825; transformers MistralForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: {
      intermediate_size: 14_336,
      num_key_value_heads: 8,
      max_position_embeddings: 131_072,
      sliding_window: 4096,
    },
    traits: (fields) => ({ layer: sameWindow(fields) }),
    llamaCpp: LLAMA_GRAPH,
  },
  { name: "Ministral", modelTypes: ["ministral"], tensors: { parts: LLAMA_PARTS } },
  {
    name: "Mixtral",
    modelTypes: ["mixtral"],
    tensors: {
      parts: {
        ...ATTENTION,
        ...PRE_NORMS,
        ...EXPERTS,
        "block_sparse_moe.gate": "router",
        "block_sparse_moe.experts.*.w1": "gate_proj",
        "block_sparse_moe.experts.*.w2": "down_proj",
        "block_sparse_moe.experts.*.w3": "up_proj",
      },
    },
  },
];
