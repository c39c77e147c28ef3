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

/** What the page of an analysis has of how much experts changed. */
interface MeasuredChanges {
  readonly steps: readonly number[];
  readonly marks: readonly { readonly name: string; readonly steps: readonly number[] }[];
  /** By expert, layer and matrix. */
  readonly cells: readonly (readonly (readonly ({
    readonly rows: number;
    readonly above: readonly number[];
    readonly mean: number | null;
  } | null)[])[])[];
}

/** How much an expert changed: the mean over its rows, and how many are above its own threshold and above that of all. */
export function changeOf({ steps, marks, cells }: MeasuredChanges, expert: number) {
  const all = (cells[expert] ?? []).flat().filter((cell) => cell !== null && cell.rows > 0 && cell.mean !== null);
  const sum = (of: (cell: NonNullable<(typeof all)[number]>) => number) =>
    all.reduce((total, cell) => total + (cell ? of(cell) : 0), 0);
  const rows = sum((cell) => cell.rows);
  const at = (step: number | undefined) =>
    step === undefined || rows === 0
      ? undefined
      : { threshold: steps[step] ?? 0, share: sum(({ above }) => above[step] ?? 0) / rows };
  return {
    mean: rows > 0 ? sum((cell) => cell.rows * (cell.mean ?? 0)) / rows : null,
    own: at(marks[0]?.steps[expert]),
    common: at(marks.find(({ name }) => name === "common")?.steps[expert]),
  };
}

/**
 * How much experts changed, in sentences: `math changed 1.9 times as much as swahili: the mean change of a row is 3.10e-5 in
 * math, 1.63e-5 in swahili. Above a threshold of 2.20e-5 for all: 18.0% of the rows of math, 7.0% of the rows of swahili.`
 * Empty for one expert.
 */
export function comparedChanges(data: MeasuredChanges, names: readonly string[]): string {
  const size = (value: number) => value.toExponential(2);
  const found = names.map((name, expert) => ({ name, ...changeOf(data, expert) }));
  const sorted = found.toSorted((a, b) => (b.mean ?? 0) - (a.mean ?? 0));
  const [most, least] = [sorted[0], sorted.at(-1)];
  if (!most || !least || most === least || !most.mean) return "";
  const times = least.mean ? `${(most.mean / least.mean).toFixed(1)} times as much as ${least.name}` : "most";
  const means = sorted.map(({ name, mean }) => `${size(mean ?? 0)} in ${name}`).join(", ");
  const shares = sorted.flatMap(({ name, common }) =>
    common ? [`${(100 * common.share).toFixed(1)}% of the rows of ${name}`] : [],
  );
  const above = most.common
    ? ` Above a threshold of ${size(most.common.threshold)} for all: ${shares.join(", ")}.`
    : "";
  return `${most.name} changed ${times}: the mean change of a row is ${means}.${above}`;
}
