import { isUtf8 } from "node:buffer";
import { type FileHandle, open } from "node:fs/promises";
import type { AsyncBuffer, FileMetaData, SchemaTree } from "hyparquet";
import { isAnySystemError } from "../../../kit/index.js";
import { formatBytes } from "../../../kit/printing/index.js";
import {
  ANY_KEY,
  checkColumnCount,
  DataError,
  type FilePart,
  type FileReader,
  type Floats,
  MAX_ROW_BYTES,
  NOT_UTF8,
  TOO_LONG,
} from "./row.js";

/** Most unpacked bytes of the columns of a row group; usual groups have far fewer. */
const MAX_GROUP_BYTES = 2 ** 30;

/** Rows that are made from the columns at once. */
const PART_ROWS = 1_000;

/** Texts that cannot be used; the reason is reported with the row. */
const NOT_UTF8_TEXT = Symbol("text that is not UTF-8");
const LONG_TEXT = Symbol("text that is too long");
const REASONS: ReadonlyMap<unknown, string> = new Map([
  [NOT_UTF8_TEXT, NOT_UTF8],
  [LONG_TEXT, `a text ${TOO_LONG}`],
]);

/**
 * Rows of a parquet file. Integers of 64 bits become numbers if these are exact, otherwise text; dates become ISO 8601. Parts say where
 * floats are, as a row does not.
 * @param columns the columns to read, if the file has them. Default: all
 * @throws DataError if the file is not parquet, is damaged, or a row group is too large to hold
 */
export async function* decodeParquet(file: string, columns?: readonly string[]): FileReader {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    const source: AsyncBuffer = {
      byteLength: size,
      slice: (start, end) => {
        const range = readRange(handle, start, end ?? size, size);
        // hyparquet may stop before it awaits what it requested.
        range.catch(() => {});
        return range;
      },
    };
    yield* readGroups(source, file, columns);
  } catch (error) {
    if (error instanceof DataError || isAnySystemError(error)) throw error;
    const detail = error instanceof TypeError ? "" : ` (${(error as Error).message})`;
    const message = `${file} is damaged or is not a parquet file${detail}. Download or write it again.`;
    throw new DataError(message, { file }, error);
  } finally {
    await handle.close();
  }
}

async function readRange(handle: FileHandle, start: number, end: number, size: number): Promise<ArrayBuffer> {
  if (!(start >= 0 && end >= start && end <= size)) {
    throw new RangeError(`bytes ${start} to ${end} are not within the file of ${size} bytes`);
  }
  const bytes = new ArrayBuffer(end - start);
  let at = 0;
  while (at < bytes.byteLength) {
    const { bytesRead } = await handle.read(new Uint8Array(bytes), at, bytes.byteLength - at, start + at);
    if (bytesRead === 0) throw new RangeError("the file ends early");
    at += bytesRead;
  }
  return bytes;
}

async function* readGroups(source: AsyncBuffer, file: string, wanted: readonly string[] | undefined): FileReader {
  // Loaded when needed, with the decompressors.
  const [{ parquetMetadataAsync, parquetSchema, parquetScan }, { compressors }] = await Promise.all([
    import("hyparquet"),
    import("hyparquet-compressors"),
  ]);
  const metadata = await parquetMetadataAsync(source);
  const { children } = parquetSchema(metadata);
  const present = children.map(({ element }) => element.name);
  const floats = floatsIn(children);
  checkColumnCount(present.length, file);
  // A wanted name may be inside a column: translation.en.
  const isWanted = (name: string) => wanted?.some((other) => other === name || other.startsWith(`${name}.`)) ?? true;
  const columns = present.filter(isWanted);
  let groupStart = 0;
  for (const [index, group] of metadata.row_groups.entries()) {
    const rowCount = Number(group.num_rows);
    checkGroup(metadata, index, columns, file);
    let broken = false;
    const parsers = {
      stringFromBytes: (bytes: Uint8Array | undefined) => {
        if (bytes === undefined) return undefined;
        if (bytes.length > MAX_ROW_BYTES) {
          broken = true;
          return LONG_TEXT;
        }
        if (isUtf8(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
        broken = true;
        return NOT_UTF8_TEXT;
      },
    };
    const range = { rowStart: groupStart, rowEnd: groupStart + rowCount };
    // A scan keeps what it read, so each group has its own.
    const scan = await parquetScan({ file: source, metadata, columns: [...columns], compressors, parsers, ...range });
    const values = await Promise.all(columns.map((column) => scan.readColumn({ column, ...range })));
    const short = values.findIndex((column) => column.length !== rowCount);
    if (short >= 0) {
      throw new RangeError(
        `column ${columns[short]} has ${values[short]?.length} values in a group of ${rowCount} rows`,
      );
    }
    let found: FilePart["found"][number][] = [];
    for (let i = 0; i < rowCount; i++) {
      const row = Object.fromEntries(columns.map((name, column) => [name, plain(values[column]?.[i])]));
      found.push({ line: groupStart + i + 1, row: (broken ? problemOf(row) : undefined) ?? row });
      if (found.length < PART_ROWS && i + 1 < rowCount) continue;
      yield { found, columns: present, floats };
      found = [];
    }
    groupStart += rowCount;
  }
}

/** Where values of columns or fields are floats. */
function floatsIn(fields: SchemaTree["children"]): Floats | undefined {
  const found = fields.flatMap((field): [string, true | Floats][] => {
    const floats = floatsOf(field);
    return floats ? [[field.element.name, floats]] : [];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

function floatsOf({ children, element }: SchemaTree): true | Floats | undefined {
  const { type, converted_type: converted } = element;
  if (children.length === 0) return type === "DOUBLE" || type === "FLOAT" ? true : undefined;
  // Rows have lists without the levels between, and maps as objects of any keys.
  const [inner] = children;
  if (converted === "LIST")
    return inner && (inner.children.length === 1 ? floatsOf(inner.children[0] as SchemaTree) : floatsOf(inner));
  if (converted !== "MAP" && converted !== "MAP_KEY_VALUE") return floatsIn(children);
  const value = inner?.children[1];
  const floats = value && floatsOf(value);
  return floats && { [ANY_KEY]: floats };
}

/** @throws DataError for a row group that is too large to be held */
function checkGroup(metadata: FileMetaData, index: number, columns: readonly string[], file: string): void {
  const group = metadata.row_groups[index];
  const wanted = (group?.columns ?? []).filter(({ meta_data }) => columns.includes(meta_data?.path_in_schema[0] ?? ""));
  const bytes = wanted.reduce((sum, { meta_data }) => sum + Number(meta_data?.total_uncompressed_size ?? 0), 0);
  const rows = Number(group?.num_rows);
  if (bytes > MAX_GROUP_BYTES || !(rows >= 0 && rows < 2 ** 31)) {
    throw new DataError(
      `${file}: row group ${index} has ${rows} rows of ${formatBytes(bytes)}, more than ${formatBytes(MAX_GROUP_BYTES)}. Write the file again with smaller row groups.`,
      { file },
    );
  }
}

function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString();
  if (typeof value !== "object") return value;
  if (value instanceof Date) return value.toISOString();
  if (ArrayBuffer.isView(value)) return value;
  if (Array.isArray(value)) return value.map(plain);
  // A column has one type, so each object has the fields of all others, as null: of tools and their arguments, for example.
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined && inner !== null);
  return Object.fromEntries(fields.map(([key, inner]) => [key, plain(inner)]));
}

/** What is wrong with the first unusable text in a row. */
function problemOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return REASONS.get(value);
  for (const inner of Object.values(value)) {
    const reason = problemOf(inner);
    if (reason !== undefined) return reason;
  }
  return undefined;
}
