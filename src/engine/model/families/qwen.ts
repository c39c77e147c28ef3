// Qwen 2 and 2.5, with biases on queries, keys and values; Qwen 3, with norms of queries and keys instead.
import type { ConfigFields } from "./config-fields.js";
import type { Family, Traits } from "./family.js";
import { attentionBiases, layerKinds, rmsNorm } from "./traits.js";

const DEFAULTS = {
  vocab_size: 151_936,
  intermediate_size: 22_016,
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  use_sliding_window: false,
  sliding_window: 4096,
  max_window_layers: 28,
};

export const qwen2: Family = {
  name: "Qwen 2",
  modelTypes: ["qwen2"],
  reference: "Yang et al. 2024, arXiv 2407.10671; Qwen 2.5, arXiv 2412.15115; transformers Qwen2ForCausalLM",
  defaults: DEFAULTS,
  traits: (fields, { layers }) => ({ biases: { qkv: true }, layer: windows(fields, layers) }),
};

export const qwen3: Family = {
  name: "Qwen 3",
  modelTypes: ["qwen3"],
  reference: "Yang et al. 2025, arXiv 2505.09388; transformers Qwen3ForCausalLM",
  defaults: { ...DEFAULTS, head_dim: 128 },
  traits: (fields, { layers }) => ({
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...rmsNorm(fields), over: "head" } },
    layer: windows(fields, layers),
  }),
};

/** With `use_sliding_window`, windows in the layers from `max_window_layers` on, or in those that `layer_types` lists. */
function windows(fields: ConfigFields, layers: number): NonNullable<Traits["layer"]> {
  const used = fields.flag("use_sliding_window") && fields.countOrNull("sliding_window") !== null;
  const first = used ? fields.count("max_window_layers", 0) : layers;
  const kinds = layerKinds(fields, layers, (index) => (index >= first ? "sliding_attention" : "full_attention"));
  if (!used && kinds.some(({ type }) => type === "sliding_attention")) {
    fields.refuse("use_sliding_window", "sets no window, but layer_types lists sliding_attention");
  }
  return (index) => kinds[index] ?? {};
}
