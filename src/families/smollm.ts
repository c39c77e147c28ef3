// Hugging Face's SmolLM 3: Llama without rotation in every fourth layer. The first two are Llamas.
import type { Family } from "./page/family.js";
import { FULL, ROTATED, SLIDING } from "./page/layer-kinds.js";
import { readRope } from "./page/rope.js";
import { LLAMA_PARTS } from "./page/tensor-names.js";
import { attentionBiases, layerKinds } from "./page/traits.js";

export const smollm: readonly Family[] = [
  {
    name: "SmolLM 3",
    modelTypes: ["smollm3"],
    reference: "Bakouch et al. 2025, huggingface.co/blog/smollm3; transformers SmolLM3ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    kinds: [ROTATED],
    defaults: {
      vocab_size: 128_256,
      hidden_size: 2048,
      num_attention_heads: 16,
      num_key_value_heads: 4,
      max_position_embeddings: 32_768,
      tie_word_embeddings: true,
      use_sliding_window: false,
      no_rope_layer_interval: 4,
    },
    traits: (fields, sizes) => {
      const { layers } = sizes;
      const every = fields.count("no_rope_layer_interval");
      const listed = fields.choicesOrNull("no_rope_layers", layers, [0, 1]);
      const rotates = (index: number) => (listed ? listed[index] === 1 : (index + 1) % every !== 0);
      // Windows are in the layers that do not rotate, if there are any.
      const used = fields.flag("use_sliding_window") && fields.countOrNull("sliding_window") !== null;
      const kinds = layerKinds(fields, layers, {
        numbers: {},
        kind: (index) => (used && !rotates(index) ? SLIDING : FULL),
      });
      return {
        biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
        ropes: [readRope({ fields, ...sizes, theta: 2_000_000 })],
        layer: (index) => ({ window: kinds[index]?.window, rope: rotates(index) ? 0 : null }),
      };
    },
    llamaCpp: {
      name: "smollm3",
      interleaved: true,
      unrotated: (_, index) => (index + 1) % 4 === 0,
      read: { className: "SmolLM3ForCausalLM" },
    },
  },
];
