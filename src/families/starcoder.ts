// StarCoder 2: norms and projections with biases, and a feed-forward part without a gate.
import type { Family } from "./page/family.js";
import { otherHeads } from "./page/llama-differences.js";
import { ATTENTION, PRE_NORMS } from "./page/tensor-names.js";
import { layerNorm, sameWindow } from "./page/traits.js";

export const starcoder: readonly Family[] = [
  {
    name: "StarCoder 2",
    modelTypes: ["starcoder2"],
    reference: "Lozhkov et al. 2024, arXiv 2402.19173; transformers Starcoder2ForCausalLM",
    tensors: { parts: { ...ATTENTION, "mlp.c_fc": "up_proj", "mlp.c_proj": "down_proj", ...PRE_NORMS } },
    defaults: {
      vocab_size: 49_152,
      hidden_size: 3072,
      intermediate_size: 12_288,
      num_attention_heads: 24,
      num_key_value_heads: 2,
      hidden_act: "gelu_pytorch_tanh",
      max_position_embeddings: 4096,
      norm_epsilon: 1e-5,
      tie_word_embeddings: true,
      sliding_window: null,
      use_bias: true,
    },
    traits: (fields) => {
      const bias = fields.flag("use_bias");
      return {
        norm: layerNorm(fields, "norm_epsilon"),
        normBias: true,
        feedForward: { gate: null, up: "mlp.c_fc", down: "mlp.c_proj" },
        biases: { qkv: bias, o: bias, feedForward: bias },
        layer: sameWindow(fields),
      };
    },
    llamaCpp: {
      name: "starcoder2",
      activation: "gelu_tanh",
      biases: ["q", "k", "v", "o", "up", "down"],
      differs: [otherHeads],
      read: {
        className: "Starcoder2ForCausalLM",
        epsilon: "norm_epsilon",
        fields: ({ has }) => ({ hidden_act: "gelu_pytorch_tanh", use_bias: has("blk.0.attn_q.bias") }),
      },
    },
  },
];
