import type { Analysis } from "../../protocol/index.js";

export interface HeatmapCell {
  readonly layer: number;
  readonly column: number;
}

/** The threshold: the step of each expert. They differ where each has its own. */
export type Steps = readonly number[];

/** What parts of the view show. */
export interface View {
  readonly data: Analysis;
  readonly names: readonly string[];
  readonly steps: Steps;
  /** Class of an expert's accent. */
  readonly own: (expert: number) => string;
}

export const cellOf = (data: Analysis, expert: number, { layer, column }: HeatmapCell) =>
  data.cells[expert]?.[layer]?.[column] ?? null;

type Counted = { readonly rows: number; readonly above: readonly number[] } | null | undefined;

/** Share of the rows of matrices that are above a step; null where there is no row to count. */
function shareAbove(cells: readonly Counted[], step = 0): number | null {
  const rows = cells.reduce((sum, cell) => sum + (cell?.rows ?? 0), 0);
  return rows > 0 ? cells.reduce((sum, cell) => sum + (cell?.above[step] ?? 0), 0) / rows : null;
}

export const shareOf = (data: Analysis, expert: number, place: HeatmapCell, steps: Steps) =>
  shareAbove([cellOf(data, expert, place)], steps[expert]);

/** Of a layer, over all of its matrices, or those that are wanted. */
export function layerShare(
  data: Analysis,
  expert: number,
  layer: number,
  steps: Steps,
  isWanted: (column: string) => boolean = () => true,
): number | null {
  const cells = (data.cells[expert]?.[layer] ?? []).filter((_, i) => isWanted(data.columns[i] ?? ""));
  return shareAbove(cells, steps[expert]);
}

export const totalShare = (data: Analysis, expert: number, steps: Steps) =>
  shareAbove([data.totals[expert]], steps[expert]);

/** The largest share of any matrix, in any expert or in one, at least 1%: the end of the scale of colours. */
export function scaleOf(data: Analysis, steps: Steps, of?: number): number {
  let most = 0.01;
  for (const [expert, layers] of data.cells.entries()) {
    if (of !== undefined && expert !== of) continue;
    for (const cell of layers.flat()) most = Math.max(most, shareAbove([cell], steps[expert]) ?? 0);
  }
  return most;
}

export function pairOf(data: Analysis, a: number, b: number) {
  return data.pairs.find(({ experts: [x, y] }) => (x === a && y === b) || (x === b && y === a));
}

/** Rows that both experts of a cell changed by more than their thresholds. */
function bothOf(
  data: Analysis,
  [a, b]: readonly [number, number],
  { layer, column }: HeatmapCell,
  steps: Steps,
): number {
  const cell = pairOf(data, a, b)?.cells[layer]?.[column];
  if (steps[a] === steps[b]) return cell?.both[steps[a] ?? 0] ?? 0;
  const mark = data.marks.findIndex(({ steps: own }) => own[a] === steps[a] && own[b] === steps[b]);
  return cell?.bothAtMarks[mark] ?? 0;
}

/** Rows above the threshold in both experts, divided by those above it in either; null where there is none. */
export function jaccard(
  data: Analysis,
  pair: readonly [number, number],
  place: HeatmapCell,
  steps: Steps,
): number | null {
  const both = bothOf(data, pair, place, steps);
  const either = pair.reduce((sum, one) => sum + (cellOf(data, one, place)?.above[steps[one] ?? 0] ?? 0), -both);
  return either > 0 ? both / either : null;
}

/** The same over all matrices. */
export function totalJaccard(data: Analysis, pair: readonly [number, number], steps: Steps): number | null {
  let both = 0;
  for (let layer = 0; layer < data.layers; layer++) {
    for (const column of data.columns.keys()) both += bothOf(data, pair, { layer, column }, steps);
  }
  const either = pair.reduce((sum, one) => sum + (data.totals[one]?.above[steps[one] ?? 0] ?? 0), -both);
  return either > 0 ? both / either : null;
}

/**
 * Counts of rows between steps, joined to few bins.
 * @param above rows above each step
 */
export function histogram(above: readonly number[], rows: number, bins: number): number[] {
  const size = Math.ceil(above.length / bins);
  return Array.from({ length: Math.ceil(above.length / size) }, (_, bin) => {
    const from = bin === 0 ? rows : (above[bin * size - 1] ?? 0);
    return from - (above[Math.min(above.length, (bin + 1) * size) - 1] ?? 0);
  });
}

/** Where an expert changed most at the threshold: a cell to begin with. */
export function topPlace(data: Analysis, steps: Steps): HeatmapCell {
  let [top, most]: [HeatmapCell, number] = [{ layer: 0, column: 0 }, -1];
  data.cells[0]?.forEach((cells, layer) => {
    cells.forEach((_, column) => {
      const share = shareOf(data, 0, { layer, column }, steps) ?? -1;
      if (share > most) [top, most] = [{ layer, column }, share];
    });
  });
  return top;
}
