// Which expert a layer of a swap comes from. The studio's page has this module, too, without the rest of the room.

/** Fields of a swap that count layers, in place of lists of them. */
export const LAYER_COUNTS = ["bottom", "top", "bottom_transition", "top_transition"];

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
