// Granite 3: Llama with four scales, of embeddings, attention, residuals and logits.
import type { Family } from "./family.js";
import { attentionBiases } from "./traits.js";

export const granite: Family = {
  name: "Granite",
  modelTypes: ["granite"],
  reference: "IBM Granite 3.0 language models, 2024; transformers GraniteForCausalLM",
  defaults: { embedding_multiplier: 1, attention_multiplier: 1, residual_multiplier: 1, logits_scaling: 1 },
  traits: (fields) => ({
    biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
    embeddingScale: fields.positive("embedding_multiplier"),
    attention: { scale: fields.positive("attention_multiplier") },
    residualScale: fields.positive("residual_multiplier"),
    logitScale: 1 / fields.positive("logits_scaling"), // the one that divides
  }),
};
