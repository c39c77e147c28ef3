// Qwen 2 and 3: dense, with experts, with a tower of images, with linear attention.
import type { ConfigFields } from "./page/config-fields.js";
import { EXPERT_MODULES, readRouting } from "./page/experts.js";
import type { ExpertTraits, Family, Sizes, Traits } from "./page/family.js";
import { everyNth, FULL, LINEAR, SLIDING, SPARSE } from "./page/layer-kinds.js";
import { type GgufMetadata, type LlamaCpp, readBiases, readExperts, readPart } from "./page/llama-cpp.js";
import { otherHeads } from "./page/llama-differences.js";
import { readStateSpace } from "./page/mamba.js";
import { readRope } from "./page/rope.js";
import type { LinearWeights, RecurrenceWeights, RoutingSpec } from "./page/spec.js";
import { EXPERTS, inModule, LLAMA_PARTS } from "./page/tensor-names.js";
import { attentionBiases, centredRmsNorm, layerKinds, rmsNorm, sameWindow } from "./page/traits.js";

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

const DELTA_NAMES = { beforeFeedForward: "post_attention_norm" };

const DELTA: LlamaCpp = {
  name: "qwen3next",
  recurrence: "delta",
  names: DELTA_NAMES,
  experts: { shared: "width" },
};

const WITH_EXPERTS = { parts: { ...LLAMA_PARTS, ...EXPERTS } }; // dense layers may be between the sparse ones

const DELTA_TENSORS = {
  parts: {
    ...WITH_EXPERTS.parts,
    ...inModule("linear_attn", "mixer", [
      ...["in_proj_qkvz", "in_proj_ba"], // Qwen3-Next
      ...["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"], // Qwen 3.5
      ...["conv1d", "out_proj", "norm", "A_log", "dt_bias"],
    ]),
  },
};

const DELTA_KINDS = everyNth(4, { others: LINEAR, field: "full_attention_interval" });

const DELTA_DEFAULTS = {
  max_position_embeddings: 32_768,
  head_dim: 256,
  linear_conv_kernel_dim: 4,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  linear_num_key_heads: 16,
  linear_num_value_heads: 32,
};

const SHARED_DEFAULTS = {
  moe_intermediate_size: 512,
  shared_expert_intermediate_size: 512,
  router_aux_loss_coef: 0.001,
};

export const qwen: readonly Family[] = [
  {
    name: "Qwen 2", // biases of queries, keys and values
    modelTypes: ["qwen2"],
    reference: "Yang et al. 2024, arXiv 2407.10671; Qwen 2.5, arXiv 2412.15115; transformers Qwen2ForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: DEFAULTS,
    traits: (fields, { layers }) => ({ biases: { qkv: true }, layer: windows(fields, layers) }),
    llamaCpp: {
      name: "qwen2",
      biases: ["q", "k", "v"],
      differs: [otherHeads],
      read: { className: "Qwen2ForCausalLM" },
    },
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
  {
    name: "Qwen 2 VL",
    modelTypes: ["qwen2_5_vl_text", "qwen2_vl_text", "qwen2_5_vl", "qwen2_vl"],
    tensors: { parts: LLAMA_PARTS },
  },
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
    llamaCpp: {
      ...QWEN_3,
      name: "qwen3vl",
      sections: [24, 20, 20],
      deepstack: true,
      // What its text part is.
      read: { className: "Qwen3ForCausalLM", fields: (read) => ({ ...readBiases(read), model_type: "qwen3" }) },
    },
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
  {
    name: "Qwen 3 MoE", // windows in all layers, where there are any
    modelTypes: ["qwen3_moe"],
    reference: "Yang et al. 2025, arXiv 2505.09388; transformers Qwen3MoeForCausalLM",
    tensors: WITH_EXPERTS,
    defaults: {
      vocab_size: 151_936,
      hidden_size: 2048,
      intermediate_size: 6144,
      num_key_value_heads: 4,
      max_position_embeddings: 32_768,
      use_sliding_window: false,
      sliding_window: 4096,
      moe_intermediate_size: 768,
      num_experts_per_tok: 8,
      num_local_experts: 128,
      router_aux_loss_coef: 0.001,
    },
    traits: (fields, { layers }) => ({
      ...heads(fields),
      experts: qwenExperts(fields, layers),
      ...(fields.flag("use_sliding_window") ? { layer: sameWindow(fields) } : {}),
    }),
    llamaCpp: {
      name: "qwen3moe",
      experts: {},
      read: {
        className: "Qwen3MoeForCausalLM",
        fields: (read) => readExperts(read, "num_experts"),
      },
    },
  },
  {
    name: "Qwen 3 VL MoE", // experts in one tensor are published [experts, in, out]
    modelTypes: ["qwen3_vl_moe_text"],
    tensors: { ...WITH_EXPERTS, transposed: ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"] },
  },
  {
    name: "Qwen3-Next", // the gated delta rule in most layers, and gates of heads in the others
    modelTypes: ["qwen3_next"],
    reference: "Qwen team 2025, qwen.ai; transformers Qwen3NextForCausalLM",
    tensors: DELTA_TENSORS,
    kinds: [DELTA_KINDS],
    defaults: {
      ...DELTA_DEFAULTS,
      vocab_size: 151_936,
      hidden_size: 2048,
      intermediate_size: 5632,
      num_attention_heads: 16,
      num_key_value_heads: 2,
      ...SHARED_DEFAULTS,
      num_experts_per_tok: 10,
      num_experts: 512,
      norm_topk_prob: true,
    },
    traits: (fields, sizes) => ({
      ...deltaTraits(fields, sizes, (linear, { keys, values, heads }) => ({
        mix: linear("in_proj_qkvz", 2 * keys + 2 * values),
        rate: linear("in_proj_ba", 2 * heads),
      })),
      ...(fields.get("num_experts") === 0 ? {} : { experts: besideShared(fields, sizes) }),
    }),
    llamaCpp: {
      ...DELTA,
      read: {
        className: "Qwen3NextForCausalLM",
        fields: (read) => ({ ...readDelta(read), ...readShared(read), partial_rotary_factor: readPart(read) }),
      },
    },
  },
  {
    name: "Qwen 3.5", // the same, with more projections; in text alone, all axes of positions are the same
    modelTypes: ["qwen3_5_text", "qwen3_5"],
    reference: "Qwen team 2026, qwen.ai; transformers Qwen3_5ForCausalLM",
    tensors: DELTA_TENSORS,
    kinds: [DELTA_KINDS],
    defaults: {
      ...DELTA_DEFAULTS,
      vocab_size: 248_320,
      intermediate_size: 12_288,
      num_attention_heads: 16,
      num_key_value_heads: 4,
    },
    traits: apartTraits,
    llamaCpp: {
      name: "qwen35",
      recurrence: "delta",
      tiled: true,
      sections: [11, 11, 10],
      names: DELTA_NAMES,
      read: { className: "Qwen3_5ForCausalLM", fields: (read) => ({ ...readDelta(read), ...readAxes(read) }) },
    },
  },
  {
    name: "Qwen 3.5 MoE",
    modelTypes: ["qwen3_5_moe_text", "qwen3_5_moe"],
    reference: "Qwen team 2026, qwen.ai; transformers Qwen3_5MoeForCausalLM",
    tensors: DELTA_TENSORS,
    kinds: [DELTA_KINDS],
    defaults: {
      ...DELTA_DEFAULTS,
      vocab_size: 248_320,
      hidden_size: 2048,
      num_attention_heads: 16,
      num_key_value_heads: 2,
      ...SHARED_DEFAULTS,
      num_experts_per_tok: 8,
      num_experts: 256,
    },
    traits: (fields, sizes) => ({
      ...apartTraits(fields, sizes),
      experts: besideShared(fields, sizes, { normaliser: 0 }),
    }),
    llamaCpp: {
      ...DELTA,
      name: "qwen35moe",
      tiled: true,
      sections: [11, 11, 10],
      read: {
        className: "Qwen3_5MoeForCausalLM",
        fields: (read) => ({ ...readDelta(read), ...readAxes(read), ...readShared(read) }),
      },
    },
  },
];

function readDelta(read: GgufMetadata) {
  const { heads, headWidth, groups, state, kernel } = readStateSpace(read);
  return {
    layer_types: read.layersWith("attn_q.weight").map((attends) => (attends ? FULL : LINEAR)),
    linear_conv_kernel_dim: kernel,
    linear_num_key_heads: groups,
    linear_num_value_heads: heads,
    linear_key_head_dim: state,
    linear_value_head_dim: headWidth,
  };
}

const readShared = (read: GgufMetadata) => ({
  ...readExperts(read, "num_experts"),
  shared_expert_intermediate_size: read.number("expert_shared_feed_forward_length"),
});

function readAxes(read: GgufMetadata) {
  const sections = read.list("rope.dimension_sections")?.slice(0, 3);
  return {
    rope_scaling: null,
    rope_parameters: {
      rope_type: "default",
      rope_theta: read.number("rope.freq_base"),
      partial_rotary_factor: readPart(read),
      ...(sections ? { mrope_section: sections, mrope_interleaved: true } : {}),
    },
  };
}

/** Qwen 3.5's projections of the inputs of the delta rule. */
function apartTraits(fields: ConfigFields, sizes: Sizes): Traits {
  return deltaTraits(fields, sizes, (linear, { keys, values, heads }) => ({
    mix: linear("in_proj_qkv", 2 * keys + values),
    outputGate: linear("in_proj_z", values),
    rate: linear("in_proj_b", heads),
    decay: linear("in_proj_a", heads),
  }));
}

interface DeltaSizes {
  /** Width of all key heads, and of all heads of values. */
  readonly keys: number;
  readonly values: number;
  readonly heads: number;
}

/** @param projections of the inputs of the delta rule, which families store in different tensors */
function deltaTraits(
  fields: ConfigFields,
  sizes: Sizes,
  projections: (linear: (name: string, rows: number) => LinearWeights, of: DeltaSizes) => RecurrenceWeights,
): Traits {
  const { hidden, layers } = sizes;
  const [keyHeads, heads] = [fields.count("linear_num_key_heads"), fields.count("linear_num_value_heads")];
  const [keyWidth, valueWidth] = [fields.count("linear_key_head_dim"), fields.count("linear_value_head_dim")];
  if (heads % keyHeads !== 0) {
    fields.refuse("linear_num_key_heads", `is ${keyHeads}; it must divide linear_num_value_heads, ${heads}`);
  }
  const kernel = fields.count("linear_conv_kernel_dim", 2);
  const [keys, values] = [keyHeads * keyWidth, heads * valueWidth];
  const channels = 2 * keys + values;
  const stored = (name: string, ...shape: number[]) => ({ weight: { name: `linear_attn.${name}`, shape } });
  const linear = (name: string, rows: number) => stored(`${name}.weight`, rows, hidden);
  const every = fields.countOrNull("full_attention_interval") ?? 4;
  const types = fields.choicesOrNull("layer_types", layers, [FULL, LINEAR]);
  const norm = centredRmsNorm(fields);
  return {
    norm,
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...norm, over: "head" }, gated: true },
    ropes: [readRope({ fields, ...sizes, partial: 0.25, aliases: { mrope: "default" } })],
    recurrence: {
      kind: "delta",
      kernel,
      channels,
      state: { heads, keyHeads, keyWidth, valueWidth },
      innerNorm: { groups: heads, beforeGate: true },
      weights: {
        ...projections(linear, { keys, values, heads }),
        convolution: stored("conv1d.weight", channels, 1, kernel),
        decayScale: stored("A_log", heads),
        decayBias: stored("dt_bias", heads),
        innerNorm: stored("norm.weight", valueWidth),
        mixed: stored("out_proj.weight", hidden, values),
      },
    },
    layer: (index) => {
      const isLinear = types ? types[index] === LINEAR : (index + 1) % every !== 0;
      return { has: [isLinear ? "recurrence" : "attention", "feedForward"] };
    },
  };
}

function heads(fields: ConfigFields): Traits {
  return { biases: attentionBiases(fields), attention: { qkNorm: { ...rmsNorm(fields), over: "head" } } };
}

/** The same, beside a part that all tokens share, with a gate. */
function besideShared(fields: ConfigFields, { layers }: Sizes, traits: Partial<RoutingSpec> = {}): ExpertTraits {
  const experts = qwenExperts(fields, layers);
  const part = (name: string) => `mlp.shared_expert.${name}_proj`;
  return {
    ...experts,
    routing: { ...experts.routing, ...traits },
    shared: {
      names: { gate: part("gate"), up: part("up"), down: part("down") },
      width: fields.count("shared_expert_intermediate_size"),
      gate: "mlp.shared_expert_gate",
    },
  };
}

function qwenExperts(fields: ConfigFields, layers: number): ExpertTraits {
  const step = fields.countOrNull("decoder_sparse_step") ?? 1;
  const dense = { mlp_only_layers: fields.get("mlp_only_layers") };
  return {
    routing: readRouting(
      fields,
      { experts: fields.get("num_experts") === undefined ? "num_local_experts" : "num_experts" },
      {
        scores: "softmax",
        normaliser: fields.flag("norm_topk_prob") ? 0 : null,
      },
    ),
    inLayer: (layer) => SPARSE.kind(layer, [step], layers, dense) === "sparse",
    router: "mlp.gate",
    names: EXPERT_MODULES,
  };
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
