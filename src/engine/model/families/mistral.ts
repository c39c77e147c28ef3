// Mistral: Llama with a window of attention, the same in every layer, in its first versions.
import type { Family } from "./family.js";
import { sameWindow } from "./traits.js";

export const mistral: Family = {
  name: "Mistral",
  modelTypes: ["mistral"],
  reference: "Jiang et al. 2023, arXiv 2310.06825; transformers MistralForCausalLM",
  defaults: {
    intermediate_size: 14_336,
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
  },
  traits: (fields) => ({ layer: sameWindow(fields) }),
};
