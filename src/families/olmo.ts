// Ai2's OLMo.
import type { Family } from "./page/family.js";
import { everyNth, LINEAR } from "./page/layer-kinds.js";
import { ATTENTION, GATED_MLP } from "./page/tensor-names.js";
import { attentionBiases, rmsNorm } from "./page/traits.js";

/** Norms only after each half. */
const TENSORS: Family["tensors"] = {
  parts: {
    ...ATTENTION,
    ...GATED_MLP,
    post_attention_layernorm: "post_attention_norm",
    post_feedforward_layernorm: "post_mlp_norm",
  },
};

export const olmo: readonly Family[] = [
  {
    name: "OLMo", // its norms have no parameters
    modelTypes: ["olmo"],
    tensors: { parts: { ...ATTENTION, ...GATED_MLP } },
  },
  {
    name: "OLMo 2", // norms of queries and keys over all heads together
    modelTypes: ["olmo2"],
    reference: "OLMo team 2024, arXiv 2501.00656; transformers Olmo2ForCausalLM",
    tensors: TENSORS,
    defaults: { vocab_size: 50_304, rms_norm_eps: 1e-5 },
    traits: (fields) => ({
      norms: { afterAttention: "post_attention_layernorm", afterFeedForward: "post_feedforward_layernorm" },
      biases: attentionBiases(fields),
      attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
    }),
    llamaCpp: { name: "olmo2", square: true, head: "own", read: { className: "Olmo2ForCausalLM" } },
  },
  { name: "OLMo 3", modelTypes: ["olmo3"], tensors: TENSORS, kinds: [everyNth(4)] },
  { name: "OLMo Hybrid", modelTypes: ["olmo_hybrid"], kinds: [everyNth(4, { others: LINEAR })] },
];
