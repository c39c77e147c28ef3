// Gemma 4: layers of two head sizes, inputs of its own for each layer, later layers without keys, values that are normalised.
import { brief, type ConfigFields } from "./page/config-fields.js";
import { readRouting } from "./page/experts.js";
import type { ExpertTraits, Family, LayerTraits, Sizes } from "./page/family.js";
import { everyNth, FULL, type KindRule, SLIDING } from "./page/layer-kinds.js";
import { type GgufMetadata, readWindows } from "./page/llama-cpp.js";
import { type LayerType, readRopesByLayerType } from "./page/rope.js";
import type { LayerInputsSpec } from "./page/spec.js";
import { ATTENTION, GATED_MLP, inModule, SANDWICH_NORMS } from "./page/tensor-names.js";
import {
  attentionBiases,
  gemmaEmbeddingScale,
  layerKinds,
  readActivation,
  rmsNorm,
  SANDWICHED,
} from "./page/traits.js";

const KINDS: KindRule = {
  ...everyNth(6),
  kind: (layer, _, layers) => ((layer + 1) % 6 && layer < layers - 1 ? SLIDING : FULL),
};

const PER_LAYER = "per_layer_config";

export const gemma4: readonly Family[] = [
  {
    name: "Gemma 4",
    modelTypes: ["gemma4_text", "gemma4"],
    reference: "Google DeepMind 2026; transformers 5.24, Gemma4ForCausalLM",
    tensors: {
      parts: {
        ...ATTENTION,
        ...GATED_MLP,
        ...SANDWICH_NORMS,
        pre_feedforward_layernorm_2: "pre_mlp_norm",
        post_feedforward_layernorm_1: "post_mlp_norm",
        post_feedforward_layernorm_2: "post_mlp_norm",
        ...inModule("router", "router", ["proj", "scale", "per_expert_scale"]),
        "experts.gate_up_proj": "gate_up_proj",
        "experts.down_proj": "down_proj",
        // After both halves, of neither.
        per_layer_input_gate: "other",
        per_layer_projection: "other",
        post_per_layer_input_norm: "other",
        layer_scalar: "other",
      },
    },
    kinds: [KINDS],
    lastKind: FULL,
    llamaCpp: {
      name: "gemma4",
      tokenizer: "gemma4",
      activation: "gelu_tanh",
      embeddingScale: ({ hidden }) => gemmaEmbeddingScale(hidden),
      attentionScale: () => 1,
      capsLogits: true,
      windows: true,
      localBase: true,
      localHeads: true,
      ropeDivisors: ["always"],
      fused: true,
      experts: { optional: true, shared: "dense" },
      read: { className: "Gemma4ForCausalLM", fields: readFields },
    },
    defaults: {
      vocab_size: 262_144,
      hidden_size: 2304,
      intermediate_size: 9216,
      num_attention_heads: 8,
      num_key_value_heads: 4,
      head_dim: 256,
      hidden_activation: "gelu_pytorch_tanh",
      max_position_embeddings: 131_072,
      tie_word_embeddings: true,
      sliding_window: 512,
      vocab_size_per_layer_input: 262_144,
      hidden_size_per_layer_input: 256,
      num_kv_shared_layers: 0,
      rope_parameters: {
        sliding_attention: { rope_type: "default", rope_theta: 10_000 },
        full_attention: { rope_type: "proportional", partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
      },
    },
    traits: (fields, sizes) => {
      // "vision" is for tokens of images.
      const causal = fields.get("use_bidirectional_attention") ?? "vision";
      if (causal !== "vision") {
        fields.refuse("use_bidirectional_attention", `is ${brief(causal)}; only causal decoders are supported`);
      }
      const kinds = layerKinds(fields, sizes.layers, KINDS);
      const last = kinds.at(-1);
      if (last) kinds[kinds.length - 1] = { type: FULL, window: null };
      const types = kinds.map(({ type }) => type);
      const heads = types.map((type, index) => layerHeads(fields, sizes, type, index));
      const headDims = { full_attention: sizes.headDim, sliding_attention: sizes.headDim };
      for (const [index, type] of types.entries()) headDims[type] = heads[index]?.headDim ?? sizes.headDim;
      const other = heads.findIndex(({ headDim }, index) => headDim !== headDims[types[index] as LayerType]);
      if (other >= 0)
        fields.refuse(PER_LAYER, `gives layer ${other} another head_dim than other ${types[other]} layers`);
      const thetas = { full_attention: 1_000_000, sliding_attention: 10_000 };
      const ropes = readRopesByLayerType({ fields, ...sizes, thetas, headDims });
      const keys = keysOf(fields, types);
      const wide = fields.flag("use_double_wide_mlp") ? 2 : 1;
      const isOne = fields.flag("attention_k_eq_v");
      const inputs = readInputs(fields, sizes);
      return {
        norms: SANDWICHED,
        biases: attentionBiases(fields),
        embeddingScale: gemmaEmbeddingScale(sizes.hidden),
        activation: readActivation(fields, "hidden_activation"),
        attention: { scale: 1, qkNorm: { ...rmsNorm(fields), over: "head" }, valueNorm: rmsNorm(fields) },
        logitSoftcap: fields.positiveOrNull("final_logit_softcapping"),
        ropes: [ropes.full_attention, ropes.sliding_attention],
        layer: (index) => ({
          ...heads[index],
          window: kinds[index]?.window,
          rope: types[index] === SLIDING ? 1 : 0,
          keysOf: keys[index],
          feedForward: keys[index] === undefined ? undefined : wide * sizes.feedForward,
          valuesAreKeys: isOne && types[index] === FULL,
        }),
        ...(inputs ? { layerInputs: inputs } : {}),
        ...(fields.flag("enable_moe_block") ? { experts: expertsBeside(fields, sizes) } : {}),
        layerWeights: (prefix) => {
          const weight = (name: string, ...shape: number[]) => ({ weight: { name: `${prefix}${name}`, shape } });
          const { weight: scale } = weight("layer_scalar", 1);
          return {
            ...(inputs
              ? {
                  inputGate: weight("per_layer_input_gate.weight", inputs.width, sizes.hidden),
                  inputUp: weight("per_layer_projection.weight", sizes.hidden, inputs.width),
                  afterInput: weight("post_per_layer_input_norm.weight", sizes.hidden),
                }
              : {}),
            scale: { weight: { ...scale, isConstant: true } },
          };
        },
      };
    },
  },
  { name: "Gemma 4 Unified", modelTypes: ["gemma4_unified", "gemma4_unified_text"], kinds: [KINDS], lastKind: FULL },
];

/** Configuration of a file of llama.cpp, as the published files have it. */
function readFields(read: GgufMetadata) {
  const { number, list, values, has, vocabulary } = read;
  const { layer_types, sliding_window } = readWindows(read, 6);
  const isLocal = (_: unknown, layer: number) => layer_types[layer] === SLIDING;
  const widths = list("feed_forward_length") ?? [number("feed_forward_length")];
  const kvHeads = list("attention.head_count_kv") ?? layer_types.map(() => number("attention.head_count_kv"));
  const global = layer_types.indexOf(FULL);
  const [divisor = 1, ...others] = values("rope_freqs.weight") ?? [];
  const turning = others.filter((other) => other === divisor).length + 1;
  const [local = 0, rotated = local] = [number("attention.key_length_swa"), number("rope.dimension_count_swa")];
  return {
    layer_types,
    sliding_window,
    hidden_activation: "gelu_pytorch_tanh",
    intermediate_size: widths[0],
    use_double_wide_mlp: widths.at(-1) !== widths[0],
    head_dim: local,
    global_head_dim: number("attention.key_length"),
    num_key_value_heads: kvHeads.find(isLocal) ?? kvHeads[0],
    num_global_key_value_heads: kvHeads[global],
    attention_k_eq_v: !has(`blk.${global}.attn_v.weight`),
    num_kv_shared_layers: number("attention.shared_kv_layers") ?? 0,
    hidden_size_per_layer_input: number("embedding_length_per_layer_input") ?? 0,
    vocab_size_per_layer_input: vocabulary,
    final_logit_softcapping: number("final_logit_softcapping") || null,
    rope_scaling: null,
    rope_parameters: {
      sliding_attention: {
        rope_type: "default",
        rope_theta: number("rope.freq_base_swa") ?? 10_000,
        ...(rotated === local ? {} : { partial_rotary_factor: rotated / local }),
      },
      full_attention: {
        rope_type: "proportional",
        rope_theta: number("rope.freq_base"),
        partial_rotary_factor: turning / (others.length + 1),
        ...(divisor === 1 ? {} : { factor: divisor }),
      },
    },
    ...(has("blk.0.ffn_gate_inp.weight")
      ? {
          enable_moe_block: true,
          num_experts: number("expert_count"),
          top_k_experts: number("expert_used_count"),
          moe_intermediate_size: number("expert_feed_forward_length"),
        }
      : {}),
  };
}

/** Experts beside the dense part (26B-A4B): each reads the stream by a norm of its own, and so does the router. */
function expertsBeside(fields: ConfigFields, { hidden, feedForward }: Sizes): ExpertTraits {
  const routing = readRouting(
    fields,
    { experts: "num_experts", chosen: "top_k_experts" },
    { scores: "softmax", normaliser: 0, balance: null },
  );
  const vector = (name: string, length = hidden) => ({ weight: { name, shape: [length] } });
  return {
    routing,
    router: "router.proj",
    routerFactor: hidden ** -0.5,
    weights: {
      scale: vector("router.per_expert_scale", routing.experts),
      beforeRouter: vector("router.scale"),
      beforeExperts: vector("pre_feedforward_layernorm_2.weight"),
      afterExperts: vector("post_feedforward_layernorm_2.weight"),
      afterShared: vector("post_feedforward_layernorm_1.weight"),
    },
    names: { layout: "fused", gateUp: "experts.gate_up_proj", down: "experts.down_proj" },
    shared: { names: { gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj" }, width: feedForward },
  };
}

/** As transformers 5.24 writes them, by layer; else as the published files do, for layers without a window. */
function layerHeads(
  fields: ConfigFields,
  { heads, kvHeads, headDim }: Sizes,
  type: LayerType,
  index: number,
): Required<Pick<LayerTraits, "kvHeads" | "headDim">> {
  // transformers writes as many digits as the last layer has: "05" of 30.
  const key = Object.keys(fields.get(PER_LAYER) ?? {}).find((name) => Number(name) === index);
  const own = key === undefined ? undefined : fields.nested(PER_LAYER)?.nested(key);
  const found =
    fields.get(PER_LAYER) !== undefined || type !== FULL
      ? { kvHeads: own?.countOrNull("num_key_value_heads"), headDim: own?.countOrNull("head_dim") }
      : {
          kvHeads: fields.flag("attention_k_eq_v") ? fields.countOrNull("num_global_key_value_heads") : null,
          headDim: fields.get("global_head_dim") === undefined ? 512 : fields.count("global_head_dim"),
        };
  const size = { kvHeads: found.kvHeads ?? kvHeads, headDim: found.headDim ?? headDim };
  if (heads % size.kvHeads !== 0) {
    fields.refuse(
      "num_attention_heads",
      `is ${heads}; the ${size.kvHeads} key and value heads of layer ${index} must divide it`,
    );
  }
  return size;
}

/** The last layers attend to keys and values of the last layer of their kind before them. */
function keysOf(fields: ConfigFields, types: readonly LayerType[]): (number | undefined)[] {
  const field = "num_kv_shared_layers";
  const own = types.slice(0, Math.max(0, types.length - fields.count(field, 0)));
  const missing = types.find((type) => !own.includes(type));
  if (missing) fields.refuse(field, `leaves no ${missing} layer with keys of its own`);
  return types.map((type, index) => (index < own.length ? undefined : own.lastIndexOf(type)));
}

function readInputs(fields: ConfigFields, { hidden, layers }: Sizes): LayerInputsSpec | undefined {
  const field = "hidden_size_per_layer_input";
  const width = fields.get(field) === null ? 0 : fields.count(field, 0);
  if (width === 0) return undefined;
  const all = width * layers;
  const vocabulary = fields.count("vocab_size_per_layer_input");
  return {
    width,
    embedding: { name: "embed_tokens_per_layer.weight", shape: [vocabulary, all] },
    embeddingScale: gemmaEmbeddingScale(width),
    projection: { weight: { name: "per_layer_model_projection.weight", shape: [all, hidden] } },
    projectionScale: hidden ** -0.5,
    norm: { weight: { name: "per_layer_projection_norm.weight", shape: [width] } },
    scale: 2 ** -0.5,
  };
}
