// Qwen 2 and 3: dense, with experts, with a tower of images, with linear attention.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Traits } from "./page/family.js";
import { everyNth, FULL, LINEAR, SLIDING } from "./page/layer-kinds.js";
import { type LlamaCpp, readBiases } from "./page/llama-cpp.js";
import { readRope } from "./page/rope.js";
import { EXPERTS, LLAMA_PARTS } from "./page/tensor-names.js";
import { attentionBiases, layerKinds, rmsNorm } from "./page/traits.js";

const DEFAULTS = {
  vocab_size: 151_936,
  intermediate_size: 22_016,
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  use_sliding_window: false,
  sliding_window: 4096,
  max_window_layers: 28,
};

const QWEN_3: LlamaCpp = { name: "qwen3", biases: ["q", "k", "v"] };

const WITH_EXPERTS = { parts: { ...LLAMA_PARTS, ...EXPERTS } }; // dense layers may be between the sparse ones

export const qwen: readonly Family[] = [
  {
    name: "Qwen 2", // biases of queries, keys and values
    modelTypes: ["qwen2"],
    reference: "Yang et al. 2024, arXiv 2407.10671; Qwen 2.5, arXiv 2412.15115; transformers Qwen2ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: DEFAULTS,
    traits: (fields, { layers }) => ({ biases: { qkv: true }, layer: windows(fields, layers) }),
    llamaCpp: { name: "qwen2", biases: ["q", "k", "v"], square: true, read: { className: "Qwen2ForCausalLM" } },
  },
  {
    name: "Qwen 3", // norms of queries and keys instead
    modelTypes: ["qwen3"],
    reference: "Yang et al. 2025, arXiv 2505.09388; transformers Qwen3ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: { ...DEFAULTS, head_dim: 128 },
    traits: (fields, { layers }) => ({ ...heads(fields), layer: windows(fields, layers) }),
    llamaCpp: { ...QWEN_3, read: { className: "Qwen3ForCausalLM", fields: readBiases } },
  },
  { name: "Qwen 2 VL", modelTypes: ["qwen2_5_vl_text", "qwen2_vl_text"], tensors: { parts: LLAMA_PARTS } },
  {
    name: "Qwen 3 VL", // its text part: in text alone, all three axes of positions are the same
    modelTypes: ["qwen3_vl_text"],
    reference: "Qwen team 2025, arXiv 2511.21631; transformers Qwen3VLForConditionalGeneration",
    tensors: { parts: LLAMA_PARTS },
    defaults: {
      vocab_size: 151_936,
      intermediate_size: 22_016,
      num_key_value_heads: 32,
      head_dim: 128,
      max_position_embeddings: 128_000,
    },
    traits: (fields, sizes) => ({
      ...heads(fields),
      ropes: [readRope({ fields, ...sizes, theta: 500_000, aliases: { mrope: "default" } })],
    }),
    llamaCpp: QWEN_3, // what its text part is
  },
  {
    name: "Qwen 2 MoE",
    modelTypes: ["qwen2_moe"],
    tensors: WITH_EXPERTS,
    kinds: [
      {
        numbers: { max_window_layers: { missing: 28, least: 0 } },
        list: "layer_types",
        kind: (layer, [most = 0], _, { use_sliding_window: used }) =>
          used === true && layer % 2 === 0 && layer < most ? SLIDING : FULL,
      },
    ],
  },
  { name: "Qwen 3 MoE", modelTypes: ["qwen3_moe", "qwen3_vl_moe_text"], tensors: WITH_EXPERTS },
  {
    name: "Qwen 3.5", // gated delta rule in most layers
    modelTypes: ["qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"],
    kinds: [everyNth(4, { others: LINEAR, field: "full_attention_interval" })],
  },
];

function heads(fields: ConfigFields): Traits {
  return { biases: attentionBiases(fields), attention: { qkNorm: { ...rmsNorm(fields), over: "head" } } };
}

/** With `use_sliding_window`, windows in the layers from `max_window_layers` on, or in those that `layer_types` lists. */
function windows(fields: ConfigFields, layers: number): NonNullable<Traits["layer"]> {
  const used = fields.flag("use_sliding_window") && fields.countOrNull("sliding_window") !== null;
  const first = used ? fields.count("max_window_layers", 0) : layers;
  const kinds = layerKinds(fields, layers, { numbers: {}, kind: (index) => (index >= first ? SLIDING : FULL) });
  if (!used && kinds.some(({ type }) => type === SLIDING)) {
    fields.refuse("use_sliding_window", "sets no window, but layer_types lists sliding_attention");
  }
  return (index) => kinds[index] ?? {};
}
