// OLMo 2: norms only after attention and feed-forward, and of queries and keys over all heads together.

import type { Family } from "./family.js";
import { readRope } from "./rope.js";
import { activation, rmsNorm } from "./traits.js";

export const olmo2: Family = {
  name: "OLMo 2",
  modelTypes: ["olmo2"],
  reference: "OLMo team 2024, arXiv 2501.00656; transformers Olmo2ForCausalLM",
  defaults: {
    vocab_size: 50_304,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_attention_heads: 32,
    num_key_value_heads: null,
    hidden_act: "silu",
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    tie_word_embeddings: false,
    attention_bias: false,
  },
  traits: (fields, sizes) => {
    const attentionBias = fields.flag("attention_bias");
    return {
      norm: rmsNorm(fields),
      norms: { afterAttention: "post_attention_layernorm", afterFeedForward: "post_feedforward_layernorm" },
      activation: activation(fields),
      biases: { qkv: attentionBias, o: attentionBias },
      attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
      ropes: [readRope({ fields, ...sizes })],
    };
  },
};
