import { CancelledError } from "../../core/index.js";
import { readBytes } from "./bytes.js";
import { readDelimited } from "./delimited.js";
import { type Format, formatOfName } from "./files.js";
import { readJson, readJsonLines, readText } from "./json-array.js";
import { readParquet } from "./parquet.js";
import { type BadRow, badRowError, DataError, type FileReader, type Row, type RowBatch } from "./row.js";

export { FORMATS, type Format, formatOfName, localFiles } from "./files.js";
export type { BadRow, Row, RowBatch } from "./row.js";

export interface ReadOptions {
  /** Default: by the name of each file, without `.gz`. */
  readonly format?: Format | undefined;
  /** CSV and TSV: whether the first record names the columns (the default), or the names. */
  readonly header?: boolean | readonly string[] | undefined;
  /** CSV and TSV: whether fields may be in double quotes. Default: in CSV. */
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

const BATCH_ROWS = 1_000;

/**
 * Rows of files, in the order of the files and of the rows in them. Memory holds a part of a file, of parquet a row group
 * of the columns read, whatever the size of the file.
 * @throws DataError for a file that cannot be read, and for a bad row unless these are skipped
 * @throws CancelledError when the signal fires
 */
export async function* readRows(files: readonly string[], options: ReadOptions = {}): AsyncGenerator<RowBatch> {
  for (const file of files) {
    let rows: Row[] = [];
    let lines: number[] = [];
    let columns: readonly string[] | undefined;
    for await (const part of openReader(file, options)) {
      if (options.signal?.aborted) throw new CancelledError(`stopped while reading ${file}`, { file });
      columns = part.columns;
      for (const { line, row } of part.found) {
        if (typeof row === "string") {
          if (options.onBadRow !== "skip") throw badRowError({ file, line, reason: row });
          options.onBad?.({ file, line, reason: row });
          continue;
        }
        rows.push(row);
        lines.push(line);
        if (rows.length < BATCH_ROWS) continue;
        yield { file, rows, lines, columns };
        rows = [];
        lines = [];
      }
    }
    if (rows.length > 0) yield { file, rows, lines, columns };
  }
}

function openReader(file: string, options: ReadOptions): FileReader {
  const { header = true, allowShort = false, format = formatOfName(file) } = options;
  const { quotes = format === "csv" } = options;
  switch (format) {
    case "parquet":
      return readParquet(file, options.columns);
    case "jsonl":
      return readJsonLines(readBytes(file), file);
    case "json":
      return readJson(readBytes(file), file, options.field);
    case "csv":
      return readDelimited(readBytes(file), file, { delimiter: ",", header, allowShort, quotes });
    case "tsv":
      return readDelimited(readBytes(file), file, { delimiter: "\t", header, allowShort, quotes });
    case "text":
      return readText(readBytes(file), file);
    case undefined:
      throw new DataError(`${file}: the name does not show the format. Add one, such as format: jsonl`, { file });
  }
}
