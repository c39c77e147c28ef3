// Thresholds on row MAVs, and the share of rows above them.
import { own, RecipeError } from "../../kit/index.js";
import { concatenate } from "../../tensor/streaming/index.js";

/** The thresholds of the paper's figures (arXiv 2410.01335, figure 2). */
export const THRESHOLD_PRESETS: Readonly<Record<string, number>> = { paper: 1.9e-5, "paper-fine": 1e-5 };

/** Share of projection rows above the automatic threshold. In the six published tables it is 11 to 16 %, 12.6 % on average. */
const AUTO_SHARE = 1 / 8;

export const AUTO_RULE =
  "87.5th percentile of row change in the matrices of the expert's layers, as in the published tables";

/**
 * A requested threshold: a positive number; computed from the rows of each expert, or of all experts together; or numbers by the name
 * of the expert. All of the last kind are one threshold, which is automatic for the other experts.
 */
export type ThresholdSpec = {
  readonly name: string;
  readonly value: number | "auto" | "common" | Readonly<Record<string, number>>;
};

/**
 * Reads `auto`, `common`, the name of a preset, a number, or `EXPERT=` with one of the last two.
 * @throws RecipeError if it is none of them
 */
export function parseThreshold(text: string): ThresholdSpec {
  if (text === "auto" || text === "common") return { name: text, value: text };
  const [, expert, value] = /^(.*)=([^=]*)$/.exec(text) ?? [];
  if (expert !== undefined && value !== undefined) return { name: text, value: { [expert]: numberOf(value, text) } };
  return { name: text, value: numberOf(text, text) };
}

function numberOf(text: string, whole: string): number {
  const preset = own(THRESHOLD_PRESETS, text);
  const value = preset ?? (text.trim() === "" ? Number.NaN : Number(text));
  if (!Number.isFinite(value) || value <= 0) {
    throw RecipeError.at(
      { field: "threshold", actual: whole },
      `the threshold ${JSON.stringify(whole)} is neither a positive number nor one of auto, common, ${Object.keys(THRESHOLD_PRESETS).join(", ")}`,
    );
  }
  return value;
}

/** Counts finite rows and rows above each threshold; NaN rows are not counted. */
export function countRows(rows: Float32Array, thresholds: readonly number[]): { finite: number; above: number[] } {
  const above = thresholds.map(() => 0);
  let finite = 0;
  for (const row of rows) {
    if (Number.isNaN(row)) continue;
    finite++;
    for (let i = 0; i < above.length; i++) if (row > (thresholds[i] ?? 0)) above[i] = (above[i] ?? 0) + 1;
  }
  return { finite, above };
}

/** Rows that two experts changed by more than their thresholds. */
export interface RowOverlap {
  readonly both: readonly number[];
  /** Rows above it in at least one. */
  readonly either: readonly number[];
}

/** Counts the rows that two experts both changed; rows that are NaN in one of them are not counted. */
export function countOverlap(
  [x, y]: readonly [Float32Array, Float32Array],
  thresholds: readonly (readonly [x: number, y: number])[],
): RowOverlap {
  const [both, either] = [thresholds.map(() => 0), thresholds.map(() => 0)];
  x.forEach((own, row) => {
    const other = y[row] ?? Number.NaN;
    if (Number.isNaN(own) || Number.isNaN(other)) return;
    thresholds.forEach(([first, second], t) => {
      const above = Number(own > first) + Number(other > second);
      if (above === 2) both[t] = (both[t] ?? 0) + 1;
      if (above > 0) either[t] = (either[t] ?? 0) + 1;
    });
  });
  return { both, either };
}

/** The Jaccard index of the changed rows of several tensors together, by threshold; null where neither expert changed any. */
export function jaccard(overlaps: readonly RowOverlap[]): (number | null)[] {
  return (overlaps[0]?.both ?? []).map((_, t) => {
    const sum = (field: keyof RowOverlap) => overlaps.reduce((total, one) => total + (one[field][t] ?? 0), 0);
    const either = sum("either");
    return either > 0 ? sum("both") / either : null;
  });
}

/** The automatic threshold for the rows of projections, of one expert or of all; 0 if nothing changed. */
export function autoThreshold(projections: readonly Float32Array[]): number {
  const finite = concatenate(projections, Float32Array)
    .filter((row) => !Number.isNaN(row))
    .sort();
  return finite[Math.ceil((1 - AUTO_SHARE) * finite.length) - 1] ?? 0;
}
