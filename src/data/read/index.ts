// Reads rows out of files of any known format, one file after the other, in batches.
import { CancelledError, type ErrorWhere } from "../../core/index.js";
import { readBytes } from "./bytes.js";
import { DataError } from "./data-error.js";
import { readDelimited } from "./delimited.js";
import { type Format, formatOfName } from "./files.js";
import { readJson } from "./json-array.js";
import { readJsonLines, readText } from "./json-lines.js";
import { readParquet } from "./parquet.js";
import { type BadRow, badRowError, type ReadContext, type RowBatch } from "./row.js";

export { FORMATS, type Format, formatOfName, localFiles } from "./files.js";
export type { BadRow, Row, RowBatch } from "./row.js";

/** How files are to be read. */
export interface ReadOptions {
  /** Default: by each file's name, `.gz` left aside. */
  readonly format?: Format | undefined;
  /** CSV and TSV: whether the first record names the columns (the default), or the names. */
  readonly header?: boolean | readonly string[] | undefined;
  /** CSV and TSV: whether fields may stand in double quotes. Default: in CSV, not in TSV. */
  readonly quotes?: boolean | undefined;
  /** CSV and TSV: whether rows may lack fields at their end. Default false. */
  readonly allowShort?: boolean | undefined;
  /** JSON: of an object with several lists, the one to read. */
  readonly field?: string | undefined;
  /** Parquet: columns to read; other formats give all. Default: all. */
  readonly columns?: readonly string[] | undefined;
  /** What to do with a row that cannot be read. Default: fail. */
  readonly onBadRow?: "fail" | "skip" | undefined;
  /** Called for each row that is skipped. */
  readonly onBad?: ((row: BadRow) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Rows of files, in the order of the files and of the rows in them. Memory holds a batch and a chunk of the file, of
 * parquet a row group of the columns read, whatever the size of the file.
 * @throws {DataError} for a file that cannot be read, and for a bad row unless these are skipped
 * @throws {CancelledError} when the signal fires
 */
export async function* readRows(files: readonly string[], options: ReadOptions = {}): AsyncGenerator<RowBatch> {
  for (const file of files) {
    const bad = (line: number, reason: string) => {
      const row = { file, line, reason };
      if (options.onBadRow !== "skip") throw badRowError(row);
      options.onBad?.(row);
    };
    for await (const batch of readFile({ file, bad }, options)) {
      if (options.signal?.aborted) throw new CancelledError(`stopped while reading ${file}`, fileOf(file));
      yield batch;
    }
  }
}

const fileOf = (file: string): ErrorWhere => ({ file });

function readFile(context: ReadContext, options: ReadOptions): AsyncGenerator<RowBatch> {
  const { file } = context;
  const format = options.format ?? formatOfName(file);
  const delimited = (delimiter: string, quotes: boolean) =>
    readDelimited(readBytes(file), context, {
      delimiter,
      quotes: options.quotes ?? quotes,
      header: options.header ?? true,
      allowShort: options.allowShort ?? false,
    });
  switch (format) {
    case "parquet":
      return readParquet(context, options.columns);
    case "jsonl":
      return readJsonLines(readBytes(file), context);
    case "json":
      return readJson(readBytes(file), context, options.field);
    case "csv":
      return delimited(",", true);
    case "tsv":
      return delimited("\t", false);
    case "text":
      return readText(readBytes(file), context);
    case undefined:
      throw new DataError(`${file}: the name does not tell the format; say which (format: parquet, jsonl, json, ...)`, {
        file,
      });
  }
}
