import type { Heatmap } from "../../figures/index.js";
import { compareParts, type Part } from "../../formats/checkpoint/index.js";
import type { Analysis } from "./analysis.js";
import { isCounted } from "./counted.js";
import { paperMaps } from "./paper-maps.js";

/** Kinds of matrices in the model's layers, in the order of the figure; fused matrices in place of their parts. */
export function matrixColumns({ tensors }: Pick<Analysis, "tensors">): Part[] {
  return [...new Set(tensors.filter(isCounted).map(({ part }) => part))].sort(compareParts);
}

/** Short name of a kind of matrix in the figure: `q`, `gate_up`, `router`. */
export function columnName(part: Part): string {
  return part.replace(/_proj$/, "");
}

/** Numbers as `cells[layer][column]`; null where the model has no such matrix. */
function cellsOf(analysis: Analysis, pick: (part: Analysis["parts"][number]) => number | null | undefined) {
  const by = new Map(analysis.parts.map((one) => [`${one.layer} ${one.part}`, pick(one) ?? null]));
  return Array.from({ length: analysis.layers }, (_, layer) =>
    matrixColumns(analysis).map((column) => by.get(`${layer} ${column}`) ?? null),
  );
}

/** The share of rows that the first expert changed by more than the first threshold. */
export function changedRowsOf(analysis: Analysis): { columns: string[]; cells: (number | null)[][] } {
  const cells = cellsOf(analysis, ({ experts }) => experts[0]?.shares[0]);
  return { columns: matrixColumns(analysis).map(columnName), cells };
}

/** Of the rows that one of the first two experts changed, the share that both did, at the first threshold. */
export function overlapOf(analysis: Analysis): { columns: string[]; cells: (number | null)[][] } {
  const cells = cellsOf(analysis, ({ pairs }) => pairs[0]?.overlap[0]);
  return { columns: matrixColumns(analysis).map(columnName), cells };
}

/** The paper's figure of an analysis, at each of its thresholds. @param beside maps to put beside each expert's */
export function heatmapOf(analysis: Analysis, beside?: "paper"): Heatmap {
  const { thresholds } = analysis;
  const own = thresholds.some(({ values }) => new Set(values).size > 1);
  const columns = matrixColumns(analysis).map(columnName);
  const published = beside === undefined ? [] : paperMaps(analysis.layers, columns);
  return {
    title: "Where the experts changed",
    legend: `share of rows above ${own ? "each expert's own" : "the"} threshold`,
    columns,
    panels: analysis.experts.flatMap((title, expert) => [
      ...thresholds.map(({ values }, at) => ({
        title,
        subtitle: `threshold ${(values[expert] ?? 0).toExponential(2)}`,
        cells: cellsOf(analysis, ({ experts }) => experts[expert]?.shares[at]),
      })),
      ...published.map(({ kind, maps, cells }) => ({
        title: `paper: ${kind}`,
        subtitle: `mean of ${maps} maps`,
        cells,
      })),
    ]),
  };
}
