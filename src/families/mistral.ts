// Mistral, and Mixtral with experts.
import type { Family } from "./page/family.js";
import { LLAMA_GRAPH } from "./page/llama-cpp.js";
import { ORIGINAL_LENGTH, readRope } from "./page/rope.js";
import { ATTENTION, EXPERTS, LLAMA_PARTS, PRE_NORMS } from "./page/tensor-names.js";
import { sameWindow } from "./page/traits.js";

const GROWTH = "llama_4_scaling_beta";

const YARN = {
  type: "yarn",
  rope_theta: 1_000_000,
  factor: 16,
  original_max_position_embeddings: 16_384,
  mscale: 1,
  mscale_all_dim: 1,
  [GROWTH]: 0.1,
};

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
    name: "Ministral 3", // YaRN, and queries that grow with their positions
    modelTypes: ["ministral3"],
    reference: "Mistral AI 2026, arXiv 2601.08584; transformers Ministral3ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: {
      vocab_size: 131_072,
      intermediate_size: 14_336,
      num_key_value_heads: 8,
      head_dim: 128,
      max_position_embeddings: 262_144,
      rms_norm_eps: 1e-5,
      sliding_window: null,
      rope_parameters: YARN,
    },
    traits: (fields, sizes) => {
      const rope = fields.nested("rope_scaling") ?? fields.nested("rope_parameters");
      const [factor, every] = [rope?.positiveOrNull(GROWTH) ?? null, rope?.countOrNull(ORIGINAL_LENGTH) ?? null];
      if (rope && (factor === null || every === null)) {
        rope.refuse(factor === null ? GROWTH : ORIGINAL_LENGTH, "is missing; this family multiplies queries by it");
      }
      return {
        attention: factor && every ? { growth: { factor, every } } : {},
        ropes: [readRope({ fields, ...sizes })],
        layer: sameWindow(fields),
      };
    },
    llamaCpp: {
      name: "mistral3",
      interleaved: true,
      growth: true,
      read: {
        className: "Ministral3ForCausalLM",
        fields: ({ number }) => ({ rope_scaling: { [GROWTH]: number("attention.temperature_scale") } }),
      },
    },
  },
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
