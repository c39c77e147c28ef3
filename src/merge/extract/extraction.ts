// What an adapter keeps of a model's change: by weight, by part and in total.

import type { Heatmap } from "../../figures/index.js";
import { compareParts, type Part } from "../../formats/checkpoint/index.js";
import { extremesOf, largestOf } from "../../kit/arrays/index.js";
import { groupBy, type Shape, VERSION } from "../../kit/index.js";
import { columnName } from "../analysis/analysis-views.js";

/** A linear weight of the adapter. */
export interface ExtractedModule {
  readonly module: string;
  readonly layer: number | null;
  readonly part: Part;
  /** As stored. */
  readonly shape: Shape;
  readonly rank: number;
  /** Squared Frobenius norm of the change. */
  readonly squaredChange: number;
  /** Share of `squaredChange` that the factors keep. */
  readonly share: number;
}

/** Share of the squared change that a part's weights keep, summed over them. */
export interface ExtractedPart {
  readonly part: Part;
  /** Number of changed weights. */
  readonly weights: number;
  readonly smallestRank: number;
  readonly largestRank: number;
  /** Share kept if each weight had at most the rank at this place in `Extraction.ranks`. */
  readonly shares: readonly number[];
}

/** What an adapter keeps of a model's change. The content of extraction.json. */
export interface Extraction {
  readonly format: 1;
  readonly layergraft: string;
  readonly base: string;
  readonly model: string;
  readonly seed: number;
  /** Powers of two up to the largest rank, and that rank. */
  readonly ranks: readonly number[];
  readonly parts: readonly ExtractedPart[];
  readonly total: Omit<ExtractedPart, "part">;
  readonly modules: readonly ExtractedModule[];
  /** Linear weights equal to the base's, which need no factors. */
  readonly unchanged: number;
  /** Changed tensors that are saved whole. */
  readonly saved: readonly string[];
  /** Changed tensors that stay the base's. */
  readonly left: readonly string[];
  /** Rows of the vocabulary where the model's embedding has another number of them than the base's; the base is resized to it. */
  readonly rows: number | null;
  /** Size of adapter_model.safetensors without its header. */
  readonly bytes: number;
  readonly warnings: readonly string[];
}

/** A weight, and the squared norm that each of its ranks adds. */
export interface MeasuredModule extends Omit<ExtractedModule, "rank" | "share"> {
  readonly gains: Float64Array;
}

type Facts = Pick<
  Extraction,
  "base" | "model" | "seed" | "unchanged" | "saved" | "left" | "rows" | "bytes" | "warnings"
>;

/** Sums up what the factors of at least one weight keep. */
export function summarize(measured: readonly MeasuredModule[], facts: Facts): Extraction {
  const { base, model, seed, ...rest } = facts;
  const ranks = ranksUpTo(largestOf(measured.map(({ gains }) => gains.length)));
  const summary = (of: readonly MeasuredModule[]): Omit<ExtractedPart, "part"> => {
    const total = sumOf(of.map(({ squaredChange }) => squaredChange));
    const [smallestRank, largestRank] = extremesOf(of.map(({ gains }) => gains.length));
    return {
      weights: of.length,
      smallestRank,
      largestRank,
      shares: ranks.map((most) => shareOf(sumOf(of.map(({ gains }) => sumOf(gains.subarray(0, most)))), total)),
    };
  };
  return {
    format: 1,
    layergraft: VERSION,
    base,
    model,
    seed,
    ranks,
    parts: [...groupBy(measured, ({ part }) => part)]
      .map(([part, of]) => ({ part, ...summary(of) }))
      .sort((a, b) => compareParts(a.part, b.part)),
    total: summary(measured),
    modules: measured.map(({ gains, squaredChange, ...module }) => {
      return { ...module, rank: gains.length, squaredChange, share: shareOf(sumOf(gains), squaredChange) };
    }),
    ...rest,
  };
}

/** Layers by parts, each cell the share that the factors keep. */
export function sharesHeatmap({ parts, modules, model }: Extraction, layers: number): Heatmap {
  const columns = parts
    .map(({ part }) => part)
    .filter((part) => modules.some((one) => one.part === part && one.layer !== null));
  const cells = Array.from({ length: layers }, (_, layer) =>
    columns.map((part) => {
      const own = modules.filter((one) => one.layer === layer && one.part === part);
      const total = sumOf(own.map((one) => one.squaredChange));
      return own.length === 0 ? null : sumOf(own.map((one) => one.share * one.squaredChange)) / total;
    }),
  );
  return {
    title: "Share of the squared change that the adapter keeps",
    legend: "share kept",
    columns: columns.map(columnName),
    panels: [{ title: model, cells }],
  };
}

/** 1, 2, 4, ... below a rank, and the rank. */
function ranksUpTo(rank: number): number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(Math.max(1, rank))) }, (_, i) => 2 ** i);
  return [...powers, rank];
}

// Sums of the same numbers in another order may exceed the total by a rounding error.
const shareOf = (kept: number, total: number) => Math.min(1, kept / total);

function sumOf(values: readonly number[] | Float64Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}
