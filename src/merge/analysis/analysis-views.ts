// Data for the heatmap and the interactive page of an analysis.

import { GREENS, type Heatmap } from "../../report/index.js";
import { compareParts, type Part } from "../../weights/index.js";
import { concatenate } from "../measurements/row-changes.js";
import type { Analysis, AnalysisWithRows, DeltaFigures } from "./analysis.js";

/** Columns of the paper's figure, with fused matrices in place of their parts. */
const COLUMNS: readonly Part[] = [
  "q_proj",
  "k_proj",
  "v_proj",
  "qkv_proj",
  "o_proj",
  "gate_proj",
  "up_proj",
  "gate_up_proj",
  "down_proj",
];

/** Projections of the model, in the order of the figure. */
function projectionColumns({ parts }: Analysis): Part[] {
  const present = new Set(parts.filter(({ layer }) => layer !== null).map(({ part }) => part));
  return COLUMNS.filter((part) => present.has(part)).sort(compareParts);
}

/** Short name of a projection in the figure: `q`, `gate_up`. */
export function columnName(part: Part): string {
  return part.replace(/_proj$/, "");
}

/** One expert's figures as `cells[layer][column]`; null where the model has no such matrix. */
function cellsOf<T>(analysis: Analysis, expert: number, pick: (figures: DeltaFigures) => T): (T | null)[][] {
  const columns = projectionColumns(analysis);
  return Array.from({ length: analysis.layers }, (_, layer) =>
    columns.map((column) => {
      const cell = analysis.parts.find((part) => part.layer === layer && part.part === column);
      const figures = cell?.experts[expert];
      return figures ? pick(figures) : null;
    }),
  );
}

// Neighbouring steps differ by a few percent over the four decades that changes usually span.
const STEPS = 200;

/**
 * Data of the interactive page: shares at logarithmically spaced thresholds over the range of row values.
 * `greens` are the colours of the heatmap. `cells[expert][layer][column]` is null where the model has no such matrix; `above` counts rows per slider step.
 */
export function pageData({ analysis, rows }: AnalysisWithRows) {
  const columns = projectionColumns(analysis);
  const tensorsAt = (layer: number, column: Part) =>
    analysis.tensors.filter((tensor) => tensor.layer === layer && tensor.part === column && tensor.shape.length > 1);
  const sortedRows = (expert: string, layer: number, column: Part) => {
    const lists = tensorsAt(layer, column).map(({ tensor }) => rows.get(`${expert}/${tensor}`) ?? new Float32Array());
    return concatenate(lists, Float32Array)
      .filter((row) => !Number.isNaN(row))
      .sort();
  };
  const sorted = analysis.experts.map((expert) =>
    Array.from({ length: analysis.layers }, (_, layer) => columns.map((column) => sortedRows(expert, layer, column))),
  );
  const steps = slider(analysis, sorted.flat(2));
  const nearest = (value: number) =>
    steps.reduce((best, step, i) => (closer(step, steps[best] ?? 0, value) ? i : best), 0);
  const cells = analysis.experts.map((_, expert) => {
    const figures = cellsOf(analysis, expert, (one) => one);
    return (sorted[expert] ?? []).map((layer, l) =>
      layer.map((values, column) => {
        const one = figures[l]?.[column];
        if (!one) return null;
        const { mean, maximum, relativeNorm, exactZeroShare } = one;
        const above = countsAbove(values, steps);
        return { rows: values.length, above, mean, maximum, relative: relativeNorm, zero: exactZeroShare };
      }),
    );
  });
  const totals = cells.map((layers) => {
    const all = layers.flat().filter((cell) => cell !== null);
    const above = steps.map((_, step) => all.reduce((sum, cell) => sum + (cell.above[step] ?? 0), 0));
    return { rows: all.reduce((sum, cell) => sum + cell.rows, 0), above };
  });
  const marks = analysis.thresholds.flatMap(({ name, values }) =>
    name === "auto" && values.length > 1
      ? values.map((value, i) => ({ name: `auto for ${analysis.experts[i]}`, step: nearest(value) }))
      : [{ name, step: nearest(values[0] ?? 0) }],
  );
  const { base, architecture, layers, rowAxis, experts, warnings } = analysis;
  const names = columns.map(columnName);
  const start = marks[0]?.step ?? 0;
  const figures = { steps, start, marks, cells, totals, greens: GREENS };
  return { base, architecture, layers, rowAxis, experts, columns: names, ...figures, warnings };
}

/** Thresholds from just below the smallest changed row to the largest. */
function slider(analysis: Analysis, lists: readonly Float32Array[]): number[] {
  const smallest = lists.reduce(
    (least, list) => Math.min(least, list.find((row) => row > 0) ?? least),
    Number.POSITIVE_INFINITY,
  );
  const largest = lists.reduce((most, list) => Math.max(most, list.at(-1) ?? 0), 0);
  const asked = analysis.thresholds.flatMap(({ values }) => values).filter((value) => value > 0);
  const high = Math.max(largest, ...asked) || 1;
  const low = Math.max(Math.min(smallest, ...asked), high * 1e-6);
  const even = Array.from({ length: STEPS }, (_, i) => low * (high / low) ** (i / (STEPS - 1)));
  return [...new Set([...even, ...asked])].sort((a, b) => a - b);
}

function closer(a: number, b: number, value: number): boolean {
  return Math.abs(Math.log(a / value)) < Math.abs(Math.log(b / value));
}

/** How many of ascending values exceed each of ascending thresholds. */
function countsAbove(sorted: Float32Array, thresholds: readonly number[]): number[] {
  let at = 0;
  return thresholds.map((threshold) => {
    while (at < sorted.length && (sorted[at] ?? 0) <= threshold) at++;
    return sorted.length - at;
  });
}

/** The paper's figure of an analysis, at its first threshold. */
export function heatmapOf(analysis: Analysis): Heatmap {
  const [threshold] = analysis.thresholds;
  return {
    title: "Where the experts changed",
    legend: "share of rows above the threshold",
    columns: projectionColumns(analysis).map(columnName),
    panels: analysis.experts.map((title, expert) => ({
      title,
      subtitle: `threshold ${(threshold?.values[expert] ?? 0).toExponential(2)}`,
      cells: cellsOf(analysis, expert, (figures) => figures.shares[0] ?? 0),
    })),
  };
}
