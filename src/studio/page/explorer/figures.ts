// Figures of cells at a step of the threshold.
import type { Analysis } from "../../protocol/index.ts";

export interface Place {
  readonly layer: number;
  readonly column: number;
}

export const cellOf = (data: Analysis, expert: number, { layer, column }: Place) =>
  data.cells[expert]?.[layer]?.[column] ?? null;

/** Share of a matrix's rows above the step; null where there is no row to count. */
export function shareOf(data: Analysis, expert: number, place: Place, step: number): number | null {
  const cell = cellOf(data, expert, place);
  return cell && cell.rows > 0 ? (cell.above[step] ?? 0) / cell.rows : null;
}

/** Share of a layer's rows above the step, over all of its matrices. */
export function layerShare(data: Analysis, expert: number, layer: number, step: number): number | null {
  const all = (data.cells[expert]?.[layer] ?? []).filter((cell) => cell !== null);
  const rows = all.reduce((sum, cell) => sum + cell.rows, 0);
  return rows > 0 ? all.reduce((sum, cell) => sum + (cell.above[step] ?? 0), 0) / rows : null;
}

/** Share of all rows above the step. */
export function totalShare(data: Analysis, expert: number, step: number): number | null {
  const total = data.totals[expert];
  return total && total.rows > 0 ? (total.above[step] ?? 0) / total.rows : null;
}

/** The largest share of any matrix in any expert, at least 1%: the end of the scale of colours. */
export function scaleOf(data: Analysis, step: number): number {
  let most = 0.01;
  for (const layers of data.cells) {
    for (const cells of layers) {
      for (const cell of cells) if (cell && cell.rows > 0) most = Math.max(most, (cell.above[step] ?? 0) / cell.rows);
    }
  }
  return most;
}

export function pairOf(data: Analysis, a: number, b: number) {
  return data.pairs.find(({ experts: [x, y] }) => (x === a && y === b) || (x === b && y === a));
}

/** Rows above the step in both experts, divided by those above it in either; null where there is none. */
export function jaccard(data: Analysis, [a, b]: readonly [number, number], place: Place, step: number): number | null {
  const both = pairOf(data, a, b)?.cells[place.layer]?.[place.column]?.both[step];
  if (both === undefined) return null;
  const above = (expert: number) => cellOf(data, expert, place)?.above[step] ?? 0;
  const either = above(a) + above(b) - both;
  return either > 0 ? both / either : null;
}

/** The same over all matrices. */
export function totalJaccard(data: Analysis, [a, b]: readonly [number, number], step: number): number | null {
  const cells = pairOf(data, a, b)?.cells.flat() ?? [];
  const both = cells.reduce((sum, cell) => sum + (cell?.both[step] ?? 0), 0);
  const either = (data.totals[a]?.above[step] ?? 0) + (data.totals[b]?.above[step] ?? 0) - both;
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

/** Where an expert changed most at the step: a cell to begin with. */
export function topPlace(data: Analysis, step: number): Place {
  let [top, most]: [Place, number] = [{ layer: 0, column: 0 }, -1];
  data.cells[0]?.forEach((cells, layer) => {
    cells.forEach((_, column) => {
      const share = shareOf(data, 0, { layer, column }, step) ?? -1;
      if (share > most) [top, most] = [{ layer, column }, share];
    });
  });
  return top;
}
