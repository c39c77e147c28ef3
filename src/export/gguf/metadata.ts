// Metadata of a decoder as llama.cpp reads it, and the tensors that scale its rotation.
import type { DecoderSpec, RopeSpec } from "../../engine/model/index.js";
import type { LlamaCpp } from "../../families/index.js";
import { bool, f32, type Metadata, type MetadataValue, text, u32 } from "./gguf-file.js";

/** A small tensor that is computed from the configuration. */
export interface ComputedTensor {
  readonly name: string;
  readonly values: Float32Array;
}

const EPSILONS = [
  ["rms", "attention.layer_norm_rms_epsilon"],
  ["layer", "attention.layer_norm_epsilon"],
] as const;

type Keys = readonly (readonly [string, MetadataValue])[];

/** Keys of a decoder, each after the architecture's name. */
export function decoderMetadata(spec: DecoderSpec, architecture: LlamaCpp): Metadata {
  const { hidden, heads, contextLength, vocabularySize, layers, norm } = spec;
  const [rope, local] = spec.ropes;
  const { headDim } = layers.find(({ window, weights }) => weights.q && window === null) ?? spec;
  const keys: Keys = [
    ["vocab_size", u32(vocabularySize)],
    ["context_length", u32(contextLength)],
    ["embedding_length", u32(hidden)],
    ["block_count", u32(layers.length)],
    ["feed_forward_length", byLayer(feedForwards(spec, architecture))],
    ["attention.head_count", u32(heads)],
    ["attention.head_count_kv", byLayer(keyHeads(spec))],
    ["attention.key_length", u32(headDim)],
    ["attention.value_length", u32(headDim)],
    ...EPSILONS.filter(([kind]) => kind === norm.kind || architecture.bothEpsilons).map(
      ([, key]) => [key, f32(norm.eps)] as const,
    ),
    ...(rope ? rotationKeys(rope, architecture) : ([["rope.scaling.finetuned", bool(false)]] as const)),
    ...latentKeys(spec),
    ...recurrenceKeys(spec),
    ...expertKeys(spec, architecture),
    ...(local ? ([["rope.freq_base_swa", f32(local.theta)]] as const) : []),
    ...windowKeys(spec, architecture, headDim),
    ...scoreKeys(spec, architecture),
  ];
  return new Map(keys.map(([key, value]) => [`${architecture.name}.${key}`, value]));
}

/** Widths of feed-forward parts, or of experts where there is no other; 0 in layers without. */
function feedForwards({ layers, feedForward, routing }: DecoderSpec, { experts: page }: LlamaCpp): number[] {
  const dense = layers.find(({ experts, weights }) => !experts && weights.up)?.weights.up;
  const isMixed = routing && page?.shared !== "dense";
  if (isMixed && layers.every(({ experts, weights }) => experts || weights.up))
    return [dense?.weight.shape[0] ?? feedForward];
  return layers.map(({ experts, weights: { up } }) =>
    isMixed && experts ? routing.width : (up?.weight.shape[0] ?? 0),
  );
}

/** 0 in layers without attention; of linear attention, llama.cpp asks for other keys, and of a latent for one head. */
function keyHeads({ layers, kvHeads, recurrence }: DecoderSpec): number[] {
  if (layers.some(({ weights }) => weights.kv)) return [1];
  if (recurrence?.kind === "delta") return [kvHeads];
  return layers.map((layer) => (layer.weights.q ? layer.kvHeads : 0));
}

function latentKeys({ layers: [first], ropes: [rope], attention, headDim }: DecoderSpec): Keys {
  const { kvDown, kvDownNorm, qDown } = first?.weights ?? {};
  if (!first || !kvDown || !rope) return [];
  const [rank, all] = [kvDownNorm?.weight.shape[0] ?? 0, kvDown.weight.shape[0] ?? 0];
  const { scaling, attentionFactor } = rope;
  const stretched = Math.sqrt(attention.scale * Math.sqrt(headDim)) / attentionFactor;
  return [
    ...(qDown ? ([["attention.q_lora_rank", u32(qDown.weight.shape[0] ?? 0)]] as const) : []),
    ["attention.kv_lora_rank", u32(rank)],
    ["attention.key_length", u32(all)],
    ["attention.value_length", u32(rank)],
    ["attention.key_length_mla", u32(headDim)],
    ["attention.value_length_mla", u32(first.valueDim)],
    // What scores grow by with the factor; llama.cpp then no longer computes the factor of cosine and sine.
    ...(scaling?.type === "yarn" && Math.abs(stretched - 1) > 1e-6
      ? ([
          ["rope.scaling.yarn_log_multiplier", f32((stretched - 1) / Math.log(scaling.factor))],
          ["rope.scaling.attn_factor", f32(attentionFactor)],
        ] as const)
      : []),
  ];
}

function recurrenceKeys({ recurrence, layers }: DecoderSpec): Keys {
  if (!recurrence) return [];
  const { kind, kernel, state } = recurrence;
  if (!state) return [["shortconv.l_cache", u32(kernel)]];
  const isFull = layers.map(({ weights }) => weights.q !== undefined);
  const every = isFull.indexOf(true) + 1;
  const isRegular = every > 0 && isFull.every((full, layer) => full === ((layer + 1) % every === 0));
  const value = isFull.map((full) => (full ? 0 : 1));
  const places: Keys = [
    ...(isRegular ? [["full_attention_interval", u32(every)] as const] : []),
    ["attention.recurrent_layers", { type: "array", of: "bool", value }],
  ];
  return [
    ["ssm.conv_kernel", u32(kernel)],
    ["ssm.state_size", u32(state.keyWidth)],
    ["ssm.group_count", u32(state.keyHeads)],
    ["ssm.time_step_rank", u32(state.heads)],
    ["ssm.inner_size", u32(state.heads * state.valueWidth)],
    ...(kind === "delta" ? places : []),
  ];
}

function expertKeys({ routing, layers }: DecoderSpec, { experts }: LlamaCpp): Keys {
  if (!routing || !experts) return [];
  const { groups, width } = routing;
  const first = layers.findIndex((layer) => layer.experts);
  const narrow = layers[first]?.experts?.narrow;
  const shared = layers[first]?.weights.up?.weight.shape[0] ?? 0;
  const keys: (readonly [string, MetadataValue])[] = [
    ["expert_count", u32(routing.experts)],
    ["expert_used_count", u32(routing.chosen)],
    ["expert_feed_forward_length", u32(width)],
  ];
  if (experts.dense) keys.push(["leading_dense_block_count", u32(first)]);
  if (experts.shared === "count") keys.push(["expert_shared_count", u32(shared / width)]);
  if (experts.shared === "width") keys.push(["expert_shared_feed_forward_length", u32(shared)]);
  if (experts.scores === "sigmoid") {
    keys.push(["expert_gating_func", u32(SIGMOID)]);
    keys.push(["expert_weights_norm", bool(routing.normaliser !== null)]);
    keys.push(["expert_weights_scale", f32(routing.scale)]);
  }
  if (narrow) keys.push(["moe_latent_size", u32(narrow.weight.shape[0] ?? 0)]);
  if (groups) keys.push(["expert_group_count", u32(groups.count)], ["expert_group_used_count", u32(groups.chosen)]);
  return keys;
}

/** LLAMA_EXPERT_GATING_FUNC_TYPE_SIGMOID */
const SIGMOID = 2;

function windowKeys({ layers, layerInputs, ropes, contextLength }: DecoderSpec, page: LlamaCpp, headDim: number): Keys {
  const { localHeads, windows } = page;
  const windowed = layers.find((layer) => layer.window !== null);
  // llama.cpp reads it in models without windows, too, where layers of both kinds have sizes of their own.
  const window = windowed?.window ?? (localHeads ? contextLength : null);
  const keys: (readonly [string, MetadataValue])[] = [];
  if (localHeads) {
    const width = u32(windowed?.headDim ?? headDim);
    const shared = layers.filter(({ keysOf }) => keysOf !== undefined).length;
    keys.push(["attention.key_length_swa", width], ["attention.value_length_swa", width]);
    keys.push(["rope.dimension_count_swa", u32((ropes[1] ?? ropes[0])?.dimensions ?? 0)]);
    keys.push(["attention.shared_kv_layers", u32(shared)]);
    keys.push(["embedding_length_per_layer_input", u32(layerInputs?.width ?? 0)]);
  }
  if (windows && window !== null) {
    const value = layers.map((layer) => (layer.window === null ? 0 : 1));
    keys.push(["attention.sliding_window", u32(window)]);
    keys.push(["attention.sliding_window_pattern", { type: "array", of: "bool", value }]);
  }
  return keys;
}

function scoreKeys(spec: DecoderSpec, { scales = [], capsLogits }: LlamaCpp): Keys {
  const { attention, logitSoftcap } = spec;
  const keys: (readonly [string, MetadataValue])[] = [];
  if (attention.growth) keys.push(["attention.temperature_scale", f32(attention.growth.factor)]);
  if (attention.softcap !== null) keys.push(["attn_logit_softcapping", f32(attention.softcap)]);
  if (logitSoftcap !== null || capsLogits) keys.push(["final_logit_softcapping", f32(logitSoftcap ?? 0)]);
  if (scales.includes("attention")) keys.push(["attention.scale", f32(attention.scale)]);
  if (scales.includes("embedding")) keys.push(["embedding_scale", f32(spec.embeddingScale)]);
  if (scales.includes("residual")) keys.push(["residual_scale", f32(spec.residualScale)]);
  if (scales.includes("logit")) {
    // Granite's divides.
    const divides = scales.includes("residual");
    keys.push(["logit_scale", f32(divides ? 1 / spec.logitScale : spec.logitScale)]);
  }
  return keys;
}

/** One number where it is the same in all layers. */
function byLayer(value: readonly number[]): MetadataValue {
  const [first = 0] = value;
  return value.every((one) => one === first) ? u32(first) : { type: "array", of: "i32", value };
}

function rotationKeys(rope: RopeSpec, architecture: LlamaCpp): Keys {
  const { dimensions, theta, sections = architecture.sections } = rope;
  return [
    ["rope.dimension_count", u32(dimensions)],
    ["rope.freq_base", f32(theta)],
    ...(architecture.sections && sections
      ? ([["rope.dimension_sections", { type: "array", of: "i32", value: [...sections, 0] }]] as const)
      : []),
    ...scalingKeys(rope, architecture),
  ];
}

function scalingKeys(rope: RopeSpec, architecture: LlamaCpp): Keys {
  const { scaling, long, attentionFactor } = rope;
  if (scaling === null || architecture.ropeDivisors?.includes("always")) return [];
  if (scaling.type === "linear") {
    return [
      ["rope.scaling.type", text("linear")],
      ["rope.scaling.factor", f32(scaling.factor)],
    ];
  }
  if (hasDivisors(rope, architecture)) {
    const keys: Keys = [
      ["rope.scaling.type", text("longrope")],
      ["rope.scaling.original_context_length", u32(long?.above ?? 0)],
    ];
    return [...(long ? keys : []), ...factorKeys(attentionFactor)];
  }
  if (scaling.type !== "yarn") return [];
  const { factor, original } = scaling;
  // llama.cpp computes this factor, and multiplies it by the key's.
  const computed = factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1;
  return [
    ["rope.scaling.type", text("yarn")],
    ["rope.scaling.factor", f32(factor)],
    ["rope.scaling.original_context_length", u32(original)],
    ...factorKeys(attentionFactor / computed),
  ];
}

/** A factor of cosine and sine; 1 where the key is missing. */
const factorKeys = (factor: number): Keys =>
  Math.abs(factor - 1) < 1e-6 ? [] : [["rope.scaling.attn_factor", f32(factor)]];

/** Whether the frequencies are given by divisors, and not computed by llama.cpp. */
function hasDivisors({ scaling, long }: RopeSpec, { ropeDivisors = [] }: LlamaCpp): boolean {
  if (ropeDivisors.includes("always")) return true;
  return scaling !== null && scaling.type !== "linear" && ropeDivisors.includes(long ? "two" : "one");
}

/** Divisors of the frequencies, where llama.cpp does not compute the scaling itself. */
export function ropeTensors({ ropes: [rope] }: DecoderSpec, architecture: LlamaCpp): ComputedTensor[] {
  if (!rope || !hasDivisors(rope, architecture)) return [];
  const { theta, dimensions, frequencies, long } = rope;
  const divisors = (scaled: Float64Array) =>
    // Where nothing turns, the divisor is the converter's.
    Float32Array.from(scaled, (frequency, i) =>
      frequency === 0 ? 1e30 : theta ** ((-2 * i) / dimensions) / frequency,
    );
  if (!long) return [{ name: "rope_freqs.weight", values: divisors(frequencies) }];
  return [
    { name: "rope_factors_long.weight", values: divisors(long.frequencies) },
    { name: "rope_factors_short.weight", values: divisors(frequencies) },
  ];
}
