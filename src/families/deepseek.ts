// DeepSeek's mixtures of experts.
import type { Family } from "./page/family.js";
import { denseBefore } from "./page/layer-kinds.js";
import { EXPERTS, LLAMA_PARTS, SHARED_EXPERTS } from "./page/tensor-names.js";

export const deepseek: readonly Family[] = [
  {
    name: "DeepSeek MoE",
    modelTypes: ["deepseek"],
    tensors: { parts: { ...LLAMA_PARTS, ...EXPERTS, ...SHARED_EXPERTS } },
  },
  { name: "DeepSeek V3", modelTypes: ["deepseek_v3"], kinds: [denseBefore("first_k_dense_replace", 3)] },
];
