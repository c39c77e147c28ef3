// Mamba-2's part of a page: sizes of the state space, and names of its weights in a layer.
import { isObject } from "../../kit/index.js";
import type { ConfigFields } from "./config-fields.js";
import type { Traits } from "./family.js";
import type { GgufMetadata } from "./llama-cpp.js";
import type { Activation, LinearWeights, NormWeights, RecurrenceSpec } from "./spec.js";

export interface MambaOptions {
  /** Module of a layer. */
  readonly module: string;
  readonly hidden: number;
  readonly heads: number;
  readonly headWidth: number;
  /** Keys and queries, each shared by heads / groups heads. */
  readonly groups: number;
  readonly stateWidth: number;
  readonly kernel: number;
  readonly bias: { readonly convolution: boolean; readonly in: boolean; readonly out: boolean };
  /** Default none. */
  readonly norm?: { readonly beforeGate: boolean };
  readonly leastStep: number;
  /** Of the input; of gate, values, keys, queries and steps; of the output. Default 1. */
  readonly factors?: { readonly in: number; readonly parts: readonly number[]; readonly out: number };
}

/** The recurrence of layers whose input projection holds gate, values, keys, queries and steps, one above the other. */
export function mamba2(options: MambaOptions): NonNullable<Traits["recurrence"]> {
  const { module, hidden, heads, groups, kernel, bias, norm, leastStep } = options;
  const [width, keys] = [heads * options.headWidth, groups * options.stateWidth];
  const channels = width + 2 * keys;
  const of = width + channels + heads;
  const { in: before = 1, parts = [1, 1, 1, 1, 1], out = 1 } = options.factors ?? {};
  const [gate = 1, values = 1, key = 1, query = 1, step = 1] = parts;
  const part = (from: number, rows: number, factor: number): LinearWeights => ({
    factor: before * factor,
    weight: { name: `${module}.in_proj.weight`, shape: [rows, hidden], rows: { from, of } },
    ...(bias.in ? { bias: { name: `${module}.in_proj.bias`, shape: [rows], rows: { from, of } } } : {}),
  });
  const vector = (name: string, length: number): NormWeights => ({
    weight: { name: `${module}.${name}`, shape: [length] },
  });
  const inner = norm ? { innerNorm: { groups, ...norm } } : {};
  const isScaled = [values, key, query].some((factor) => factor !== 1);
  const spec: RecurrenceSpec = {
    kind: "mamba2",
    kernel,
    channels,
    state: { heads, keyHeads: groups, keyWidth: options.stateWidth, valueWidth: options.headWidth },
    ...inner,
    leastStep,
    ...(isScaled ? { factors: [values, key, query] } : {}),
  };
  return {
    ...spec,
    weights: {
      outputGate: part(0, width, gate),
      mix: part(width, channels, 1),
      decay: part(width + channels, heads, step),
      convolution: {
        weight: { name: `${module}.conv1d.weight`, shape: [channels, 1, kernel] },
        ...(bias.convolution ? { bias: { name: `${module}.conv1d.bias`, shape: [channels] } } : {}),
      },
      decayScale: vector("A_log", heads),
      decayBias: vector("dt_bias", heads),
      skip: vector("D", heads),
      ...(norm ? { innerNorm: vector("norm.weight", width) } : {}),
      mixed: {
        factor: out,
        weight: { name: `${module}.out_proj.weight`, shape: [hidden, width] },
        ...(bias.out ? { bias: { name: `${module}.out_proj.bias`, shape: [hidden] } } : {}),
      },
    },
  };
}

/** The sizes that all families with a state have, the gated delta rule's too, by their keys in a file. */
export function readStateSpace({ number, layersWith }: GgufMetadata) {
  const [width = 0, heads = 0] = [number("ssm.inner_size"), number("ssm.time_step_rank")];
  return {
    width,
    heads,
    headWidth: width / heads,
    groups: number("ssm.group_count"),
    state: number("ssm.state_size"),
    kernel: number("ssm.conv_kernel"),
    hasBias: layersWith("ssm_conv1d.bias").includes(true),
  };
}

/** Fields of Granite 4 and Falcon-H1. */
export function readMamba(read: GgufMetadata) {
  const { heads, headWidth, groups, state, kernel, hasBias } = readStateSpace(read);
  return {
    mamba_n_heads: heads,
    mamba_d_head: headWidth,
    mamba_n_groups: groups,
    mamba_d_state: state,
    mamba_d_conv: kernel,
    mamba_conv_bias: hasBias,
  };
}

/** Fields of Granite 4 and Falcon-H1, and their defaults. */
export const MAMBA_DEFAULTS = {
  mamba_n_heads: 128,
  mamba_n_groups: 1,
  mamba_d_state: 256,
  mamba_d_conv: 4,
  mamba_expand: 2,
  mamba_conv_bias: true,
  mamba_proj_bias: false,
};

/** @param width of all heads together */
export function mambaSizes(fields: ConfigFields, width: number) {
  const heads = fields.count("mamba_n_heads");
  const groups = fields.count("mamba_n_groups");
  const isGiven = (fields.get("mamba_d_head") ?? "auto") !== "auto";
  const headWidth = isGiven ? fields.count("mamba_d_head") : Math.floor(width / heads);
  if (heads * headWidth !== width) {
    fields.refuse("mamba_n_heads", `is ${heads}; it must divide the width of the state space, ${width}, into heads`);
  }
  requireGroups(fields, "mamba_n_groups", groups, heads);
  return {
    heads,
    groups,
    headWidth,
    stateWidth: fields.count("mamba_d_state"),
    kernel: fields.count("mamba_d_conv", 2),
    leastStep: leastStep(fields),
  };
}

export function requireGroups(fields: ConfigFields, field: string, groups: number, heads: number): void {
  if (heads % groups !== 0) fields.refuse(field, `is ${groups}; it must divide the heads of the state space, ${heads}`);
}

/** `time_step_limit`. JSON has no infinity: transformers 5 writes an object, earlier versions what is read as null. */
function leastStep(fields: ConfigFields): number {
  const limit = fields.get("time_step_limit");
  if (limit === undefined || limit === null) return 0;
  const [least, most] = Array.isArray(limit) ? limit : [];
  const isInfinite = most === null || (isObject(most) && most.__float__ === "Infinity");
  if (typeof least === "number" && isInfinite) return least;
  fields.refuse("time_step_limit", "has an upper limit, which is not supported");
  return 0;
}

/** The activation of layers whose convolution has the same one. */
export function siluOnly(fields: ConfigFields, field = "hidden_act"): Activation {
  return fields.choice<Activation>(field, { silu: "silu", swish: "silu" }, "silu");
}
