import { type ErrorWhere, LayergraftError } from "../../../kit/index.js";
import { formatBytes } from "../../../kit/printing/index.js";

/** A data file, row, hub data set or mixture that cannot be used. */
export class DataError extends LayergraftError {
  /** Line of a text file, or row of a parquet file, counted from 1. */
  readonly line: number | undefined;

  constructor(message: string, where: ErrorWhere & { readonly line?: number } = {}, cause?: unknown) {
    super("data", message, where, cause);
    this.line = where.line;
  }
}

/** One row: values by column name. Strings, finite numbers, booleans, null, lists and objects of these. */
export type Row = Readonly<Record<string, unknown>>;

/** Some rows of a file, in its order. */
export interface RowBatch {
  readonly file: string;
  readonly rows: readonly Row[];
  /** The line (in a parquet file: the row) on which each row begins, counted from 1. */
  readonly lines: readonly number[];
  /** All columns of the file, also those not asked for; undefined for JSON, where only the rows show them. */
  readonly columns: readonly string[] | undefined;
}

export interface BadRow {
  readonly file: string;
  readonly line: number;
  /** What is wrong, as the end of a sentence. */
  readonly reason: string;
}

/** Columns or fields whose values, or values in them, are floats in Python, also where they are whole. */
export interface Floats {
  readonly [name: string]: true | Floats;
}

/** Any key of a map. */
export const ANY_KEY = "*";

/** What the reader of a format finds, part by part. */
export interface FilePart {
  /** Rows with their lines, and the reasons why others cannot be read. */
  readonly found: readonly { readonly line: number; readonly row: Row | string }[];
  readonly columns?: readonly string[] | undefined;
  /** Default: rows know. */
  readonly floats?: Floats | undefined;
}

export type FileReader = AsyncGenerator<FilePart, void, undefined>;

/** The error of a bad row where rows may not be skipped. */
export function badRowError({ file, line, reason }: BadRow): DataError {
  return new DataError(
    `${file}, line ${line}: ${reason}. Correct the file, or skip and count such rows (on_bad_row: skip).`,
    { file, line },
  );
}

/** Most columns of a file, as each row names all of them. Wide tables of language data have hundreds. */
export const MAX_COLUMNS = 10_000;

/** @throws DataError for more columns than a row can have */
export function checkColumnCount(count: number, file: string): void {
  if (count <= MAX_COLUMNS) return;
  const many = `${count.toLocaleString("en-US")} columns; the limit is ${MAX_COLUMNS.toLocaleString("en-US")}`;
  throw new DataError(`${file} has ${many}. Write a file with only the columns that are read.`, { file });
}

/** Longest line, record, element or parquet text in bytes: longer than a book, and short enough to tokenize. */
export const MAX_ROW_BYTES = 8_000_000;

/** What is wrong with a longer one. */
export const TOO_LONG = `has more than ${formatBytes(MAX_ROW_BYTES)}`;

/** The error of a row that is too long to be held. @param what such as `the line` */
export function tooLongError(file: string, line: number, what: string): DataError {
  return new DataError(`${file}, line ${line}: ${what} ${TOO_LONG}. Split its text into several rows, or remove it.`, {
    file,
    line,
  });
}

/** What is wrong with bytes that are not text. */
export const NOT_UTF8 = "the text is not UTF-8";
