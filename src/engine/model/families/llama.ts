// Llama, and models of its shape: Falcon 3, Yi, SmolLM, TinyLlama and others.
import type { Family } from "./family.js";
import { attentionBiases } from "./traits.js";

export const llama: Family = {
  name: "Llama",
  modelTypes: ["llama"],
  reference: "Touvron et al. 2023, arXiv 2302.13971; Llama 3, arXiv 2407.21783; transformers LlamaForCausalLM",
  defaults: {},
  traits: (fields) => ({ biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") } }),
};
