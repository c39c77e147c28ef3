// Llama, and the families that differ from it by few traits.
import type { ConfigFields } from "./config-fields.js";
import type { Family, Traits } from "./family.js";
import { readRope } from "./rope.js";
import { attentionBiases, layerKinds, layerNorm, rmsNorm, sameWindow } from "./traits.js";

/** Llama, and models of its shape: Falcon 3, Yi, SmolLM, TinyLlama and others. */
export const llama: Family = {
  name: "Llama",
  modelTypes: ["llama"],
  reference: "Touvron et al. 2023, arXiv 2302.13971; Llama 3, arXiv 2407.21783; transformers LlamaForCausalLM",
  defaults: {},
  traits: (fields) => ({ biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") } }),
};

/** Mistral: Llama with a window of attention, the same in every layer, in its first versions. */
export const mistral: Family = {
  name: "Mistral",
  modelTypes: ["mistral"],
  reference: "Jiang et al. 2023, arXiv 2310.06825; transformers MistralForCausalLM",
  defaults: {
    intermediate_size: 14_336,
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
  },
  traits: (fields) => ({ layer: sameWindow(fields) }),
};

/** Granite 3: Llama with four scales, of embeddings, attention, residuals and logits. */
export const granite: Family = {
  name: "Granite",
  modelTypes: ["granite"],
  reference: "IBM Granite 3.0 language models, 2024; transformers GraniteForCausalLM",
  defaults: { embedding_multiplier: 1, attention_multiplier: 1, residual_multiplier: 1, logits_scaling: 1 },
  traits: (fields) => ({
    biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
    embeddingScale: fields.positive("embedding_multiplier"),
    attention: { scale: fields.positive("attention_multiplier") },
    residualScale: fields.positive("residual_multiplier"),
    logitScale: 1 / fields.positive("logits_scaling"), // the one that divides
  }),
};

/** Phi-3, Phi-3.5 and Phi-4 (also mini): Llama with fused projections, and LongRoPE for long contexts. */
export const phi3: Family = {
  name: "Phi-3",
  modelTypes: ["phi3"],
  reference: "Abdin et al. 2024, arXiv 2404.14219; transformers Phi3ForCausalLM",
  defaults: {
    vocab_size: 32_064,
    hidden_size: 3072,
    intermediate_size: 8192,
    max_position_embeddings: 4096,
    original_max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    sliding_window: null,
  },
  traits: (fields, sizes) => ({
    fused: { qkv: "self_attn.qkv_proj", gateUp: "mlp.gate_up_proj" },
    // Its first configurations call LongRoPE "su", and some of them "yarn" (transformers 5.18, configuration_phi3.py).
    ropes: [readRope({ fields, ...sizes, partial: true, aliases: { su: "longrope", yarn: "longrope" } })],
    layer: sameWindow(fields),
  }),
};

/** OLMo 2: norms only after attention and feed-forward, and of queries and keys over all heads together. */
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

/** StarCoder 2: norms and projections with biases, and a feed-forward part without a gate. */
export const starcoder2: Family = {
  name: "StarCoder 2",
  modelTypes: ["starcoder2"],
  reference: "Lozhkov et al. 2024, arXiv 2402.19173; transformers Starcoder2ForCausalLM",
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
};

const QWEN_DEFAULTS = {
  vocab_size: 151_936,
  intermediate_size: 22_016,
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  use_sliding_window: false,
  sliding_window: 4096,
  max_window_layers: 28,
};

/** With biases on queries, keys and values. */
export const qwen2: Family = {
  name: "Qwen 2",
  modelTypes: ["qwen2"],
  reference: "Yang et al. 2024, arXiv 2407.10671; Qwen 2.5, arXiv 2412.15115; transformers Qwen2ForCausalLM",
  defaults: QWEN_DEFAULTS,
  traits: (fields, { layers }) => ({ biases: { qkv: true }, layer: qwenWindows(fields, layers) }),
};

/** With norms of queries and keys instead. */
export const qwen3: Family = {
  name: "Qwen 3",
  modelTypes: ["qwen3"],
  reference: "Yang et al. 2025, arXiv 2505.09388; transformers Qwen3ForCausalLM",
  defaults: { ...QWEN_DEFAULTS, head_dim: 128 },
  traits: (fields, { layers }) => ({
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...rmsNorm(fields), over: "head" } },
    layer: qwenWindows(fields, layers),
  }),
};

/** With `use_sliding_window`, windows in the layers from `max_window_layers` on, or in those that `layer_types` lists. */
function qwenWindows(fields: ConfigFields, layers: number): NonNullable<Traits["layer"]> {
  const used = fields.flag("use_sliding_window") && fields.countOrNull("sliding_window") !== null;
  const first = used ? fields.count("max_window_layers", 0) : layers;
  const kinds = layerKinds(fields, layers, (index) => (index >= first ? "sliding_attention" : "full_attention"));
  if (!used && kinds.some(({ type }) => type === "sliding_attention")) {
    fields.refuse("use_sliding_window", "sets no window, but layer_types lists sliding_attention");
  }
  return (index) => kinds[index] ?? {};
}
