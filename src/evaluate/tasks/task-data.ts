// Where tasks get their rows: from files in a folder, in the layouts people have, or from the hub through a function
// that is passed in. Readers of data sets for training are data/'s business.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import {
  formatBytes,
  formatSome,
  isFile,
  isObject,
  isSystemError,
  LayergraftError,
  own,
  readBounded,
} from "../../core/index.js";

export type Row = Readonly<Record<string, unknown>>;

/** Rows of a data set of the hub, all of them in their order. */
export type LoadRows = (request: {
  /** Such as `cais/mmlu`. */
  readonly dataset: string;
  readonly config: string;
  readonly split: string;
  readonly signal?: AbortSignal | undefined;
}) => Promise<readonly Row[]>;

export interface DataAccess {
  /** Folder with the data set's files, or with a folder of them per data set. */
  readonly folder?: string | undefined;
  /** Where there is no folder. */
  readonly loadRows?: LoadRows | undefined;
}

// The largest file of the data sets here has 6 MB.
const MAX_DATA_BYTES = 500_000_000;

export function dataError(
  message: string,
  where: { file?: string; field?: string } = {},
  cause?: unknown,
): LayergraftError {
  return new LayergraftError("data", message, where, cause);
}

/** Data that is not in the folder it was looked for in. */
export const MISSING_DATA = "missing-data";

export function missingDataError(message: string, folder: string): LayergraftError {
  return new LayergraftError(MISSING_DATA, message, { file: folder });
}

/**
 * The first of several paths that is there, within the folder of the data.
 * @param what for messages: `MGSM in Swahili`
 * @throws {LayergraftError} naming all of them
 */
export async function findFile(folder: string, candidates: readonly string[], what: string): Promise<string> {
  for (const candidate of candidates) {
    const path = join(folder, candidate);
    if (await isFile(path)) return path;
  }
  throw missingDataError(
    `${folder} has no data for ${what}; expected ${candidates.length > 1 ? "one of " : ""}${candidates.join(", ")}`,
    folder,
  );
}

/** Files of a folder by what their names match; undefined where the folder is not there. */
export async function listFiles(folder: string): Promise<string[] | undefined> {
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined;
    throw error;
  }
}

/**
 * A whole text file.
 * @param options.keepMark keep a byte-order mark as the character that it is; default false
 */
export async function readText(file: string, options: { readonly keepMark?: boolean } = {}): Promise<string> {
  try {
    const tooLarge = () =>
      dataError(`${file} has more than ${formatBytes(MAX_DATA_BYTES)}, too many for a data file`, { file });
    const bytes = await readBounded(file, MAX_DATA_BYTES, tooLarge);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: options.keepMark ?? false }).decode(bytes);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw dataError(`${file} does not exist`, { file }, error);
    if (isSystemError(error, "EISDIR")) throw dataError(`${file} is a folder; give a file`, { file }, error);
    if (error instanceof TypeError) throw dataError(`${file} is not UTF-8 text`, { file }, error);
    throw error;
  }
}

/**
 * Lines of a file, without the line ends and without an empty one after the last. Only \n and \r\n end a line: data
 * sets hold U+2028 and form feeds within lines.
 */
export async function readLines(file: string, options: { readonly keepMark?: boolean } = {}): Promise<string[]> {
  const text = await readText(file, options);
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Objects of a JSON Lines file; empty lines are skipped. */
export async function readJsonLines(file: string): Promise<Row[]> {
  const lines = await readLines(file);
  return lines.flatMap((line, i): Row[] => {
    if (line.trim() === "") return [];
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (error) {
      throw dataError(`${file}, line ${i + 1} is not JSON: ${(error as Error).message}`, { file }, error);
    }
    if (!isObject(value)) {
      throw dataError(`${file}, line ${i + 1} is not a JSON object; JSON Lines has one on each line`, { file });
    }
    return [value as Row];
  });
}

/**
 * A field of a row that must be text; numbers are taken as they are written.
 * @param where for messages: file and row
 */
export function textField(row: Row, field: string, where: string): string {
  const value = own(row, field);
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  const found = value === undefined || value === null ? "is missing" : `is ${JSON.stringify(value)}`;
  throw dataError(
    `${where}: the field ${field} ${found}; expected text. Its fields are ${formatSome(Object.keys(row), 12)}`,
    {
      field,
    },
  );
}

/** The rows, from the hub; the folder is looked at before this. */
export async function hubRows(
  data: DataAccess,
  request: Parameters<LoadRows>[0],
  what: string,
  expected: readonly string[],
): Promise<readonly Row[]> {
  if (data.loadRows) return data.loadRows(request);
  throw dataError(
    `there is no data for ${what}: give a folder (--data DIR) with ${expected.join(" or ")}, or let it be read from ` +
      `the hub, where it is ${request.dataset}`,
  );
}
