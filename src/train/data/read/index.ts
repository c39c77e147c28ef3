import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { withFile } from "../../../kit/files/index.js";
import { CancelledError, isAnySystemError } from "../../../kit/index.js";
import { ARROW_MARKS, arrowFile, isArrowName } from "./arrow.js";
import { readDelimited } from "./delimited.js";
import { type Format, formatOfName } from "./files.js";
import { readParquet } from "./guarded-parquet.js";
import { readJson, readJsonLines, readText } from "./json-array.js";
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
      if (isArrowName(file)) throw arrowFile(file);
      throw new DataError(`${file}: the name does not show the format. Add one, such as format: jsonl`, { file });
  }
}

const CHUNK_BYTES = 2 ** 18;

/** First bytes of files that are not UTF-8 text. */
const FOREIGN: readonly (readonly [bytes: readonly number[], advice: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], "is packed with zstd, which is not supported. Unpack it, or use gzip."],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], "is packed with xz, which is not supported. Unpack it, or use gzip."],
  [[0x42, 0x5a, 0x68], "is packed with bzip2, which is not supported. Unpack it, or use gzip."],
  [[0x50, 0x4b, 0x03, 0x04], "is a zip archive. Unpack it first."],
  [[0x50, 0x41, 0x52, 0x31], "is a parquet file. Set format: parquet."],
  [[0xff, 0xfe], "is UTF-16, not UTF-8. Convert it first."],
  [[0xfe, 0xff], "is UTF-16, not UTF-8. Convert it first."],
];

/**
 * The bytes of a file in chunks, unpacked from gzip of one or several members.
 * @throws DataError if it is not text, or broken gzip
 */
async function* readBytes(file: string): AsyncGenerator<Buffer> {
  const head = await readHead(file, 8);
  const startsWith = (bytes: readonly number[]) => bytes.every((byte, i) => head[i] === byte);
  if (ARROW_MARKS.some(startsWith)) throw arrowFile(file);
  const foreign = FOREIGN.find(([bytes]) => startsWith(bytes));
  if (foreign) throw new DataError(`${file} ${foreign[1]}`, { file });
  const source = createReadStream(file, { highWaterMark: CHUNK_BYTES });
  if (!startsWith([0x1f, 0x8b])) {
    yield* source as AsyncIterable<Buffer>;
    return;
  }
  const unpacked = createGunzip({ chunkSize: CHUNK_BYTES });
  // Errors of the file reach the unpacked stream, which pipeline() destroys.
  pipeline(source, unpacked, () => {});
  try {
    yield* unpacked as AsyncIterable<Buffer>;
  } catch (error) {
    if (isAnySystemError(error)) throw error;
    throw new DataError(
      `${file} is broken or incomplete gzip (${(error as Error).message}). Download it again.`,
      { file },
      error,
    );
  } finally {
    source.destroy();
  }
}

function readHead(file: string, length: number): Promise<Buffer> {
  return withFile(file, "r", async (handle) => {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, 0);
    return buffer.subarray(0, bytesRead);
  });
}
