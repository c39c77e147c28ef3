import type { Part } from "../../formats/checkpoint/index.js";
import { groupBy } from "../../kit/index.js";
import { concatenate, pairsOf } from "../../tensor/streaming/index.js";
import type { Analysis, AnalysisWithRows } from "./analysis.js";
import { columnName, matrixColumns } from "./analysis-views.js";
import { isCounted } from "./counted.js";
import { paperMaps } from "./paper-maps.js";
import { autoThreshold, countOverlap } from "./thresholds.js";

/** One expert's changes of one matrix. */
export interface PageCell {
  /** Rows without infinite or NaN changes. */
  readonly rows: number;
  /** Rows above each step. */
  readonly above: readonly number[];
  /** Null where no row is left. */
  readonly mean: number | null;
  readonly maximum: number;
  /** Norm of the change divided by the base's; null if the base is zero. */
  readonly relative: number | null;
  /** Share of elements that did not change. */
  readonly zero: number;
}

/** How two experts' changes of one matrix relate. */
export interface PagePairCell {
  /** Rows above each step in both experts. */
  readonly both: readonly number[];
  /** The same at each of the analysis' thresholds, where experts may have different ones. */
  readonly bothAtMarks: readonly number[];
  /** Null where one of the changes is zero. */
  readonly cosine: number | null;
  /** Share of elements that the experts moved in opposite directions. */
  readonly conflict: number;
}

/** Data of the interactive page. Cells are `[layer][column]`; null where the model has no such matrix. */
export interface AnalysisPage {
  readonly base: string;
  readonly architecture: string;
  readonly layers: number;
  readonly rowAxis: Analysis["rowAxis"];
  readonly experts: readonly string[];
  /** Short names of projections. */
  readonly columns: readonly string[];
  /** Ascending thresholds: those of the analysis, and logarithmic steps over the range of row values. */
  readonly steps: readonly number[];
  /** The analysis' thresholds, the first to begin with, and one for all experts, `common`: the step of each expert. */
  readonly marks: readonly { readonly name: string; readonly steps: readonly number[] }[];
  /** By expert. */
  readonly cells: readonly (readonly (readonly (PageCell | null)[])[])[];
  /** By expert, over all cells. */
  readonly totals: readonly { readonly rows: number; readonly above: readonly number[] }[];
  /** In the order (0,1), (0,2), ..., (1,2), ...; cosine and conflict are over all cells. */
  readonly pairs: readonly {
    readonly experts: readonly [number, number];
    readonly cosine: number | null;
    readonly conflict: number;
    readonly cells: readonly (readonly (PagePairCell | null)[])[];
  }[];
  /** Mean published maps of a kind of expert, at this depth; absent from analyses of layergraft 2.0 and older. */
  readonly paper?: ReturnType<typeof paperMaps>;
  readonly warnings: readonly string[];
  /** A command to run next, with the sources as they were given; absent from the studio, and from analyses of layergraft 2.0. */
  readonly next?: string | undefined;
}

// Neighbouring steps differ by a few percent over the four decades that changes usually span.
const STEPS = 200;

export function pageData({ analysis, rows }: AnalysisWithRows): AnalysisPage {
  const { base, architecture, layers, rowAxis, experts, warnings } = analysis;
  const columns = matrixColumns(analysis);
  const grid = <T>(make: (layer: number, column: Part) => T): T[][] =>
    Array.from({ length: layers }, (_, layer) => columns.map((column) => make(layer, column)));
  const tensors = groupBy(analysis.tensors.filter(isCounted), ({ layer, part }) => `${layer} ${part}`);
  const parts = new Map(analysis.parts.map((one) => [`${one.layer} ${one.part}`, one]));
  const rowsOf = experts.map((expert) =>
    grid((layer, column) => {
      const all = tensors.get(`${layer} ${column}`) ?? [];
      const lists = all.map(({ tensor }) => rows.get(`${expert}/${tensor}`) ?? new Float32Array());
      return concatenate(lists, Float32Array);
    }),
  );
  // One for all, which tells how much more one expert changed than another.
  const common = { name: "common", values: experts.map(() => autoThreshold(rowsOf.flat(2))) };
  const hasCommon = experts.length < 2 || analysis.thresholds.some(({ name }) => name === "common");
  const thresholds = hasCommon ? analysis.thresholds : [...analysis.thresholds, common];
  const sorted = rowsOf.map((cells) => cells.map((layer) => layer.map(ascending)));
  const steps = slider(thresholds, sorted.flat(2));
  const marks = thresholds.map(({ name, values }) => ({
    name,
    steps: values.map((value) => steps.indexOf(value)),
  }));
  const cells = sorted.map((expertRows, expert) =>
    expertRows.map((layer, l) =>
      layer.map((values, c): PageCell | null => {
        const one = parts.get(`${l} ${columns[c]}`)?.experts[expert];
        if (!one) return null;
        const { mean, maximum, relativeNorm, exactZeroShare } = one;
        const figures = {
          mean: Number.isNaN(mean) ? null : mean,
          maximum,
          relative: relativeNorm,
          zero: exactZeroShare,
        };
        return { rows: values.length, above: countsAbove(values, steps), ...figures };
      }),
    ),
  );
  const totals = cells.map((expertCells) => {
    const all = expertCells.flat().filter((cell) => cell !== null);
    const above = steps.map((_, step) => all.reduce((sum, cell) => sum + (cell.above[step] ?? 0), 0));
    return { rows: all.reduce((sum, cell) => sum + cell.rows, 0), above };
  });
  const pairs = pairsOf(experts.length).map(([a, b], pair) => ({
    experts: [a, b] as const,
    cosine: analysis.matrices.pairs[pair]?.cosine ?? null,
    conflict: analysis.matrices.pairs[pair]?.conflictShare ?? 0,
    cells: Array.from({ length: layers }, (_, layer) =>
      columns.map((column, c): PagePairCell | null => {
        const one = parts.get(`${layer} ${column}`)?.pairs[pair];
        const [x, y] = [rowsOf[a]?.[layer]?.[c], rowsOf[b]?.[layer]?.[c]];
        if (!one || !x || !y) return null;
        // A row is above a threshold in both experts where the smaller of its changes is.
        const both = countsAbove(ascending(x.map((value, i) => Math.min(value, y[i] ?? Number.NaN))), steps);
        const own = thresholds.map(({ values }) => [values[a] ?? 0, values[b] ?? 0] as const);
        const { both: bothAtMarks } = countOverlap([x, y], own);
        return { both, bothAtMarks, cosine: one.cosine, conflict: one.conflictShare };
      }),
    ),
  }));
  const names = columns.map(columnName);
  return {
    base,
    architecture,
    layers,
    rowAxis,
    experts,
    columns: names,
    steps,
    marks,
    cells,
    totals,
    pairs,
    paper: paperMaps(layers, names),
    warnings,
  };
}

/** Rows in ascending order, without those that have infinite or NaN changes. */
function ascending(rows: Float32Array): Float32Array {
  return rows.filter((row) => !Number.isNaN(row)).sort();
}

/** Thresholds from just below the smallest changed row to the largest. */
function slider(thresholds: Analysis["thresholds"], lists: readonly Float32Array[]): number[] {
  const smallest = lists.reduce(
    (least, list) => Math.min(least, list.find((row) => row > 0) ?? least),
    Number.POSITIVE_INFINITY,
  );
  const largest = lists.reduce((most, list) => Math.max(most, list.at(-1) ?? 0), 0);
  const asked = thresholds.flatMap(({ values }) => values);
  const high = Math.max(largest, ...asked) || 1;
  const low = Math.max(0.999 * Math.min(smallest, ...asked.filter((value) => value > 0)), high * 1e-6);
  const even = Array.from({ length: STEPS }, (_, i) => low * (high / low) ** (i / (STEPS - 1)));
  return [...new Set([...even, ...asked])].sort((a, b) => a - b);
}

/** How many of ascending values exceed each of ascending thresholds. */
function countsAbove(sorted: Float32Array, thresholds: readonly number[]): number[] {
  let at = 0;
  return thresholds.map((threshold) => {
    while (at < sorted.length && (sorted[at] ?? 0) <= threshold) at++;
    return sorted.length - at;
  });
}
