// IBM's Granite.
import type { Family } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";
import { LLAMA_GRAPH, readBiases } from "./page/llama-cpp.js";
import { LLAMA_PARTS } from "./page/tensor-names.js";
import { attentionBiases } from "./page/traits.js";

export const granite: readonly Family[] = [
  {
    name: "Granite", // 3: Llama with four scales, of embeddings, attention, residuals and logits
    modelTypes: ["granite"],
    reference: "IBM Granite 3.0 language models, 2024; transformers GraniteForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: { embedding_multiplier: 1, attention_multiplier: 1, residual_multiplier: 1, logits_scaling: 1 },
    traits: (fields) => ({
      biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
      embeddingScale: fields.positive("embedding_multiplier"),
      attention: { scale: fields.positive("attention_multiplier") },
      residualScale: fields.positive("residual_multiplier"),
      logitScale: 1 / fields.positive("logits_scaling"), // the one that divides
    }),
    llamaCpp: {
      ...LLAMA_GRAPH,
      name: "granite",
      scales: ["embedding", "attention", "residual", "logit"],
      read: {
        className: "GraniteForCausalLM",
        fields: (read) => ({
          ...readBiases(read),
          embedding_multiplier: read.number("embedding_scale"),
          attention_multiplier: read.number("attention.scale"),
          residual_multiplier: read.number("residual_scale"),
          logits_scaling: read.number("logit_scale"),
        }),
      },
    },
  },
  { name: "Granite SWA", modelTypes: ["granite_swa", "granitemoe_swa"], kinds: [everyNth(4, { first: 0 })] },
];
