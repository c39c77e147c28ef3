// Metadata of a decoder as llama.cpp reads it, and the tensors that scale its rotation.
import type { DecoderSpec, RopeSpec } from "../../engine/model/index.js";
import type { LlamaCpp } from "../../families/index.js";
import { f32, type Metadata, type MetadataValue, text, u32 } from "./gguf-file.js";

/** A small tensor that is computed from the configuration. */
export interface ComputedTensor {
  readonly name: string;
  readonly values: Float32Array;
}

/** Keys of a decoder, each after the architecture's name. */
export function decoderMetadata(spec: DecoderSpec, architecture: LlamaCpp): Metadata {
  const { hidden, heads, feedForward, contextLength, vocabularySize, layers, norm } = spec;
  const { attention, logitSoftcap, layerInputs, recurrence } = spec;
  const [rope] = spec.ropes as [RopeSpec];
  const { headDim } = layers.find(({ window }) => window === null) ?? spec;
  const { scales = [] } = architecture;
  const keys: [string, MetadataValue][] = [
    ["vocab_size", u32(vocabularySize)],
    ["context_length", u32(contextLength)],
    ["embedding_length", u32(hidden)],
    ["block_count", u32(layers.length)],
    ["feed_forward_length", byLayer(layers.map(({ weights: { up } }) => up?.weight.shape[0] ?? feedForward))],
    ["attention.head_count", u32(heads)],
    // 0 in layers without attention.
    ["attention.head_count_kv", byLayer(layers.map(({ kvHeads, weights }) => (weights.q ? kvHeads : 0)))],
    ["attention.key_length", u32(headDim)],
    ["attention.value_length", u32(headDim)],
    [norm.kind === "rms" ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", f32(norm.eps)],
    ["rope.dimension_count", u32(rope.dimensions)],
    ["rope.freq_base", f32(rope.theta)],
    ...scalingKeys(rope, architecture),
  ];
  if (recurrence?.kind === "convolution") keys.push(["shortconv.l_cache", u32(recurrence.kernel)]);
  const { routing } = spec;
  if (routing) {
    keys.push(["expert_count", u32(routing.experts)]);
    keys.push(["expert_used_count", u32(routing.chosen)]);
    keys.push(["expert_feed_forward_length", u32(routing.width)]);
  }
  const local = spec.ropes[1];
  if (local) keys.push(["rope.freq_base_swa", f32(local.theta)]);
  const windowed = layers.find((layer) => layer.window !== null);
  // llama.cpp reads it in models without windows, too, where layers of both kinds have sizes of their own.
  const window = windowed?.window ?? (architecture.localHeads ? contextLength : null);
  if (architecture.localHeads) {
    const width = u32(windowed?.headDim ?? headDim);
    const shared = layers.filter(({ keysOf }) => keysOf !== undefined).length;
    keys.push(["attention.key_length_swa", width], ["attention.value_length_swa", width]);
    keys.push(["rope.dimension_count_swa", u32(local?.dimensions ?? rope.dimensions)]);
    keys.push(["attention.shared_kv_layers", u32(shared)]);
    keys.push(["embedding_length_per_layer_input", u32(layerInputs?.width ?? 0)]);
  }
  if (attention.growth) keys.push(["attention.temperature_scale", f32(attention.growth.factor)]);
  if (architecture.windows && window !== null) {
    const value = layers.map((layer) => (layer.window === null ? 0 : 1));
    keys.push(["attention.sliding_window", u32(window)]);
    keys.push(["attention.sliding_window_pattern", { type: "array", of: "bool", value }]);
  }
  if (attention.softcap !== null) keys.push(["attn_logit_softcapping", f32(attention.softcap)]);
  if (logitSoftcap !== null || architecture.caps === "logits") {
    keys.push(["final_logit_softcapping", f32(logitSoftcap ?? 0)]);
  }
  if (scales.includes("attention")) keys.push(["attention.scale", f32(attention.scale)]);
  if (scales.includes("embedding")) keys.push(["embedding_scale", f32(spec.embeddingScale)]);
  if (scales.includes("residual")) keys.push(["residual_scale", f32(spec.residualScale)]);
  if (scales.includes("logit")) {
    // Granite's divides.
    const divides = scales.includes("residual");
    keys.push(["logit_scale", f32(divides ? 1 / spec.logitScale : spec.logitScale)]);
  }
  return new Map(keys.map(([key, value]) => [`${architecture.name}.${key}`, value]));
}

/** One number where it is the same in all layers. */
function byLayer(value: readonly number[]): MetadataValue {
  const [first = 0] = value;
  return value.every((one) => one === first) ? u32(first) : { type: "array", of: "i32", value };
}

function scalingKeys(rope: RopeSpec, architecture: LlamaCpp): [string, MetadataValue][] {
  const { scaling, long, attentionFactor } = rope;
  if (scaling === null || architecture.ropeDivisors?.includes("always")) return [];
  if (scaling.type === "linear") {
    return [
      ["rope.scaling.type", text("linear")],
      ["rope.scaling.factor", f32(scaling.factor)],
    ];
  }
  if (hasDivisors(rope, architecture)) {
    const context = u32(long?.above ?? 0);
    return [
      ...(long ? [["rope.scaling.type", text("longrope")] as [string, MetadataValue]] : []),
      ...(long ? [["rope.scaling.original_context_length", context] as [string, MetadataValue]] : []),
      ["rope.scaling.attn_factor", f32(attentionFactor)],
    ];
  }
  if (scaling.type !== "yarn") return [];
  const { factor, original } = scaling;
  // llama.cpp computes this factor, and multiplies it by the key's.
  const computed = factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1;
  return [
    ["rope.scaling.type", text("yarn")],
    ["rope.scaling.factor", f32(factor)],
    ["rope.scaling.original_context_length", u32(original)],
    ["rope.scaling.attn_factor", f32(attentionFactor / computed)],
  ];
}

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
