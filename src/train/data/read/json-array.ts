// JSON files: one list of objects, or one object that holds a list of them. Read element by element.
import { isUtf8 } from "node:buffer";
import { isObject, parsePythonJson } from "../../../kit/index.js";
import { readRecords } from "./records.js";
import { DataError, type FilePart, type FileReader, MAX_ROW_BYTES, NOT_UTF8, type Row, tooLongError } from "./row.js";

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LINE_FEED = 0x0a;
const SPACE = 0x20;

/** Longest key of a list that is told apart from others. */
const MAX_KEY_BYTES = 1_000;

/**
 * Rows of a JSON file, or of JSON Lines under the name .json.
 * @param field of an object that holds several lists, the one to read
 * @throws DataError if the file has no such list, ends in the middle, or continues after its end
 */
export async function* readJson(bytes: AsyncGenerator<Buffer>, file: string, field?: string): FileReader {
  try {
    const first = await bytes.next();
    const start: Buffer = first.done ? Buffer.alloc(0) : first.value;
    const all = chain(start, bytes);
    yield* startsWithRow(start.toString("utf8")) ? readJsonLines(all, file) : readElements(all, file, field);
  } finally {
    await bytes.return(undefined);
  }
}

async function* chain(start: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield start;
  yield* rest;
}

/** Whether the first line is a whole object, and others follow. */
function startsWithRow(text: string): boolean {
  const [, line = "", rest = ""] = /^[\uFEFF\s]*(\{.*)\n([\s\S]*)$/.exec(text) ?? [];
  return rest.trim() !== "" && typeof parseRow(line) !== "string";
}

/** The elements of the list. Only their borders are looked for here; JSON.parse checks what is between them. */
async function* readElements(bytes: AsyncIterable<Buffer>, file: string, field: string | undefined): FileReader {
  let line = 1;
  let depth = 0;
  let isObject: boolean | undefined; // the root; undefined before it
  let isQuoted = false;
  let isEscaped = false;
  let key: number[] = []; // bytes of the last string directly in the root object
  const lists: string[] = []; // keys of the lists to read
  let listDepth = 0; // within the list, the depth of its elements
  let parts: Buffer[] = []; // of the current element, in earlier chunks
  let elementLine: number | undefined;
  const broken = (what: string) => new DataError(`${file} ${what}`, { file, line });

  for await (const chunk of bytes) {
    const found: FilePart["found"][number][] = [];
    let start = 0; // of the current element in this chunk
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i] ?? 0;
      if (byte === LINE_FEED) line++;
      if (isQuoted) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isQuoted = false;
        if (isQuoted && depth === 1 && isObject && key.length < MAX_KEY_BYTES) key.push(byte);
        continue;
      }
      // White space, and a byte order mark.
      if (byte <= SPACE || (isObject === undefined && byte >= 0x80)) continue;
      if (depth === 0) {
        if (isObject !== undefined) throw broken("continues after its end");
        if (byte !== OPEN_BRACE && byte !== OPEN_BRACKET) throw broken("is neither a JSON list nor an object");
        isObject = byte === OPEN_BRACE;
      }
      if (listDepth > 0 && depth === listDepth) {
        if (elementLine === undefined) {
          if (byte !== COMMA && byte !== CLOSE_BRACKET) [elementLine, start] = [line, i];
        } else if (byte === COMMA || byte === CLOSE_BRACKET) {
          const element = Buffer.concat([...parts, chunk.subarray(start, i)]);
          found.push({ line: elementLine, row: isUtf8(element) ? parseRow(element.toString("utf8")) : NOT_UTF8 });
          parts = [];
          elementLine = undefined;
        }
      }
      if (byte === QUOTE) {
        isQuoted = true;
        if (depth === 1) key = [];
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        depth++;
        const name = depth === 1 ? "" : Buffer.from(key).toString("utf8");
        const isList = byte === OPEN_BRACKET && depth === (isObject ? 2 : 1);
        if (isList && (depth === 1 || field === undefined || name === field)) {
          lists.push(name);
          listDepth = depth;
        }
        if (lists.length > 1) {
          throw broken(`has several lists (${lists.join(", ")}). Name the one to read (field: NAME).`);
        }
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        depth--;
        if (depth < listDepth) listDepth = 0;
      }
    }
    if (elementLine !== undefined) {
      parts.push(chunk.subarray(start));
      const size = parts.reduce((sum, part) => sum + part.length, 0);
      if (size > MAX_ROW_BYTES) throw tooLongError(file, elementLine, "the element");
    }
    yield { found };
  }
  if (isObject === undefined) throw broken("is empty");
  if (depth > 0) throw broken("ends in the middle; get it again");
  if (lists.length > 0) return;
  throw broken(field === undefined ? "has no list of rows" : `has no list under ${JSON.stringify(field)}`);
}

/** Rows of a JSON Lines file. Blank lines are skipped. */
export async function* readJsonLines(bytes: AsyncIterable<Buffer>, file: string): FileReader {
  for await (const records of readRecords(bytes, file)) {
    const written = records.filter(({ text }) => text?.trim() !== "");
    yield { found: written.map(({ text, line }) => ({ line, row: text === undefined ? NOT_UTF8 : parseRow(text) })) };
  }
}

/** A row, or what is wrong with it. */
export function parseRow(text: string): Row | string {
  let value: unknown;
  try {
    value = parsePythonJson(text);
  } catch (error) {
    return `it is not valid JSON (${(error as Error).message})`;
  }
  if (isObject(value)) return value;
  return `it is ${Array.isArray(value) ? "a list" : value === null ? "null" : `a ${typeof value}`}, not an object`;
}

/** Lines of a text file as rows of one column, `text`. Empty lines are skipped. */
export async function* readText(bytes: AsyncIterable<Buffer>, file: string): FileReader {
  for await (const records of readRecords(bytes, file)) {
    yield { found: records.map(({ text, line }) => ({ line, row: text === undefined ? NOT_UTF8 : { text } })) };
  }
}
