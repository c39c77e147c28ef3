// What a decoder's graph is fed besides its weights, and what a cache holds of each row.
import type { DecoderSpec } from "../../families/index.js";
import type { Dim } from "../graph/dim.js";

/** Names of a decoder graph's feeds. Its other inputs are weights. */
export const FEEDS = {
  /** [B, T] tokens. */
  ids: "ids",
  /** [B, T] positions for rotation, windows and order; 0 for padding. */
  positions: "positions",
  /** [B, T] the text that a token belongs to, from 1; attention stays within it. Padding has 0. */
  segments: "segments",
  /** [N] rows of the flattened [B T] whose logits are computed. */
  rows: "rows",
  /** The same for the cache, [B, P]. */
  pastPositions: "past.positions",
  pastSegments: "past.segments",
} as const;

/** Names of the feeds of a rotation's tables, [positions, dimensions / 2]. */
export const ropeCos = (rope: number): string => `rope.${rope}.cos`;
export const ropeSin = (rope: number): string => `rope.${rope}.sin`;

/** Names of the feeds of a layer's cached keys and values, [B, K, P, E]. */
export const pastKey = (layer: number): string => `past.${layer}.key`;
export const pastValue = (layer: number): string => `past.${layer}.value`;
/** Name of the feed of the last inputs of a layer's convolution, [B, kernel - 1, channels]. */
export const pastInputs = (layer: number): string => `past.${layer}.inputs`;
/** Name of the feed of a layer's state, [B, heads, keyWidth, valueWidth]. */
export const pastState = (layer: number): string => `past.${layer}.state`;

/**
 * positions: [strips, P, width], to which a pass adds the new ones. window: [length, width], the last positions of those
 * and of what a pass adds. state: [strips, length, width], which a pass replaces.
 */
export interface CachePart {
  /** Name of its feed. */
  readonly feed: string;
  readonly kind: "positions" | "window" | "state";
  /** Matrices of a row. */
  readonly strips: number;
  /** Rows of a matrix; 0 where they are positions. */
  readonly length: number;
  readonly width: number;
}

/** The parts of a decoder's cache, layer by layer. */
export function cacheParts({ layers, recurrence }: DecoderSpec): CachePart[] {
  return layers.flatMap(({ weights, kvHeads, headDim, valueDim }, layer): CachePart[] => {
    const positions = { kind: "positions", strips: kvHeads, length: 0 } as const;
    const { kernel = 1, channels = 0, state } = recurrence ?? {};
    return [
      ...(weights.k || weights.kv
        ? [
            { feed: pastKey(layer), ...positions, width: headDim },
            { feed: pastValue(layer), ...positions, width: valueDim },
          ]
        : []),
      ...(weights.convolution
        ? [{ feed: pastInputs(layer), kind: "window", strips: 1, length: kernel - 1, width: channels } as const]
        : []),
      ...(weights.convolution && state
        ? [
            {
              feed: pastState(layer),
              kind: "state",
              strips: state.heads,
              length: state.keyWidth,
              width: state.valueWidth,
            } as const,
          ]
        : []),
    ];
  });
}

/** Shape of a part's feed. */
export function feedShape({ kind, strips, length, width }: CachePart, batch: Dim, past: Dim): Dim[] {
  if (kind === "window") return [batch, length, width];
  return [batch, strips, kind === "positions" ? past : length, width];
}
