// What readers give: rows, in batches, with where each stood. And what they do with rows that cannot be read.
import { formatBytes } from "../../core/index.js";
import { DataError } from "./data-error.js";

/** One row: values by column name. Strings, finite numbers, booleans, null, lists and objects of these. */
export type Row = Readonly<Record<string, unknown>>;

/** Rows of one file, in its order. */
export interface RowBatch {
  readonly file: string;
  readonly rows: readonly Row[];
  /** The line (of a parquet file: the row) on which each row begins, counted from 1. */
  readonly lines: readonly number[];
  /** All columns of the file, also those that were not asked for; undefined where only the rows can tell (JSON). */
  readonly columns: readonly string[] | undefined;
}

/** A row that could not be read. */
export interface BadRow {
  readonly file: string;
  readonly line: number;
  /** What was wrong, as the end of a sentence. */
  readonly reason: string;
}

/** What a reader of one file is given. */
export interface ReadContext {
  /** For messages and batches; what is read may be a link's target. */
  readonly file: string;
  /** Called for a row that cannot be read: throws, or counts it so that the reader goes on. */
  readonly bad: (line: number, reason: string) => void;
}

/** The error that a bad row is when rows may not be skipped. */
export function badRowError({ file, line, reason }: BadRow): DataError {
  return new DataError(
    `${file}, line ${line}: ${reason}. Correct the file, or skip and count such rows (on_bad_row: skip).`,
    { file, line },
  );
}

/** Rows of a batch; enough to spread the cost of a step, few enough to hold. */
export const ROWS_PER_BATCH = 1_000;

/** Longest line, record, element or parquet text in bytes: more than a whole book, and little enough to tokenize. */
export const MAX_ROW_BYTES = 8_000_000;

/** What is wrong with a longer one. */
export const TOO_LONG = `has more than ${formatBytes(MAX_ROW_BYTES)}`;

/** What to do about it. */
export const SPLIT_IT = "Split its text into several rows, or remove it.";

/** Collects rows and their lines, and hands them over in batches. */
export class RowCollector {
  readonly #file: string;
  readonly #columns: readonly string[] | undefined;
  #rows: Row[] = [];
  #lines: number[] = [];

  constructor(file: string, columns?: readonly string[]) {
    this.#file = file;
    this.#columns = columns;
  }

  /** Adds a row; gives a batch back when one is full. */
  add(row: Row, line: number): RowBatch | undefined {
    this.#rows.push(row);
    this.#lines.push(line);
    return this.#rows.length >= ROWS_PER_BATCH ? this.rest() : undefined;
  }

  /** What is left, if anything is. */
  rest(): RowBatch | undefined {
    if (this.#rows.length === 0) return undefined;
    const batch = { file: this.#file, rows: this.#rows, lines: this.#lines, columns: this.#columns };
    this.#rows = [];
    this.#lines = [];
    return batch;
  }
}

/** Takes a parsed JSON value as a row. */
export function asRow(value: unknown): Row | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : undefined;
}
