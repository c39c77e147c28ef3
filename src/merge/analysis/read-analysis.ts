// Reads the folder of an analysis: figures, and single rows without the rest.
import { join } from "node:path";
import { FormatError, readBounded, usageError } from "../../core/index.js";
import { concatenate } from "../../values/index.js";
import { openSafetensors, readTensor } from "../../weights/index.js";
import type { Analysis, AnalysisWithRows } from "./analysis.js";
import { columnName } from "./analysis-views.js";

// A thousand times that of a large model.
const MAX_BYTES = 1_000_000_000;

/** An analysis as `writeAnalysis` wrote it. @throws LayergraftError if the folder has none */
export async function readAnalysis(folder: string): Promise<AnalysisWithRows> {
  const analysis = await readFigures(folder);
  const file = await openSafetensors(join(folder, "rows.safetensors"));
  const rows = new Map<string, Float32Array>();
  for (const tensor of file.tensors) rows.set(tensor.name, floats(await readTensor(file, tensor)));
  return { analysis, rows };
}

async function readFigures(folder: string): Promise<Analysis> {
  const file = join(folder, "analysis.json");
  const bytes = await readBounded(file, MAX_BYTES, () => new FormatError(`${file} is too large`, { file }));
  const analysis = JSON.parse(bytes.toString("utf8")) as Analysis;
  if (analysis.format !== 1)
    throw new FormatError(`${file} is not an analysis of this version; measure again`, { file });
  return analysis;
}

/** A row and its mean absolute change in each expert; null where that is infinite or NaN. */
export interface ChangedRow {
  /** Index among the rows of the matrix; of several matrices, among all of theirs in their order. */
  readonly index: number;
  readonly changes: readonly (number | null)[];
}

/**
 * The rows of one matrix that an expert changed most, the largest change first.
 * @param folder of the analysis
 * @param column short name of a projection, such as `q`
 * @param most rows for each expert; the result joins those of all
 * @throws LayergraftError code `usage` if the model has no such matrix
 */
export async function mostChangedRows(
  folder: string,
  { layer, column, most }: { readonly layer: number; readonly column: string; readonly most: number },
): Promise<ChangedRow[]> {
  const { experts, tensors } = await readFigures(folder);
  const names = tensors
    .filter((one) => one.layer === layer && columnName(one.part) === column && one.shape.length > 1)
    .map(({ tensor }) => tensor);
  if (names.length === 0) throw usageError(`Layer ${layer} has no matrix ${column}.`);
  const file = await openSafetensors(join(folder, "rows.safetensors"));
  const rowsOf = async (name: string): Promise<Float32Array> => {
    const tensor = file.tensors.find((one) => one.name === name);
    return tensor ? floats(await readTensor(file, tensor)) : new Float32Array();
  };
  const changes = await Promise.all(
    experts.map(async (expert) =>
      concatenate(await Promise.all(names.map((name) => rowsOf(`${expert}/${name}`))), Float32Array),
    ),
  );
  const chosen = new Set(
    changes.flatMap((rows) =>
      Array.from(rows.keys())
        .filter((i) => (rows[i] ?? 0) > 0)
        .sort((a, b) => (rows[b] ?? 0) - (rows[a] ?? 0) || a - b)
        .slice(0, most),
    ),
  );
  const largest = (index: number) => Math.max(...changes.map((rows) => rows[index] || 0));
  return [...chosen]
    .sort((a, b) => largest(b) - largest(a) || a - b)
    .map((index) => {
      const finite = changes.map((rows) => rows[index] ?? Number.NaN);
      return { index, changes: finite.map((value) => (Number.isNaN(value) ? null : value)) };
    });
}

/** Stored float32 values as numbers. */
export function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
