// Reads single rows from the folder of an analysis, which may be a stranger's.
import { join } from "node:path";
import { z } from "zod";
import type { Part } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor } from "../../formats/safetensors/index.js";
import { readJsonObject } from "../../kit/files/index.js";
import { elementCount, FormatError, usageError } from "../../kit/index.js";
import { concatenate } from "../../tensor/streaming/index.js";
import { columnName } from "./analysis-views.js";
import { isCounted } from "./counted.js";

/** More than any matrix has. */
const MAX_ROWS = 100_000_000;

const figures = z.lazy(() =>
  z.object({
    format: z.literal(1),
    experts: z.array(z.string()).max(1000),
    tensors: z.array(
      z.object({
        tensor: z.string(),
        shape: z.array(z.number()),
        layer: z.number().nullable(),
        part: z.custom<Part>((part) => typeof part === "string"),
      }),
    ),
  }),
);

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
  const file = join(folder, "analysis.json");
  const { data } = figures.safeParse(await readJsonObject(file));
  if (!data) throw new FormatError(`${file} is not an analysis of this version; measure again`, { file });
  const { experts, tensors } = data;
  const names = tensors
    .filter((one) => one.layer === layer && columnName(one.part) === column && isCounted(one))
    .map(({ tensor }) => tensor);
  if (names.length === 0) throw usageError(`Layer ${layer} has no matrix ${column}.`);
  const rows = await openSafetensors(join(folder, "rows.safetensors"));
  const rowsOf = async (name: string): Promise<Float32Array> => {
    const tensor = rows.tensors.find((one) => one.name === name);
    if (!tensor) return new Float32Array();
    if (tensor.dtype !== "F32" || elementCount(tensor.shape) > MAX_ROWS) {
      throw new FormatError(`${rows.path} does not have the rows of an analysis; measure again`, { file: rows.path });
    }
    return floats(await readTensor(rows, tensor));
  };
  const changes = await Promise.all(
    experts.map(async (expert) =>
      concatenate(await Promise.all(names.map((name) => rowsOf(`${expert}/${name}`))), Float32Array),
    ),
  );
  const chosen = new Set(
    changes.flatMap((values) =>
      Array.from(values.keys())
        .filter((i) => (values[i] ?? 0) > 0)
        .sort((a, b) => (values[b] ?? 0) - (values[a] ?? 0) || a - b)
        .slice(0, most),
    ),
  );
  const largest = (index: number) => Math.max(...changes.map((values) => values[index] || 0));
  return [...chosen]
    .sort((a, b) => largest(b) - largest(a) || a - b)
    .map((index) => {
      const finite = changes.map((values) => values[index] ?? Number.NaN);
      return { index, changes: finite.map((value) => (Number.isNaN(value) ? null : value)) };
    });
}

/** Stored float32 values as numbers. */
export function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
