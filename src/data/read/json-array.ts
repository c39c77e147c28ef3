// JSON files: one array of objects, or one object that holds an array of them. Read as a stream, element by element;
// a file that turns out to be JSON Lines under the name .json is read as that.
import { isUtf8 } from "node:buffer";
import { DataError } from "./data-error.js";
import { parseRow, readJsonLines } from "./json-lines.js";
import { NOT_UTF8 } from "./records.js";
import { MAX_ROW_BYTES, type ReadContext, type RowBatch, RowCollector, SPLIT_IT, TOO_LONG } from "./row.js";

/** How far a file is looked at to tell one object from JSON Lines; no row of JSON Lines is near this long. */
const PEEK_BYTES = 2 ** 20;

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const MARK = 0x22;
const BACKSLASH = 0x5c;
const LINE_FEED = 0x0a;

/**
 * Rows of a JSON file.
 * @param field of an object that holds several arrays, the one to read
 * @throws {DataError} if the file has no such array, ends in the middle, or goes on after its end
 */
export async function* readJson(
  bytes: AsyncGenerator<Buffer>,
  context: ReadContext,
  field?: string,
): AsyncGenerator<RowBatch> {
  try {
    const head: Buffer[] = [];
    let peeked = 0;
    while (peeked < PEEK_BYTES) {
      const { value, done } = await bytes.next();
      if (done) break;
      head.push(value);
      peeked += value.length;
    }
    const all = chain(head, bytes);
    if (holdsSeveralObjects(Buffer.concat(head))) yield* readJsonLines(all, context);
    else yield* readElements(all, context, field);
  } finally {
    await bytes.return(undefined);
  }
}

async function* chain(head: readonly Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* head;
  yield* rest;
}

/** Whether an object ends and another begins. */
function holdsSeveralObjects(head: Buffer): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < head.length; i++) {
    const byte = head[i] ?? 0;
    if (quoted) {
      if (byte === BACKSLASH) i++;
      else if (byte === MARK) quoted = false;
    } else if (byte === OPEN_BRACE) depth++;
    else if (byte === CLOSE_BRACE && --depth === 0)
      return (
        head
          .subarray(i + 1)
          .toString("latin1")
          .trim() !== ""
      );
    else if (byte === MARK) quoted = true;
    else if (byte === OPEN_BRACKET && depth === 0) return false;
  }
  return false;
}

async function* readElements(
  bytes: AsyncIterable<Buffer>,
  context: ReadContext,
  field: string | undefined,
): AsyncGenerator<RowBatch> {
  const { file, bad } = context;
  const splitter = new ElementSplitter(file, field);
  const rows = new RowCollector(file);
  for await (const chunk of bytes) {
    for (const { bytes: element, line } of splitter.push(chunk)) {
      const row = isUtf8(element) ? parseRow(element.toString("utf8")) : NOT_UTF8;
      if (typeof row === "string") {
        bad(line, row);
        continue;
      }
      const full = rows.add(row, line);
      if (full) yield full;
    }
  }
  splitter.end();
  const rest = rows.rest();
  if (rest) yield rest;
}

interface Element {
  readonly bytes: Buffer;
  readonly line: number;
}

/** Finds the elements of the array. Only their borders are read here; JSON.parse judges what is between them. */
class ElementSplitter {
  readonly #file: string;
  readonly #field: string | undefined;
  #line = 1;
  #depth = 0;
  #root: number | undefined;
  #ended = false;
  #quoted = false;
  #escaped = false;
  /** Text of the last string directly within the root object: the key of what follows. */
  #key: number[] = [];
  #collectsKey = false;
  /** Depth of the elements while within the array that is read. */
  #elementDepth: number | undefined;
  /** Keys whose arrays were read; of a root array, the root. */
  #arrays: string[] = [];
  #parts: Buffer[] = [];
  #partBytes = 0;
  #elementLine: number | undefined;

  constructor(file: string, field: string | undefined) {
    this.#file = file;
    this.#field = field;
  }

  /** Elements that end in this chunk. */
  push(chunk: Buffer): Element[] {
    const found: Element[] = [];
    let start = 0; // of the current element's part in this chunk
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i] ?? 0;
      if (byte === LINE_FEED) this.#line++;
      if (this.#quoted) {
        this.#inString(byte);
        continue;
      }
      // White space, and the byte order mark before the root.
      if (byte <= 0x20 || (this.#root === undefined && byte >= 0x80)) continue;
      if (this.#ended) throw this.#broken("goes on after its end");
      if (this.#root === undefined) {
        this.#begin(byte);
        continue;
      }
      const isBorder = this.#depth === this.#elementDepth && (byte === COMMA || byte === CLOSE_BRACKET);
      if (isBorder) {
        if (this.#elementLine !== undefined) found.push(this.#take(chunk.subarray(start, i)));
      } else if (this.#depth === this.#elementDepth && this.#elementLine === undefined) {
        this.#elementLine = this.#line;
        start = i;
      }
      this.#step(byte);
    }
    if (this.#elementLine !== undefined) {
      const part = chunk.subarray(start);
      this.#parts.push(part);
      this.#partBytes += part.length;
      if (this.#partBytes > MAX_ROW_BYTES) throw this.#tooLong();
    }
    return found;
  }

  /** @throws {DataError} if the file ended too early, or held no array */
  end(): void {
    if (this.#root === undefined) throw this.#broken("is empty");
    if (!this.#ended) throw this.#broken("ends in the middle; get it again");
    if (this.#arrays.length === 0) {
      throw this.#broken(
        this.#field === undefined ? "holds no list of rows" : `holds no list under ${JSON.stringify(this.#field)}`,
      );
    }
  }

  #begin(byte: number): void {
    if (byte !== OPEN_BRACE && byte !== OPEN_BRACKET) throw this.#broken("is neither a JSON list nor an object");
    this.#root = byte;
    this.#depth = 1;
    if (byte === OPEN_BRACKET) {
      this.#elementDepth = 1;
      this.#arrays.push("");
    }
  }

  #inString(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === MARK) {
      this.#quoted = false;
      this.#collectsKey = false;
      return;
    }
    if (this.#collectsKey && this.#key.length < 1_000) this.#key.push(byte);
  }

  #step(byte: number): void {
    if (byte === MARK) {
      this.#quoted = true;
      this.#collectsKey = this.#depth === 1 && this.#root === OPEN_BRACE;
      if (this.#collectsKey) this.#key = [];
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      this.#depth++;
      if (byte === OPEN_BRACKET && this.#depth === 2 && this.#root === OPEN_BRACE) this.#openArray();
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      this.#depth--;
      if (this.#elementDepth !== undefined && this.#depth < this.#elementDepth) this.#elementDepth = undefined;
      if (this.#depth === 0) this.#ended = true;
    }
  }

  #openArray(): void {
    const key = Buffer.from(this.#key).toString("utf8");
    if (this.#field !== undefined && key !== this.#field) return;
    this.#arrays.push(key);
    if (this.#arrays.length > 1) {
      throw this.#broken(`holds several lists (${this.#arrays.join(", ")}); name the one to read (field: ...)`);
    }
    this.#elementDepth = 2;
  }

  #take(last: Buffer): Element {
    const bytes = this.#parts.length === 0 ? last : Buffer.concat([...this.#parts, last]);
    const line = this.#elementLine ?? this.#line;
    this.#parts = [];
    this.#partBytes = 0;
    this.#elementLine = undefined;
    return { bytes, line };
  }

  #tooLong(): DataError {
    const line = this.#elementLine ?? this.#line;
    return new DataError(`${this.#file}, line ${line}: the element ${TOO_LONG}. ${SPLIT_IT}`, {
      file: this.#file,
      line,
    });
  }

  #broken(what: string): DataError {
    return new DataError(`${this.#file} ${what}`, { file: this.#file, line: this.#line });
  }
}
