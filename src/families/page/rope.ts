// Inverse frequencies of rotary position embeddings from a configuration, in either layout of transformers.

import { own } from "../../kit/index.js";
import { brief, type ConfigFields } from "./config-fields.js";
import { type Frequencies, plain, type TypeInput } from "./rope-frequencies.js";
import type { DecoderSpec, RopeSpec } from "./spec.js";
import { yarn } from "./yarn.js";

export interface RopeOptions {
  /** The decoder's configuration. */
  readonly fields: ConfigFields;
  /** E. */
  readonly headDim: number;
  /** `max_position_embeddings`. */
  readonly contextLength: number;
  /** Default "half". */
  readonly pairs?: RopeSpec["pairs"];
  /** Base where the configuration has none; default 10000. */
  readonly theta?: number;
  /** Where the family may rotate a part of each head, the part if `partial_rotary_factor` is missing. */
  readonly partial?: number;
  /** The family's other names of types. */
  readonly aliases?: Readonly<Record<string, string>>;
}

const DEFAULT_THETA = 10_000; // of transformers

/**
 * The rotation of a family whose layers all rotate in the same way.
 *
 * New layout: `rope_parameters` has rope_type, rope_theta and the parameters of the type. Old layout: `rope_theta` is
 * next to `rope_scaling`, which may be null. `rope_scaling` overrides `rope_parameters`, and a base in either object
 * overrides one next to it (transformers 5.18, modeling_rope_utils.py, convert_rope_params_to_dict). Problems are noted
 * in `fields`; the result must not be used then.
 */
export function readRope(options: RopeOptions): RopeSpec {
  const { fields } = options;
  const parameters = fields.nested("rope_scaling") ?? fields.nested("rope_parameters");
  for (const type of LAYER_TYPES) {
    if (parameters?.has(type)) {
      parameters.refuse(type, "sets a rotation for one kind of layer, which this family does not support");
    }
  }
  return makeRope(parameters, fields, options);
}

export const LAYER_TYPES = ["full_attention", "sliding_attention"] as const;
export type LayerType = (typeof LAYER_TYPES)[number];

/**
 * The rotations of a family whose local and global layers rotate differently (Gemma 3).
 *
 * New layout: `rope_parameters` nested by kind of layer. Old layout: `rope_theta` and `rope_scaling` for the global
 * layers, `rope_local_base_freq` for the local ones (transformers 5.18, configuration_gemma3.py).
 */
export function readRopesByLayerType(
  options: RopeOptions & {
    readonly thetas: Readonly<Record<LayerType, number>>;
    /** E by kind, where it differs. */
    readonly headDims?: Readonly<Record<LayerType, number>>;
  },
): Record<LayerType, RopeSpec> {
  const { fields, thetas, headDims } = options;
  const nested = fields.nested("rope_parameters");
  if (nested && !LAYER_TYPES.some((type) => nested.has(type))) {
    fields.refuse("rope_parameters", `has neither ${LAYER_TYPES.join(" nor ")}, the kinds of layers of this family`);
  }
  const one = (type: LayerType, baseField: string, scaling: ConfigFields | undefined) => {
    const theta = fields.positiveOrNull(baseField) ?? thetas[type];
    const headDim = headDims?.[type] ?? options.headDim;
    return makeRope(scaling ?? nested?.nested(type), undefined, { ...options, headDim, theta });
  };
  return {
    full_attention: one("full_attention", "rope_theta", fields.nested("rope_scaling")),
    sliding_attention: one("sliding_attention", "rope_local_base_freq", undefined),
  };
}

// Far above any real head; bounds the allocation of frequencies.
const MAX_DIMENSIONS = 2 ** 16;

function makeRope(
  parameters: ConfigFields | undefined,
  outer: ConfigFields | undefined,
  options: RopeOptions,
): RopeSpec {
  const { headDim, contextLength, pairs = "half" } = options;
  const where = parameters ?? options.fields;
  const holder = (field: string) => [parameters, outer].find((fields) => fields?.has(field));

  // A base of 1 would rotate all pairs equally, and its logarithm is a divisor.
  const theta = holder("rope_theta")?.positive("rope_theta", 1) ?? options.theta ?? DEFAULT_THETA;

  const named = parameters?.get("rope_type") ?? parameters?.get("type") ?? "default";
  const type = typeof named === "string" ? (own(options.aliases ?? {}, named) ?? named) : "";
  const make = own(TYPES, type);
  if (!make) {
    const known = Object.keys(TYPES).join(", ");
    where.refuse("rope_type", `is ${brief(named)}; it must be one of ${known}`);
  }

  const part = holder(PART)?.positive(PART) ?? options.partial ?? 1;
  const keepsPlaces = type === "proportional";
  if (part > 1 || (part < 1 && options.partial === undefined && !keepsPlaces)) {
    holder(PART)?.refuse(PART, `is ${part}; this family rotates whole heads`);
  }
  const dimensions = keepsPlaces ? headDim : Math.trunc(headDim * part);
  const isValid = dimensions >= 2 && dimensions % 2 === 0 && dimensions <= MAX_DIMENSIONS;
  if (!isValid) {
    const expected = `an even number up to ${MAX_DIMENSIONS}`;
    options.fields.refuse("head_dim", `leaves ${dimensions} rotated dimensions per head; it must be ${expected}`);
  }
  if (!make || !isValid) {
    return { pairs, dimensions: 0, frequencies: new Float64Array(), attentionFactor: 1, theta, scaling: null };
  }

  // A length next to the scaling overrides one in it, as in Phi-3 (standardize_rope_params).
  const original = () =>
    outer?.countOrNull(ORIGINAL_LENGTH) ?? parameters?.countOrNull(ORIGINAL_LENGTH) ?? contextLength;
  const made = make({ fields: where, theta, dimensions, part, contextLength, original });
  return {
    pairs,
    dimensions,
    frequencies: Float64Array.from(made.frequencies),
    ...(made.long ? { long: made.long } : {}),
    ...(made.dynamic ? { dynamic: made.dynamic } : {}),
    attentionFactor: made.attentionFactor ?? 1,
    theta,
    ...(parameters?.has(SECTIONS) ? { sections: parameters.counts(SECTIONS, 3) } : {}),
    scaling: made.scaling ?? null,
  };
}

const SECTIONS = "mrope_section";

const PART = "partial_rotary_factor";
export const ORIGINAL_LENGTH = "original_max_position_embeddings";

/** The same rotation from another base. */
export function withBase({ dynamic: _, ...rope }: RopeSpec, theta: number): RopeSpec {
  const { dimensions } = rope;
  return { ...rope, theta, frequencies: Float64Array.from(plain({ theta, dimensions })) };
}

/** Frequencies for new positions of a sequence of this length. */
export function frequenciesAt(rope: RopeSpec, length: number): Float64Array {
  const { theta, dimensions, long, dynamic } = rope;
  if (long && length > long.above) return long.frequencies;
  if (!dynamic || length <= dynamic.above) return rope.frequencies;
  const growth = (dynamic.factor * length) / dynamic.above - (dynamic.factor - 1);
  return Float64Array.from(plain({ theta: theta * growth ** (dimensions / (dimensions - 2)), dimensions }));
}

/** By the names of transformers, with the formulas of its modeling_rope_utils.py in float64. */
const TYPES: Readonly<Record<string, (input: TypeInput) => Frequencies>> = {
  default: (input) => ({ frequencies: plain(input) }),
  linear,
  proportional,
  dynamic,
  yarn,
  longrope,
  llama3,
};

/** NTK: up to the context it is the default, and longer sequences have a larger base. */
function dynamic(input: TypeInput): Frequencies {
  const factor = input.fields.positive("factor");
  if (input.dimensions < 4) input.fields.refuse("rope_type", "is dynamic, which rotates at least 4 dimensions");
  return { frequencies: plain(input), dynamic: { above: input.contextLength, factor } };
}

/** Position interpolation: Chen et al. 2023, arXiv 2306.15595. */
function linear(input: TypeInput): Frequencies {
  const factor = input.fields.positive("factor");
  return { frequencies: plain(input).map((frequency) => frequency / factor), scaling: { type: "linear", factor } };
}

/** Gemma 4: the first pairs turn as in a whole head, the others do not. */
function proportional(input: TypeInput): Frequencies {
  const factor = input.fields.positiveOrNull("factor") ?? 1;
  const turning = Math.floor((input.part * input.dimensions) / 2);
  const frequencies = plain(input).map((frequency, i) => (i < turning ? frequency / factor : 0));
  return { frequencies, scaling: { type: "proportional" } };
}

/** Llama 3.1: long waves are stretched, short ones kept, and those between blended. */
function llama3(input: TypeInput): Frequencies {
  const { fields } = input;
  const factor = fields.positive("factor");
  const low = fields.positive("low_freq_factor");
  const high = fields.positive("high_freq_factor");
  const length = input.original();
  if (high <= low && fields.has("low_freq_factor") && fields.has("high_freq_factor")) {
    fields.refuse("high_freq_factor", `is ${high}; it must be above low_freq_factor, ${low}`);
  }
  const stretch = (frequency: number) => {
    const turns = (length * frequency) / (2 * Math.PI); // in the original context
    if (turns < low) return frequency / factor;
    if (turns > high) return frequency;
    const share = (turns - low) / (high - low);
    return ((1 - share) * frequency) / factor + share * frequency;
  };
  return { frequencies: plain(input).map(stretch), scaling: { type: "llama3" } };
}

/** LongRoPE: Ding et al. 2024, arXiv 2402.13753; one factor per frequency, and others for long sequences. */
function longrope(input: TypeInput): Frequencies {
  const { fields, dimensions } = input;
  const length = input.original();
  if (length < 2) fields.refuse(ORIGINAL_LENGTH, `is ${length}; it must be at least 2`);
  const short = fields.positives("short_factor", dimensions / 2);
  const long = fields.positives("long_factor", dimensions / 2);
  const stretch = fields.positiveOrNull("factor") ?? input.contextLength / length;
  const computed = stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(length));
  const divided = (factors: readonly number[]) => plain(input).map((frequency, i) => frequency / (factors[i] ?? 1));
  return {
    frequencies: divided(short),
    long: { above: length, frequencies: Float64Array.from(divided(long)) },
    attentionFactor: fields.positiveOrNull("attention_factor") ?? computed,
    scaling: { type: "longrope" },
  };
}

/** Positions of the longest text: those of the configuration, and more where the rotation grows with the text. */
export function longestContext({ contextLength, ropes }: Pick<DecoderSpec, "contextLength" | "ropes">): number {
  return Math.floor(contextLength * Math.max(1, ...ropes.map(({ dynamic: grown }) => grown?.factor ?? 1)));
}
