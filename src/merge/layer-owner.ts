// Which expert a layer of a swap comes from, and how its layers are chosen. The studio's page has this module, too, without the rest of the
// room.

/** Fields of a swap that count layers, in place of lists of them. */
export const LAYER_COUNTS = ["bottom", "top", "bottom_transition", "top_transition"];

/** Whether a swap takes the paper's default: none of its fields says which layers, or how many. */
export const hasDefaultLayers = (fields: Readonly<Record<string, unknown>>): boolean =>
  ["layers", "preset", ...LAYER_COUNTS].every((name) => fields[name] === undefined);

/** Numbers of layers from the input to the output; the rest in the middle is the task expert's. */
export type SwapLayers = Readonly<Record<"bottom" | "top" | "bottom_transition" | "top_transition", number>>;

export type LayerOwner = "task" | "language" | "average";

/** Which expert a layer of a swap comes from. */
export function ownerOfLayer(layer: number, layers: number, counts: SwapLayers): LayerOwner {
  const { bottom, top, bottom_transition, top_transition } = counts;
  if (layer < bottom || layer > layers - 1 - top) return "language";
  if (layer >= bottom + bottom_transition && layer <= layers - 1 - top - top_transition) return "task";
  return "average";
}

// Configurations found effective (arXiv 2410.01335, section 4.2 and figure 3), for a depth of 32.
export const PAPER_DEPTH = 32;
export const PRESETS = {
  "paper-smallest": { bottom: 3, top: 0, transitions: 0 },
  "paper-default": { bottom: 5, top: 2, transitions: 0 },
  "paper-largest": { bottom: 5, top: 2, transitions: 2 },
} as const;

/**
 * A configuration of the paper, by default its default, scaled to a depth, with at least one bottom layer and at least one
 * layer of the task expert.
 */
export function presetLayers(layers: number, preset: keyof typeof PRESETS = "paper-default"): SwapLayers {
  const paper = PRESETS[preset];
  const scaled = (count: number) => Math.round((count * layers) / PAPER_DEPTH);
  const bottom = Math.min(Math.max(1, scaled(paper.bottom)), layers - 1);
  const top = Math.max(0, Math.min(scaled(paper.top), layers - 1 - bottom));
  const transition = scaled(paper.transitions);
  return { bottom, top, bottom_transition: transition, top_transition: transition };
}

/**
 * Layers in which one expert's share of its change exceeds the other's share of its own.
 * @param changes how much each changed by layer
 * @returns none where that would be every layer
 */
export function profileLayers(of: readonly number[], over: readonly number[]): number[] {
  const shares = [of, over].map((sizes) => {
    const all = sizes.reduce((sum, size) => sum + size, 0);
    return sizes.map((size) => (all > 0 ? size / all : 0));
  });
  const above = [...of.keys()].filter((layer) => (shares[0]?.[layer] ?? 0) > (shares[1]?.[layer] ?? 0));
  return above.length === of.length ? [] : above;
}

/** First and last layer of each range of `0-4,30-31` or `3`, or of a list of these; undefined if it is not one. */
export function layerRanges(written: unknown, layers: number): [first: number, last: number][] | undefined {
  const entries = [written].flat().flatMap((entry) => String(entry).split(","));
  const ranges = entries.map((entry): [number, number] | undefined => {
    if (entry.trim() === "all") return [0, layers - 1];
    const [, first, last = first] = /^\s*(\d+)(?:\s*-\s*(\d+))?\s*$/.exec(entry) ?? [];
    return first === undefined ? undefined : [Number(first), Number(last)];
  });
  return ranges.every((range) => range !== undefined) ? ranges : undefined;
}
