// OLMo 2: norms only after attention and feed-forward, and of queries and keys over all heads together.
import type { Family } from "./family.js";
import { attentionBiases, rmsNorm } from "./traits.js";

export const olmo2: Family = {
  name: "OLMo 2",
  modelTypes: ["olmo2"],
  reference: "OLMo team 2024, arXiv 2501.00656; transformers Olmo2ForCausalLM",
  defaults: { vocab_size: 50_304, rms_norm_eps: 1e-5 },
  traits: (fields) => ({
    norms: { afterAttention: "post_attention_layernorm", afterFeedForward: "post_feedforward_layernorm" },
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
  }),
};
