// config.json of a GGUF file, from its metadata: the inverse of src/export/gguf/metadata.ts.
// Source: conversion/*.py and src/llama-model.cpp of ggml-org/llama.cpp; the configuration classes of transformers.
import { CheckpointError } from "../../kit/index.js";
import { shorten } from "../../kit/printing/index.js";
import type { GgufHeader } from "./header.js";

export type Json = { [field: string]: unknown };

/** How llama.cpp's name of an architecture reads as a configuration of transformers. */
interface GgufFamily {
  readonly modelType: string;
  readonly className: string;
  /** The field of the norms' epsilon. Default: `rms_norm_eps`. */
  readonly epsilon?: string;
  /** Whether rows of queries and keys are interleaved, for rotations of neighbouring dimensions. */
  readonly interleaved?: boolean;
  /** What norms of these modules have more than in a folder. */
  readonly normPlus?: number;
  /** The family's own fields. */
  readonly fields?: (read: Reader) => Json;
}

/** Reads keys of the architecture, and small tensors. */
export interface Reader {
  readonly number: (key: string) => number | undefined;
  readonly text: (key: string) => string | undefined;
  readonly list: (key: string) => readonly unknown[] | undefined;
  readonly values: (tensor: string) => readonly number[] | undefined;
  readonly has: (tensor: string) => boolean;
}

const biases = ({ has }: Reader) => ({
  attention_bias: has("blk.0.attn_q.bias"),
  mlp_bias: has("blk.0.ffn_up.bias"),
});

const GELU = "gelu_pytorch_tanh";

/** `sliding_attention` where the pattern says so; every n-th layer is global where it only says how often. */
function windows({ number, list }: Reader, everyNth: number): Json {
  const layers = number("block_count") ?? 0;
  const pattern = list("attention.sliding_window_pattern");
  const isLocal = (layer: number) => (pattern ? pattern[layer] === true : (layer + 1) % everyNth !== 0);
  return {
    sliding_window: number("attention.sliding_window") ?? null,
    layer_types: Array.from({ length: layers }, (_, i) => (isLocal(i) ? "sliding_attention" : "full_attention")),
  };
}

/** By `general.architecture`. */
const FAMILIES: Readonly<Record<string, GgufFamily>> = {
  llama: { modelType: "llama", className: "LlamaForCausalLM", interleaved: true, fields: biases },
  qwen2: { modelType: "qwen2", className: "Qwen2ForCausalLM" },
  qwen3: { modelType: "qwen3", className: "Qwen3ForCausalLM", fields: biases },
  gemma: {
    modelType: "gemma",
    className: "GemmaForCausalLM",
    normPlus: 1,
    fields: () => ({ hidden_act: GELU, hidden_activation: GELU }),
  },
  gemma2: {
    modelType: "gemma2",
    className: "Gemma2ForCausalLM",
    normPlus: 1,
    fields: (read) => ({
      ...gemma(read, 46),
      ...windows(read, 2),
      attn_logit_softcapping: read.number("attn_logit_softcapping") ?? null,
      final_logit_softcapping: read.number("final_logit_softcapping") ?? null,
    }),
  },
  gemma3: {
    modelType: "gemma3_text",
    className: "Gemma3ForCausalLM",
    normPlus: 1,
    fields: (read) => ({
      ...gemma(read, 62),
      ...windows(read, 6),
      rope_local_base_freq: read.number("rope.freq_base_swa") ?? 10_000,
      final_logit_softcapping: read.number("final_logit_softcapping") ?? null,
    }),
  },
  "command-r": {
    modelType: "cohere",
    className: "CohereForCausalLM",
    epsilon: "layer_norm_eps",
    fields: (read) => ({ logit_scale: read.number("logit_scale"), use_qk_norm: read.has("blk.0.attn_q_norm.weight") }),
  },
  cohere2: {
    modelType: "cohere2",
    className: "Cohere2ForCausalLM",
    epsilon: "layer_norm_eps",
    fields: (read) => ({ logit_scale: read.number("logit_scale"), ...windows(read, 4) }),
  },
  phi3: { modelType: "phi3", className: "Phi3ForCausalLM", fields: phi3 },
  granite: {
    modelType: "granite",
    className: "GraniteForCausalLM",
    interleaved: true,
    fields: (read) => ({
      ...biases(read),
      embedding_multiplier: read.number("embedding_scale"),
      attention_multiplier: read.number("attention.scale"),
      residual_multiplier: read.number("residual_scale"),
      logits_scaling: read.number("logit_scale"),
    }),
  },
  olmo2: { modelType: "olmo2", className: "Olmo2ForCausalLM" },
  starcoder2: {
    modelType: "starcoder2",
    className: "Starcoder2ForCausalLM",
    epsilon: "norm_epsilon",
    fields: ({ has }) => ({ hidden_act: GELU, use_bias: has("blk.0.attn_q.bias") }),
  },
};

/** Scores are divided by the root of a head's width; the largest models have a number of their own. */
function gemma({ number }: Reader, largest: number): Json {
  const [hidden = 0, heads = 1] = [number("embedding_length"), number("attention.head_count")];
  const width = number("attention.key_length") ?? hidden / heads;
  const scalar = number("block_count") === largest ? Math.trunc(hidden / heads) : width;
  return { hidden_act: GELU, hidden_activation: GELU, query_pre_attn_scalar: scalar };
}

function phi3({ number, values }: Reader): Json {
  const [hidden = 0, heads = 1] = [number("embedding_length"), number("attention.head_count")];
  const rotated = number("rope.dimension_count") ?? hidden / heads;
  const [long, short] = [values("rope_factors_long.weight"), values("rope_factors_short.weight")];
  return {
    partial_rotary_factor: rotated / (hidden / heads),
    ...(long && short
      ? {
          original_max_position_embeddings: number("rope.scaling.original_context_length"),
          rope_scaling: { type: "longrope", long_factor: long, short_factor: short },
        }
      : {}),
  };
}

/** The family of an architecture's name. @throws CheckpointError for one that layergraft does not read */
export function ggufFamily(name: unknown, path: string): GgufFamily {
  if (typeof name === "string" && Object.hasOwn(FAMILIES, name)) return FAMILIES[name] as GgufFamily;
  const known = Object.keys(FAMILIES).join(", ");
  const problem =
    name === undefined
      ? "names no architecture"
      : `has a model of the architecture ${JSON.stringify(shorten(String(name)))}`;
  throw new CheckpointError(`${path} ${problem}; those that can be read are ${known}.`, { file: path });
}

/** Llama 3's scalings of low frequencies that are published, whose divisors a file has instead of the numbers. */
const LLAMA3_FACTORS = [8, 32, 16, 4, 2];

/**
 * The configuration.
 * @throws CheckpointError if a number is missing
 */
export function ggufConfig(family: GgufFamily, read: Reader, header: GgufHeader, path: string): Json {
  const required = (key: string): number => {
    const value = read.number(key);
    if (value === undefined || !(value > 0)) {
      throw new CheckpointError(`${path} does not say its ${key}, so it cannot be read.`, { file: path, field: key });
    }
    return value;
  };
  const { metadata } = header;
  const tokens = metadata.get("tokenizer.ggml.tokens");
  const token = (name: string) => metadata.get(`tokenizer.ggml.${name}_token_id`) ?? null;
  const [hidden, heads] = [required("embedding_length"), required("attention.head_count")];
  const { epsilon = "rms_norm_eps" } = family;
  const isLayerNorm = epsilon !== "rms_norm_eps";
  return {
    architectures: [family.className],
    model_type: family.modelType,
    hidden_act: "silu",
    vocab_size: read.number("vocab_size") ?? (Array.isArray(tokens) ? tokens.length : undefined),
    hidden_size: hidden,
    intermediate_size: required("feed_forward_length"),
    num_hidden_layers: required("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: read.number("attention.head_count_kv") ?? heads,
    head_dim: read.number("attention.key_length") ?? hidden / heads,
    max_position_embeddings: required("context_length"),
    [epsilon]: required(isLayerNorm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
    rope_theta: read.number("rope.freq_base") ?? 10_000,
    ...ropeScaling(read),
    tie_word_embeddings: !read.has("output.weight"),
    bos_token_id: token("bos"),
    eos_token_id: token("eos"),
    torch_dtype: "float32",
    ...family.fields?.(read),
  };
}

function ropeScaling(read: Reader): Json {
  const [type, factor] = [read.text("rope.scaling.type"), read.number("rope.scaling.factor")];
  const original = read.number("rope.scaling.original_context_length");
  if (type === "linear") return { rope_scaling: { rope_type: "linear", factor } };
  if (type === "yarn") {
    const scaling = { rope_type: "yarn", factor, original_max_position_embeddings: original };
    const attention = read.number("rope.scaling.attn_factor");
    // llama.cpp multiplies the factor that it computes by the key's.
    const own = factor === undefined || factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1;
    return { rope_scaling: { ...scaling, ...(attention ? { attention_factor: attention * own } : {}) } };
  }
  const divisors = read.values("rope_freqs.weight");
  return divisors ? { rope_scaling: dividedScaling(divisors, read) } : {};
}

/**
 * The scaling that makes these divisors: Llama 3's where they are those of a published model, else the divisors themselves, as
 * LongRoPE has them (transformers, modeling_rope_utils.py).
 */
function dividedScaling(divisors: readonly number[], read: Reader): Json {
  const theta = read.number("rope.freq_base") ?? 10_000;
  const [low, high, original] = [1, 4, 8192];
  const factor = LLAMA3_FACTORS.find((one) =>
    divisors.every((divisor, i) => {
      const turns = (original * theta ** (-i / divisors.length)) / (2 * Math.PI);
      const share = Math.min(1, Math.max(0, (turns - low) / (high - low)));
      const expected = 1 / ((1 - share) / one + share);
      return Math.abs(expected - divisor) <= 1e-3 * expected;
    }),
  );
  if (factor !== undefined) {
    const fields = { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original };
    return { rope_type: "llama3", factor, ...fields };
  }
  return {
    rope_type: "longrope",
    short_factor: divisors,
    long_factor: divisors,
    original_max_position_embeddings: read.number("context_length"),
    attention_factor: read.number("rope.scaling.attn_factor") ?? 1,
  };
}
