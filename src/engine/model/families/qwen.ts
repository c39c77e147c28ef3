// Qwen 2 and 2.5, with biases on queries, keys and values; Qwen 3, with norms of queries and keys instead.
import type { ConfigFields } from "./config-fields.js";
import { type Family, PRE_NORMS, type Sizes, type Traits } from "./family.js";
import { readRope } from "./rope.js";
import { activation, layerKinds, rmsNorm } from "./traits.js";

const DEFAULTS = {
  vocab_size: 151_936,
  hidden_size: 4096,
  intermediate_size: 22_016,
  num_attention_heads: 32,
  num_key_value_heads: 32,
  hidden_act: "silu",
  max_position_embeddings: 32_768,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: false,
  use_sliding_window: false,
  sliding_window: 4096,
  max_window_layers: 28,
};

export const qwen2: Family = {
  name: "Qwen 2",
  modelTypes: ["qwen2"],
  reference: "Yang et al. 2024, arXiv 2407.10671; Qwen 2.5, arXiv 2412.15115; transformers Qwen2ForCausalLM",
  defaults: DEFAULTS,
  traits: (fields, sizes) => ({ ...common(fields, sizes), biases: { qkv: true } }),
};

export const qwen3: Family = {
  name: "Qwen 3",
  modelTypes: ["qwen3"],
  reference: "Yang et al. 2025, arXiv 2505.09388; transformers Qwen3ForCausalLM",
  defaults: { ...DEFAULTS, head_dim: 128, attention_bias: false },
  traits: (fields, sizes) => {
    const attentionBias = fields.flag("attention_bias");
    return {
      ...common(fields, sizes),
      biases: { qkv: attentionBias, o: attentionBias },
      attention: { qkNorm: { ...rmsNorm(fields), over: "head" } },
    };
  },
};

function common(fields: ConfigFields, sizes: Sizes): Traits {
  return {
    norm: rmsNorm(fields),
    norms: PRE_NORMS,
    activation: activation(fields),
    ropes: [readRope({ fields, ...sizes })],
    layer: windows(fields, sizes.layers),
  };
}

/** Windows only where `use_sliding_window` says so: then in the layers from `max_window_layers` on, or those listed. */
function windows(fields: ConfigFields, layers: number): NonNullable<Traits["layer"]> {
  const used = fields.flag("use_sliding_window") && fields.countOrNull("sliding_window") !== null;
  const first = used ? fields.count("max_window_layers", 0) : layers;
  const kinds = layerKinds(fields, layers, (index) => (index >= first ? "sliding_attention" : "full_attention"));
  if (!used && kinds.some(({ type }) => type === "sliding_attention")) {
    fields.refuse("use_sliding_window", "gives no window, but layer_types lists sliding_attention");
  }
  return (index) => ({ window: kinds[index]?.window ?? null, rope: 0 });
}
