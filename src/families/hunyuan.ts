// Tencent's dense Hunyuan: Llama with norms of queries and keys after their rotation, whose base is stretched once.
import type { Family } from "./page/family.js";
import { readRope, withBase } from "./page/rope.js";
import { LLAMA_PARTS } from "./page/tensor-names.js";
import { attentionBiases, rmsNorm } from "./page/traits.js";

export const hunyuan: readonly Family[] = [
  {
    name: "Hunyuan",
    modelTypes: ["hunyuan_v1_dense"],
    reference: "Tencent 2025, Hunyuan-7B; transformers HunYuanDenseV1ForCausalLM",
    tensors: {
      // The first name of a part is that which tensors of GGUF files get.
      parts: { "self_attn.query_layernorm": "q_norm", "self_attn.key_layernorm": "k_norm", ...LLAMA_PARTS },
    },
    defaults: { vocab_size: 290_943, rms_norm_eps: 1e-5 },
    traits: (fields, sizes) => {
      const parameters = fields.nested("rope_scaling") ?? fields.nested("rope_parameters");
      const isDynamic = (parameters?.get("rope_type") ?? parameters?.get("type")) === "dynamic";
      const alpha = isDynamic && parameters?.get("alpha") !== 0 ? parameters?.positiveOrNull("alpha") : undefined;
      const rope = readRope({ fields, ...sizes });
      const { headDim } = sizes;
      return {
        biases: attentionBiases(fields),
        attention: { qkNorm: { ...rmsNorm(fields), over: "head", afterRotation: true } },
        qkNorms: { q: "query_layernorm", k: "key_layernorm" },
        ropes: [alpha ? withBase(rope, rope.theta * alpha ** (headDim / (headDim - 2))) : rope],
      };
    },
    llamaCpp: { name: "hunyuan-dense", read: { className: "HunYuanDenseV1ForCausalLM" } },
  },
];
