// The published maps of six experts (arXiv 2410.01335, figures 2 and 4 to 9), and how like them an expert's map is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { groupBy } from "../../kit/index.js";
import type { Analysis } from "./analysis.js";
import { columnName } from "./analysis-views.js";
import { isCounted } from "./counted.js";
import { countRows, THRESHOLD_PRESETS } from "./thresholds.js";

type Cells = readonly (readonly (number | null)[])[];

/** assets/paper/heatmaps.json, which also has the source of the numbers. */
interface Published {
  readonly columns: readonly string[];
  readonly experts: readonly { readonly name: string; readonly kind: PaperKind; readonly layers: Cells }[];
}

export type PaperKind = "math" | "language";

/** How like an expert's map is to the published ones of a kind, by threshold. */
export interface PaperLikeness {
  readonly expert: string;
  readonly kind: PaperKind;
  /** Published maps of the kind. */
  readonly maps: number;
  /** At the paper's thresholds, and at those of the analysis. */
  readonly at: readonly ({ readonly threshold: string; readonly value: number } & Correlation)[];
}

export interface Correlation {
  /**
   * Mean of Spearman's rank correlations with the maps, over the cells that both have; null where the expert's map is the
   * same everywhere.
   */
  readonly correlation: number | null;
  /** 95%, by Fisher's z with the standard error of Bonett and Wright 2000; null below 4 layers. */
  readonly interval: { readonly low: number; readonly high: number } | null;
}

const readPublished = (): Published =>
  JSON.parse(readFileSync(createRequire(import.meta.url).resolve("#paper"), "utf8")) as Published;

/**
 * A map at another depth, matched by relative position: a layer has the mean of the layers at its part of the depth,
 * weighted by how much of it they cover.
 */
export function atDepth(cells: Cells, layers: number): (number | null)[][] {
  const scale = cells.length / layers;
  return Array.from({ length: layers }, (_, layer) => {
    const [from, to] = [layer * scale, (layer + 1) * scale];
    return (cells[0] ?? []).map((_, column) => {
      let sum = 0;
      for (let at = Math.floor(from); at < Math.min(cells.length, to); at++) {
        sum += (cells[at]?.[column] ?? 0) * (Math.min(at + 1, to) - Math.max(at, from));
      }
      return sum / scale;
    });
  });
}

/** The mean of the published maps of each kind, at a depth, with these columns: null where the paper has none. */
export function paperMaps(
  layers: number,
  columns: readonly string[],
): { readonly kind: PaperKind; readonly maps: number; readonly cells: (number | null)[][] }[] {
  const { columns: published, experts } = readPublished();
  return [...groupBy(experts, ({ kind }) => kind)].map(([kind, own]) => {
    const all = own.map((one) => atDepth(one.layers, layers));
    const mean = (layer: number, column: number) =>
      column < 0 ? null : all.reduce((sum, cells) => sum + (cells[layer]?.[column] ?? 0), 0) / all.length;
    const cells = Array.from({ length: layers }, (_, layer) =>
      columns.map((name) => mean(layer, published.indexOf(name))),
    );
    return { kind, maps: all.length, cells };
  });
}

/** How like the maps of an analysis are to the published ones of each kind. */
export function paperLikeness(
  analysis: Pick<Analysis, "layers" | "experts" | "thresholds" | "tensors">,
  rows: ReadonlyMap<string, Float32Array>,
): PaperLikeness[] {
  const { columns, experts: published } = readPublished();
  const byKind = groupBy(published, ({ kind }) => kind);
  const matrices = groupBy(analysis.tensors.filter(isCounted), ({ layer, part }) => `${layer} ${columnName(part)}`);
  const presets = Object.entries(THRESHOLD_PRESETS).filter(
    ([name]) => !analysis.thresholds.some((one) => one.name === name),
  );
  return analysis.experts.flatMap((expert, e) => {
    const thresholds = [
      ...presets.map(([threshold, value]) => ({ threshold, value })),
      ...analysis.thresholds.map(({ name, values }) => ({ threshold: name, value: values[e] ?? 0 })),
    ];
    const counts = (layer: number, column: string) =>
      (matrices.get(`${layer} ${column}`) ?? []).map(({ tensor }) =>
        countRows(
          rows.get(`${expert}/${tensor}`) ?? new Float32Array(),
          thresholds.map(({ value }) => value),
        ),
      );
    const cells = Array.from({ length: analysis.layers }, (_, layer) => columns.map((column) => counts(layer, column)));
    const shares = thresholds.map((_, t) =>
      cells.map((row) =>
        row.map((own) => {
          const finite = own.reduce((sum, one) => sum + one.finite, 0);
          return finite > 0 ? own.reduce((sum, { above }) => sum + (above[t] ?? 0), 0) / finite : null;
        }),
      ),
    );
    return [...byKind].map(([kind, own]): PaperLikeness => {
      const maps = own.map(({ layers }) => atDepth(layers, analysis.layers));
      const at = thresholds.map((one, t) => ({ ...one, ...correlation(shares[t] ?? [], maps) }));
      return { expert, kind, maps: maps.length, at };
    });
  });
}

/** Cells of a layer, and those of neighbours, change together, so the interval counts each layer as one observation. */
function correlation(cells: Cells, maps: readonly Cells[]): Correlation {
  const own = cells.flatMap((row, layer) =>
    row.flatMap((value, column) => (value === null ? [] : [{ value, layer, column }])),
  );
  const layers = new Set(own.map(({ layer }) => layer)).size;
  const ranks = ranksOf(own.map(({ value }) => value));
  const all = maps.map((map) =>
    correlationOfRanks(ranks, ranksOf(own.map(({ layer, column }) => map[layer]?.[column] ?? 0))),
  );
  const mean = all.reduce((sum, one) => sum + one, 0) / all.length;
  if (!Number.isFinite(mean)) return { correlation: null, interval: null };
  const reach = 1.96 * Math.sqrt((1 + mean ** 2 / 2) / (layers - 3));
  const z = Math.atanh(Math.max(-0.999999, Math.min(0.999999, mean)));
  const interval = layers > 3 ? { low: Math.tanh(z - reach), high: Math.tanh(z + reach) } : null;
  return { correlation: mean, interval };
}

/** Ranks from 0; equal values share the mean of theirs. */
function ranksOf(values: readonly number[]): number[] {
  const order = [...values.keys()].sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
  const ranks = new Array<number>(values.length).fill(0);
  for (let from = 0, to = 0; from < order.length; from = to) {
    while (to < order.length && values[order[to] ?? 0] === values[order[from] ?? 0]) to++;
    for (const index of order.slice(from, to)) ranks[index] = (from + to - 1) / 2;
  }
  return ranks;
}

/** NaN where one side is the same everywhere. */
function correlationOfRanks(x: readonly number[], y: readonly number[]): number {
  const middle = (x.length - 1) / 2;
  let [xy, xx, yy] = [0, 0, 0];
  for (const [i, value] of x.entries()) {
    const [a, b] = [value - middle, (y[i] ?? 0) - middle];
    [xy, xx, yy] = [xy + a * b, xx + a * a, yy + b * b];
  }
  return xy / Math.sqrt(xx * yy);
}
