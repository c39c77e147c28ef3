// Thresholds on row MAVs: what a person may ask for, and what share of rows lies above.
import { own, RecipeError } from "../../core/index.js";

/** The thresholds of the paper's figures (arXiv 2410.01335, figure 2). */
export const THRESHOLD_PRESETS: Readonly<Record<string, number>> = { paper: 1.9e-5, "paper-fine": 1e-5 };

/** Share of projection rows above the automatic threshold. In the six published tables it is 11 to 16 %, 12.6 % on average. */
export const AUTO_SHARE = 1 / 8;

export const AUTO_RULE =
  "the row MAV that one in eight of the expert's rows of attention and feed-forward matrices exceeds, as in the published tables";

/** A threshold as asked for: a positive number, or one to be found from each expert's rows. */
export type ThresholdSpec = { readonly name: string; readonly value: number | "auto" };

/**
 * Reads `auto`, the name of a preset, or a number.
 * @throws {RecipeError} if it is none of them
 */
export function parseThreshold(text: string): ThresholdSpec {
  if (text === "auto") return { name: "auto", value: "auto" };
  const preset = own(THRESHOLD_PRESETS, text);
  const value = preset ?? (text.trim() === "" ? Number.NaN : Number(text));
  if (!Number.isFinite(value) || value <= 0) {
    throw RecipeError.at(
      { field: "threshold", actual: text },
      `the threshold ${JSON.stringify(text)} is neither a positive number nor one of auto, ${Object.keys(THRESHOLD_PRESETS).join(", ")}`,
    );
  }
  return { name: text, value };
}

/** How many rows are finite, and how many exceed each threshold; rows that are NaN count nowhere. */
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

/** The automatic threshold for the rows of an expert's projections; 0 if nothing changed. */
export function autoThreshold(projections: readonly Float32Array[]): number {
  const finite = projections.reduce(
    (sum, rows) => sum + rows.reduce((n, row) => n + (Number.isNaN(row) ? 0 : 1), 0),
    0,
  );
  return finite === 0 ? 0 : rankedRow(projections, Math.ceil((1 - AUTO_SHARE) * finite) - 1);
}

/**
 * The row of a rank, counted from 0 at the smallest, NaN left out. Found by counting: the bit patterns of numbers that
 * are not negative are in the order of the numbers, so the upper halves are counted first, then the lower ones.
 */
function rankedRow(lists: readonly Float32Array[], rank: number): number {
  const patterns = lists.map((rows) => new Uint32Array(rows.buffer, rows.byteOffset, rows.length));
  const [upper, rest] = rankedHalf(patterns, rank, (pattern) => pattern >>> 16);
  const [lower] = rankedHalf(patterns, rest, (pattern) => (pattern >>> 16 === upper ? pattern & 0xffff : undefined));
  return new Float32Array(Uint32Array.of(((upper << 16) | lower) >>> 0).buffer)[0] ?? 0;
}

const INFINITY_BITS = 0x7f800000;

/** The half in which a rank falls, and the rank among the rows of that half. */
function rankedHalf(
  lists: readonly Uint32Array[],
  rank: number,
  half: (pattern: number) => number | undefined,
): [half: number, rest: number] {
  const counts = new Uint32Array(65_536);
  for (const patterns of lists) {
    for (const pattern of patterns) {
      const at = pattern > INFINITY_BITS ? undefined : half(pattern);
      if (at !== undefined) counts[at] = (counts[at] ?? 0) + 1;
    }
  }
  let rest = rank;
  let at = 0;
  while (rest >= (counts[at] ?? 0)) rest -= counts[at++] ?? Number.POSITIVE_INFINITY;
  return [at, rest];
}
