// DeepSeek's mixtures of experts.
import type { ConfigFields } from "./page/config-fields.js";
import { sigmoidExperts } from "./page/experts.js";
import type { Family } from "./page/family.js";
import { denseBefore } from "./page/layer-kinds.js";
import { readRope } from "./page/rope.js";
import { EXPERTS, LATENT, LLAMA_PARTS, SHARED_EXPERTS } from "./page/tensor-names.js";
import { attentionBiases } from "./page/traits.js";

/** Numbers of layers of models that make queries of the whole stream in llama.cpp. */
const WHOLE_QUERIES = [26, 27];

export const deepseek: readonly Family[] = [
  {
    name: "DeepSeek MoE",
    modelTypes: ["deepseek"],
    tensors: { parts: { ...LLAMA_PARTS, ...EXPERTS, ...SHARED_EXPERTS } },
  },
  {
    name: "DeepSeek V3", // and R1, Kimi K2, Moonlight: latent attention, and experts of sigmoids
    modelTypes: ["deepseek_v3"],
    reference: "DeepSeek-AI 2024, arXiv 2412.19437; transformers DeepseekV3ForCausalLM",
    tensors: { parts: { ...LLAMA_PARTS, ...LATENT, ...EXPERTS, ...SHARED_EXPERTS } },
    kinds: [denseBefore("first_k_dense_replace", 3)],
    defaults: {
      vocab_size: 129_280,
      hidden_size: 7168,
      intermediate_size: 18_432,
      moe_intermediate_size: 2048,
      num_attention_heads: 128,
      num_key_value_heads: 128,
      max_position_embeddings: 4096,
      kv_lora_rank: 512,
      q_lora_rank: 1536,
      qk_rope_head_dim: 64,
      v_head_dim: 128,
      qk_nope_head_dim: 128,
      n_shared_experts: 1,
      n_routed_experts: 256,
      routed_scaling_factor: 2.5,
      n_group: 8,
      topk_group: 4,
      num_experts_per_tok: 8,
      first_k_dense_replace: 3,
      norm_topk_prob: true,
      rope_interleave: true,
    },
    llamaCpp: {
      name: "deepseek2",
      // It multiplies scores by the square of what the factor of cosine and sine is, and by what a key says.
      attentionScale: ({ attention, headDim, ropes }) =>
        ropes[0]?.scaling?.type === "yarn" ? attention.scale : headDim ** -0.5,
      differs: [
        ({ ropes }) => ropes[0]?.pairs === "half" && "the halves of what it rotates are apart",
        ({ layers }) =>
          !layers[0]?.weights.qDown &&
          !WHOLE_QUERIES.includes(layers.length) &&
          `it has ${layers.length} layers, and there those of ${WHOLE_QUERIES.join(" or ")} have queries without q_lora_rank`,
      ],
      experts: { scores: "sigmoid", dense: true, shared: "count" },
    },
    traits: (fields, sizes) => {
      const latent = {
        queries: fields.countOrNull("q_lora_rank"),
        keys: fields.count("kv_lora_rank"),
        plain: fields.count("qk_nope_head_dim"),
        rotated: fields.count("qk_rope_head_dim"),
        values: fields.count("v_head_dim"),
      };
      const pairs = fields.flag("rope_interleave") ? "interleaved" : "half";
      return {
        biases: attentionBiases(fields),
        latent,
        ropes: [readRope({ fields, ...sizes, headDim: latent.rotated, pairs })],
        attention: { scale: (latent.plain + latent.rotated) ** -0.5 * stretched(fields) ** 2 },
        experts: sigmoidExperts(fields),
      };
    },
  },
];

/** What scores grow by with a rotation that is scaled (yarn_apply_mscale of transformers 5.24). */
function stretched(fields: ConfigFields): number {
  const parameters = fields.nested("rope_scaling") ?? fields.nested("rope_parameters");
  const type = parameters?.get("rope_type") ?? parameters?.get("type") ?? "default";
  const scale = parameters?.get("mscale_all_dim") ?? 0;
  if (!parameters || type === "default" || scale === 0) return 1;
  const factor = parameters.positive("factor");
  return factor <= 1 ? 1 : 0.1 * parameters.positive("mscale_all_dim") * Math.log(factor) + 1;
}
