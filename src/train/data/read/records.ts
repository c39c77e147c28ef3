// Lines, or records of a delimited file. Each is decoded by itself, so an error names the line with the wrong encoding.
import { isUtf8 } from "node:buffer";
import { MAX_ROW_BYTES, tooLongError } from "./row.js";

/** One line or record, without its line break. */
export interface TextRecord {
  /** Undefined if it is not UTF-8. */
  readonly text: string | undefined;
  /** The line on which it begins, counted from 1. */
  readonly line: number;
}

const LINE_FEED = 10;
const QUOTE = 0x22;
const CARRIAGE_RETURN = 13;

/**
 * Lines, or with the `delimiter` of quoted fields records as RFC 4180 has them: a line break within such a field does not
 * end them. Lines end with LF or CR LF; a byte order mark and empty records are skipped.
 * @throws DataError for a record of more than MAX_ROW_BYTES
 */
export async function* readRecords(
  bytes: AsyncIterable<Buffer>,
  file: string,
  delimiter?: string,
): AsyncGenerator<TextRecord[]> {
  const scanner = delimiter === undefined ? undefined : new QuoteScanner(delimiter.charCodeAt(0));
  let carried: Buffer[] = [];
  let carriedBytes = 0;
  let line = 1; // of the current record
  let isFirst = true;

  const finish = (last: Buffer): TextRecord | undefined => {
    let record = carried.length === 0 ? last : Buffer.concat([...carried, last]);
    carried = [];
    carriedBytes = 0;
    const at = line;
    line += 1 + (scanner?.end() ?? 0);
    if (isFirst && record[0] === 0xef && record[1] === 0xbb && record[2] === 0xbf) record = record.subarray(3);
    isFirst = false;
    if (record.at(-1) === CARRIAGE_RETURN) record = record.subarray(0, -1);
    if (record.length === 0) return undefined;
    return { text: isUtf8(record) ? record.toString("utf8") : undefined, line: at };
  };

  for await (const chunk of bytes) {
    const records: TextRecord[] = [];
    let start = 0;
    for (;;) {
      const end = scanner ? scanner.find(chunk, start) : chunk.indexOf(LINE_FEED, start);
      if (end < 0) break;
      const record = finish(chunk.subarray(start, end));
      if (record) records.push(record);
      start = end + 1;
    }
    const rest = chunk.subarray(start);
    if (rest.length > 0) carried.push(rest);
    carriedBytes += rest.length;
    if (carriedBytes > MAX_ROW_BYTES) {
      throw tooLongError(file, line, scanner ? "the record (is a quotation mark not closed?)" : "the line");
    }
    if (records.length > 0) yield records;
  }
  const record = finish(Buffer.alloc(0));
  if (record) yield [record];
}

/** Finds where records end, across chunks. */
class QuoteScanner {
  readonly #delimiter: number;
  #state: "start" | "plain" | "quoted" | "closed" = "start";
  #lineBreaks = 0;

  constructor(delimiter: number) {
    this.#delimiter = delimiter;
  }

  end(): number {
    const lineBreaks = this.#lineBreaks;
    [this.#state, this.#lineBreaks] = ["start", 0];
    return lineBreaks;
  }

  /** Index of the line feed that ends the record, or -1. */
  find(chunk: Buffer, start: number): number {
    for (let i = start; i < chunk.length; i++) {
      const byte = chunk[i];
      if (this.#state === "quoted") {
        if (byte === QUOTE) this.#state = "closed";
        else if (byte === LINE_FEED) this.#lineBreaks++;
        continue;
      }
      if (byte === LINE_FEED) return i;
      if (byte === this.#delimiter) this.#state = "start";
      // It opens a field, or is the second of a doubled one in it. Within a plain field it is an ordinary character.
      else if (byte === QUOTE && this.#state !== "plain") this.#state = "quoted";
      else this.#state = "plain";
    }
    return -1;
  }
}
