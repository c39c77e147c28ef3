// DeepSeek's mixtures of experts.
import type { Family } from "./page/family.js";
import { denseBefore } from "./page/layer-kinds.js";
import { EXPERTS, LLAMA_PARTS } from "./page/tensor-names.js";

export const deepseek: readonly Family[] = [
  {
    name: "DeepSeek MoE",
    modelTypes: ["deepseek"],
    tensors: {
      parts: {
        ...LLAMA_PARTS,
        ...EXPERTS,
        "mlp.shared_experts.gate_proj": "gate_proj",
        "mlp.shared_experts.up_proj": "up_proj",
        "mlp.shared_experts.down_proj": "down_proj",
      },
    },
  },
  { name: "DeepSeek V3", modelTypes: ["deepseek_v3"], kinds: [denseBefore("first_k_dense_replace", 3)] },
];
