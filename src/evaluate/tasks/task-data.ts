import { stat } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { exists, isFile, readBounded } from "../../kit/files/index.js";
import { type ErrorWhere, isSystemError, LayergraftError, own } from "../../kit/index.js";
import { formatBytes, formatSome } from "../../kit/printing/index.js";
import { type HubDatasetOptions, hubDataset, type ReadOptions, type Row, readRows } from "../../train/data/index.js";

/** Reads all rows of a data set of the hub, in order. */
export type LoadRows = (request: {
  readonly dataset: string;
  readonly config: string;
  readonly split: string;
  readonly read?: ReadOptions | undefined;
  readonly signal?: AbortSignal | undefined;
}) => Promise<readonly Row[]>;

export interface DataAccess {
  /** Folder with the files of data sets, directly or in a folder per data set. */
  readonly folder?: string | undefined;
  /** Used without `folder`. */
  readonly loadRows?: LoadRows | undefined;
}

/** Access to data until a signal fires: what tasks read with. */
export interface OpenData extends DataAccess {
  readonly signal: AbortSignal | undefined;
}

/** A row, and its file and line for messages. */
export interface LocatedRow {
  readonly row: Row;
  readonly where: string;
}

export function dataError(message: string, where: ErrorWhere = {}, cause?: unknown): LayergraftError {
  return new LayergraftError("data", message, where, cause);
}

/** Code of the error for data that is not in its folder. */
export const MISSING_DATA = "missing-data";

export function missingDataError(message: string, folder: string): LayergraftError {
  return new LayergraftError(MISSING_DATA, message, { file: folder });
}

/**
 * The first of several paths in a folder that is a file.
 * @param what for messages: `MGSM in Swahili`
 * @throws LayergraftError naming all of them
 */
export async function findFile(folder: string, paths: readonly string[], what: string): Promise<string> {
  for (const path of paths) {
    const file = resolve(folder, path);
    if (await isFile(file)) return file;
    if ((await exists(file)) && !(await stat(file)).isDirectory())
      throw dataError(`${file} is not a regular file. Save the rows as a file.`, { file });
  }
  const [absolute] = paths.filter(isAbsolute);
  if (absolute !== undefined) throw missingDataError(`${absolute} does not exist, or is not a file.`, absolute);
  const expected = `${paths.length > 1 ? "one of " : ""}${paths.join(", ")}`;
  throw missingDataError(`${folder} has no data for ${what}; expected ${expected}`, folder);
}

/** Rows of a file; a row that cannot be read is an error. */
export async function fileRows(file: string, options: ReadOptions = {}): Promise<LocatedRow[]> {
  const onBad = ({ line, reason }: { readonly line: number; readonly reason: string }): never => {
    throw dataError(`${file}, line ${line}: ${reason}`, { file });
  };
  const located: LocatedRow[] = [];
  for await (const { rows, lines } of readRows([file], { ...options, onBadRow: "skip", onBad })) {
    for (const [i, row] of rows.entries()) located.push({ row, where: `${file}, line ${lines[i]}` });
  }
  return located;
}

export interface TaskRows {
  /** For messages. */
  readonly what: string;
  /** Where they may be in the folder. */
  readonly files: readonly string[];
  /** How to read a file of the folder, where its name does not say so. */
  readonly read?: ReadOptions;
  /** Whether fields of TSV files may be quoted, in the folder and on the hub. Default: false. */
  readonly quotes?: boolean;
  readonly dataset: string;
  readonly config: string;
  readonly split: string;
}

/** Reads rows from the folder of the data, or from the hub if there is none. */
export async function taskRows({ folder, loadRows, signal }: OpenData, source: TaskRows): Promise<LocatedRow[]> {
  const { what, files, read, quotes, dataset, config, split } = source;
  const quoting = quotes === undefined ? {} : { quotes };
  if (folder !== undefined) return fileRows(await findFile(folder, files, what), { ...read, ...quoting, signal });
  if (!loadRows) {
    throw dataError(`there is no data for ${what}; pass a folder with ${files[0]}, or read ${dataset} of the hub`, {
      option: "data",
    });
  }
  const rows = await loadRows({ dataset, config, split, signal, ...(quotes === undefined ? {} : { read: quoting }) });
  return rows.map((row, i) => ({ row, where: `${dataset}, ${config}, ${split}, row ${i + 1}` }));
}

/** A field of a row that must be text or a number, as text. */
export function textField({ row, where }: LocatedRow, field: string): string {
  const value = own(row, field);
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  const found = value === undefined || value === null ? "is missing" : `is ${JSON.stringify(value)}`;
  const fields = formatSome(Object.keys(row), 12);
  throw dataError(`${where}: the field ${field} ${found}; expected text. Its fields are ${fields}`, { field });
}

// The largest file of the data sets here has 6 MB.
const MAX_FILE_BYTES = 500_000_000;

/** A whole text file, with its byte-order mark if it has one. */
export async function readText(file: string): Promise<string> {
  try {
    const tooLarge = () => dataError(`${file} has more than ${formatBytes(MAX_FILE_BYTES)}; split it`, { file });
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      await readBounded(file, MAX_FILE_BYTES, tooLarge),
    );
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw dataError(`${file} does not exist`, { file }, error);
    if (isSystemError(error, "EISDIR")) throw dataError(`${file} is a folder; pass a file`, { file }, error);
    if (error instanceof TypeError) throw dataError(`${file} is not UTF-8 text`, { file }, error);
    throw error;
  }
}

/**
 * Loads rows from the hub, for `DataAccess.loadRows`, with HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE as `hubDataset` uses
 * them.
 * @param options.onProgress called with the data set's name and bytes while files are fetched
 */
export function hubLoader(
  options: Pick<HubDatasetOptions, "environment" | "retryDelay"> & {
    readonly onProgress?: (state: { readonly dataset: string; readonly done: number; readonly total: number }) => void;
  } = {},
): LoadRows {
  const { onProgress, ...rest } = options;
  return async ({ dataset, config, split, read, signal }) => {
    const { files } = await hubDataset({
      ...rest,
      name: dataset,
      config,
      split,
      signal,
      onProgress: ({ done, total }) => onProgress?.({ dataset, done, total }),
    }).catch((error: unknown) => {
      // A folder solves whatever keeps the hub from answering.
      if (!(error instanceof LayergraftError) || !["data", "hub"].includes(error.code)) throw error;
      throw new LayergraftError(error.code, error.message, { ...error.where, option: "data" }, error);
    });
    const rows: Row[] = [];
    for await (const batch of readRows(files, { ...read, signal })) rows.push(...batch.rows);
    return rows;
  };
}
