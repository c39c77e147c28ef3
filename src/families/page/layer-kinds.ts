// How the kinds of layers follow from their places, as in the configuration classes of transformers 5.24.
import type { JsonObject } from "../../kit/index.js";

/** How fields of config.json say which kind a layer is. */
export interface KindRule {
  /** Fields that it reads: what a missing one is, and the least that it can be. */
  readonly numbers: Readonly<Record<string, { readonly missing: number; readonly least: number }>>;
  /** List that takes the place of the rule, with the kind of each layer, or with the layers of one kind. */
  readonly list?: string;
  /** Kind of a layer. @param values of `numbers`, in their order */
  readonly kind: (layer: number, values: readonly number[], layers: number, config: JsonObject) => unknown;
  /** The fields for layers of these kinds, if neither the list nor other numbers say it. */
  readonly write?: (kinds: readonly unknown[]) => JsonObject;
}

export const [FULL, SLIDING, LINEAR] = ["full_attention", "sliding_attention", "linear_attention"] as const;

export interface EveryNth {
  /** Kind of the other layers. Default: sliding. */
  readonly others?: string;
  /** Field that says another n. */
  readonly field?: string;
  /** The first of them. Default: n - 1. */
  readonly first?: number;
}

/** Full attention in every n-th layer, where `layer_types` is missing. */
export function everyNth(n: number, { others = SLIDING, field, first }: EveryNth = {}): KindRule {
  return {
    numbers: field === undefined ? {} : { [field]: { missing: n, least: 1 } },
    list: "layer_types",
    kind: (layer, [every = n]) => ((layer - (first ?? every - 1)) % every === 0 ? FULL : others),
  };
}

/** Dense layers before those with experts. @param list that is written in place of the field */
export const denseBefore = (field: string, missing: number, list?: string): KindRule => ({
  ...(list === undefined ? {} : { list }),
  numbers: { [field]: { missing, least: 0 }, moe_layer_freq: { missing: 1, least: 1 } },
  kind: (layer, [first = 0, every = 1]) => (layer >= first && layer % every === 0 ? "sparse" : "dense"),
});

/** Layers of one kind, one in each period (Jamba). */
export const inPeriods = (
  field: string,
  period: number,
  offset: number,
  kinds: readonly [string, string],
): KindRule => ({
  numbers: {
    [`${field}_period`]: { missing: period, least: 1 },
    [`${field}_offset`]: { missing: offset, least: 0 },
  },
  kind: (layer, [every = 1, at = 0]) => (at >= every ? "none" : kinds[layer % every === at ? 0 : 1]),
});

/** Layers that do not rotate, one of every few, or as a list has them (Llama 4, SmolLM 3). */
export const ROTATED: KindRule = {
  numbers: { no_rope_layer_interval: { missing: 4, least: 1 } },
  list: "no_rope_layers",
  kind: (layer, [every = 4]) => Number((layer + 1) % every !== 0),
};

/** Layers with experts, all but some or every few (Qwen). */
export const SPARSE: KindRule = {
  numbers: { decoder_sparse_step: { missing: 1, least: 1 }, mlp_only_layers: { missing: 0, least: 0 } },
  kind: (layer, [every = 1], _, { mlp_only_layers: dense }) =>
    (layer + 1) % every === 0 && !(Array.isArray(dense) && dense.map(Number).includes(layer)) ? "sparse" : "dense",
  write: (kinds) => ({
    decoder_sparse_step: 1,
    mlp_only_layers: kinds.flatMap((kind, place) => (kind === "dense" ? [place] : [])),
  }),
};

/** Rules of any family that has one of their fields. A rule on the family's own page for the same field comes first. */
export const SHARED_RULES: readonly KindRule[] = [
  {
    numbers: { max_window_layers: { missing: 28, least: 0 } },
    list: "layer_types",
    kind: (layer, [first = 0], _, { use_sliding_window: used, sliding_window: window }) =>
      used !== false && window != null && layer >= first ? SLIDING : FULL,
  },
  denseBefore("first_k_dense_replace", 3),
  denseBefore("num_dense_layers", 1),
  SPARSE,
  {
    numbers: { num_kv_shared_layers: { missing: 0, least: 0 } },
    kind: (layer, [shared = 0], layers) => (layer >= layers - shared ? "shared" : "own"),
  },
];
