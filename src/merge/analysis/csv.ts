// Reads tables of shares from CSV: one row per layer, one column per projection.

import { basename } from "node:path";
import { isSystemError, RecipeError, readBounded } from "../../core/index.js";

export interface ShareTable {
  /** File name without extension. */
  readonly name: string;
  readonly columns: readonly string[];
  /** `cells[layer][column]` */
  readonly cells: readonly (readonly (number | null)[])[];
}

// Room for more layers than any model has.
const MAX_BYTES = 10_000_000;

/**
 * Reads a table `layer,q_proj,k_proj,...` of shares between 0 and 1; an empty cell is null.
 * @throws RecipeError naming file and line
 */
export async function readShareTable(file: string): Promise<ShareTable> {
  const tooLarge = () => RecipeError.at({ file }, `${file} is too large to be a table of shares`);
  const bytes = await readBounded(file, MAX_BYTES, tooLarge).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) throw RecipeError.at({ file }, `${file} does not exist`);
    if (isSystemError(error, "EISDIR")) throw RecipeError.at({ file }, `${file} is a folder; give a CSV file`);
    throw error;
  });
  return parseShareTable(bytes.toString("utf8"), file);
}

function parseShareTable(text: string, file: string): ShareTable {
  const [header = "", ...lines] = text
    .replace(/^\uFEFF/, "")
    .trimEnd()
    .split(/\r?\n/);
  const [first, ...columns] = header.split(",").map((name) => name.trim());
  if (first !== "layer" || columns.length === 0 || columns.includes("") || new Set(columns).size < columns.length) {
    throw RecipeError.at(
      { file },
      `${file} must begin with the line layer,q_proj,k_proj,... and name each column once`,
    );
  }
  const problems: string[] = [];
  const rows = new Map<number, (number | null)[]>();
  lines.forEach((line, i) => {
    const [layer = "", ...values] = line.split(",").map((value) => value.trim());
    const numbers = values.map((value) => (value === "" ? null : Number(value)));
    const isShare = (value: number | null) => value === null || (value >= 0 && value <= 1);
    if (!/^\d+$/.test(layer) || Number(layer) >= lines.length)
      problems.push(`line ${i + 2}: ${JSON.stringify(layer)} is not a layer from 0 to ${lines.length - 1}`);
    else if (rows.has(Number(layer))) problems.push(`line ${i + 2}: layer ${layer} is repeated`);
    else if (numbers.length !== columns.length)
      problems.push(`line ${i + 2}: ${numbers.length} values for ${columns.length} columns`);
    else if (!numbers.every(isShare)) problems.push(`line ${i + 2}: a value is not a share between 0 and 1`);
    else rows.set(Number(layer), numbers);
  });
  if (lines.length === 0) problems.push("there is no layer");
  if (problems.length > 0) throw new RecipeError(`${file} is not a table of shares:`, problems, { file });
  const cells = Array.from({ length: lines.length }, (_, layer) => rows.get(layer) ?? []);
  return {
    name: basename(file).replace(/\.[^.]*$/, ""),
    columns: columns.map((name) => name.replace(/_proj$/, "")),
    cells,
  };
}
