// Parses, checks and writes safetensors headers, with all checks of the reference crate.
import { DTYPE_BITS, type DType, FormatError, formatShape, isDType, isObject, type Shape } from "../../kit/index.js";
import { isUnicode, parseHeaderJson, quote } from "./header-json.js";

/** Maximum header size, as in the reference crate (`MAX_HEADER_SIZE`); about a million tensors. */
export const MAX_HEADER_BYTES = 100_000_000;

/** One tensor as a header declares it. Offsets are bytes from the start of the *file*, not of the data section. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** First byte of the data in the file. */
  readonly offset: number;
  /** Length of the data in bytes. */
  readonly bytes: number;
}

export interface Header {
  /** Tensors in the order of their data. */
  readonly tensors: readonly TensorInfo[];
  /** The free-form strings of `__metadata__`. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** A tensor to declare in a header; data follows in this order, without gaps. */
export interface TensorDeclaration {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

const METADATA_KEY = "__metadata__";
const LENGTH_BYTES = 8;
const NATURALS = "whole numbers from 0 to 2^53 - 1";

/**
 * Reads the length of the header from the first eight bytes of a file.
 * @throws FormatError if the file cannot hold a header of that length or the length passes the limit.
 */
export function parseHeaderLength(start: Uint8Array, fileBytes: number, file: string): number {
  if (start.byteLength < LENGTH_BYTES || fileBytes < LENGTH_BYTES) {
    throw new FormatError(`${file} has ${fileBytes} bytes, too few for a safetensors file; fetch or save it again`, {
      file,
      expected: "at least 8 bytes",
      actual: `${fileBytes} bytes`,
    });
  }
  const length = new DataView(start.buffer, start.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    throw new FormatError(
      `${file} declares a header of ${length} bytes, over the limit of ${MAX_HEADER_BYTES}; it is damaged or not safetensors`,
      { file, expected: `at most ${MAX_HEADER_BYTES}`, actual: String(length) },
    );
  }
  if (LENGTH_BYTES + Number(length) > fileBytes) {
    throw new FormatError(
      `${file} is cut off: its header needs ${LENGTH_BYTES + Number(length)} bytes, the file has ${fileBytes}; fetch or save it again`,
      { file, expected: `${LENGTH_BYTES + Number(length)} bytes`, actual: `${fileBytes} bytes` },
    );
  }
  return Number(length);
}

/**
 * Parses and checks a header.
 *
 * Rejects what the reference crate rejects: unknown dtypes, ranges that do not match dtype and shape, overlaps, gaps or
 * trailing bytes in the data, metadata that is not text. Also rejects what the format forbids but the crate accepts:
 * duplicate keys, space before the '{', a list in place of a tensor's object. Whole numbers may be written as 4.0.
 * @param json the header's bytes, without the eight of its length
 * @param fileBytes size of the whole file
 * @param file name for error messages
 * @throws FormatError on the first violation of the format
 */
export function parseHeader(json: Uint8Array, fileBytes: number, file: string): Header {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(json);
  } catch (error) {
    throw new FormatError(`${file}: the safetensors header is not UTF-8; the file is damaged`, { file }, error);
  }
  // The format asks for '{' as the very first byte, which distinguishes it from other formats.
  if (!text.startsWith("{")) {
    throw new FormatError(`${file}: the safetensors header does not begin with '{'; the file is damaged`, { file });
  }
  const root = parseHeaderJson(text, file);
  if (!isObject(root)) throw new FormatError(`${file}: the safetensors header is not an object`, { file });

  const dataStart = LENGTH_BYTES + json.byteLength;
  const metadata = parseMetadata(root[METADATA_KEY], file);
  const tensors: TensorInfo[] = [];
  for (const [name, entry] of Object.entries(root)) {
    if (name !== METADATA_KEY) tensors.push(parseTensor(name, entry, dataStart, file));
  }
  // Empty tensors share their offset with the next one and must come first, else they would seem to overlap it.
  tensors.sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  checkCoverage(tensors, dataStart, fileBytes, file);
  return { tensors, metadata };
}

function parseMetadata(value: unknown, file: string): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw new FormatError(`${file}: ${METADATA_KEY} is not an object`, { file });
  for (const [key, text] of Object.entries(value)) {
    if (typeof text === "string" && isUnicode(key) && isUnicode(text)) continue;
    throw new FormatError(`${file}: ${METADATA_KEY} has the key ${quote(key)}, whose value is not Unicode text`, {
      file,
      field: key,
    });
  }
  return value as Record<string, string>;
}

function isNatural(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0);
}

/**
 * Bits of a tensor's data; undefined if they are beyond exact numbers, even if a later extent of 0 makes the product
 * small again: the reference crate refuses overflow on the way too.
 */
function dataBits(dtype: DType, shape: Shape): number | undefined {
  let bits: number = DTYPE_BITS[dtype];
  for (const extent of shape) {
    bits *= extent;
    if (!Number.isSafeInteger(bits)) return undefined;
  }
  return bits;
}

function parseTensor(name: string, entry: unknown, dataStart: number, file: string): TensorInfo {
  const fail = (what: string, expected?: string, actual?: string): never => {
    throw new FormatError(`${file}: tensor ${quote(name)} ${what}; the file is damaged or not safetensors`, {
      file,
      tensor: name,
      ...(expected === undefined ? {} : { expected }),
      ...(actual === undefined ? {} : { actual }),
    });
  };
  if (!isUnicode(name)) return fail("has a name that is not Unicode text");
  if (!isObject(entry)) return fail("is not described by an object");
  const { dtype, shape, data_offsets: range } = entry;
  if (typeof dtype !== "string" || !isDType(dtype)) {
    const known = Object.keys(DTYPE_BITS).join(" ");
    if (typeof dtype !== "string") return fail("has no dtype", known);
    return fail(`has the unknown dtype ${quote(dtype)}`, known, dtype);
  }
  if (!Array.isArray(shape) || !shape.every(isNatural)) return fail(`has a shape that is not a list of ${NATURALS}`);
  const [begin, end, ...more]: unknown[] = Array.isArray(range) ? range : [];
  if (!isNatural(begin) || !isNatural(end) || more.length > 0)
    return fail(`has data_offsets that are not two ${NATURALS}`);
  if (end < begin) return fail(`ends at byte ${end}, before it begins at byte ${begin}`);

  const bits = dataBits(dtype, shape);
  const shown = shape.length > 16 ? `with ${shape.length} axes` : formatShape(shape);
  if (bits === undefined) return fail(`has the impossible shape ${shown}`);
  if (bits % 8 !== 0) return fail(`has the shape ${shown}, whose ${dtype} elements do not fill whole bytes`);
  if (bits / 8 !== end - begin) {
    return fail(
      `has ${end - begin} bytes, but ${dtype} ${shown} needs ${bits / 8}`,
      `${bits / 8} bytes`,
      `${end - begin} bytes`,
    );
  }
  return { name, dtype, shape, offset: dataStart + begin, bytes: end - begin };
}

function checkCoverage(tensors: readonly TensorInfo[], dataStart: number, fileBytes: number, file: string): void {
  let end = dataStart;
  for (const tensor of tensors) {
    if (tensor.offset !== end) {
      const what = tensor.offset < end ? "overlaps the tensor before it" : "leaves a hole before it";
      throw new FormatError(`${file}: tensor ${quote(tensor.name)} ${what}; the file is damaged`, {
        file,
        tensor: tensor.name,
        expected: `data at byte ${end}`,
        actual: `data at byte ${tensor.offset}`,
      });
    }
    end += tensor.bytes;
  }
  if (end !== fileBytes) {
    const what = end > fileBytes ? "is cut off" : "has bytes that belong to no tensor";
    throw new FormatError(
      `${file} ${what}: its tensors end at byte ${end}, the file at ${fileBytes}; fetch or save it again`,
      { file, expected: `${end} bytes`, actual: `${fileBytes} bytes` },
    );
  }
}

/**
 * The first bytes of a file with these tensors, data to follow in the same order without gaps.
 *
 * The header is padded with spaces to a multiple of eight, which aligns the data if wider dtypes come first.
 * @throws FormatError if the format cannot store these tensors or this metadata
 */
export function serializeHeader(
  tensors: readonly TensorDeclaration[],
  metadata: Readonly<Record<string, string>>,
): { bytes: Uint8Array; tensors: TensorInfo[] } {
  const entries: string[] = [];
  for (const [key, text] of Object.entries(metadata)) {
    if (typeof text !== "string" || !isUnicode(key) || !isUnicode(text)) {
      throw new FormatError(`a safetensors file cannot hold the metadata ${quote(key)}: it is not Unicode text`, {
        field: key,
      });
    }
  }
  if (Object.keys(metadata).length > 0) entries.push(`${JSON.stringify(METADATA_KEY)}:${JSON.stringify(metadata)}`);
  const seen = new Set<string>();
  const ranges: { begin: number; end: number }[] = [];
  let end = 0;
  for (const { name, dtype, shape } of tensors) {
    const fail = (why: string) =>
      new FormatError(`a safetensors file cannot hold the tensor ${quote(name)}: ${why}`, { tensor: name });
    if (name === METADATA_KEY) throw fail("the format reserves this name");
    if (!isUnicode(name)) throw fail("its name is not Unicode text");
    if (seen.has(name)) throw fail("it is repeated");
    seen.add(name);
    if (!isDType(dtype)) throw fail(`the dtype ${dtype} is unknown`);
    if (!shape.every(isNatural)) throw fail(`its shape ${formatShape(shape)} is not a list of ${NATURALS}`);
    const bits = dataBits(dtype, shape);
    if (bits === undefined) throw fail(`the shape ${formatShape(shape)} is impossible`);
    if (bits % 8 !== 0) throw fail(`${dtype} ${formatShape(shape)} does not fill whole bytes`);
    const begin = end;
    end = begin + bits / 8;
    if (!Number.isSafeInteger(end)) throw fail("its data would end beyond 2^53 bytes");
    ranges.push({ begin, end });
    entries.push(
      `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":${JSON.stringify(shape)},"data_offsets":[${begin},${end}]}`,
    );
  }
  const json = new TextEncoder().encode(`{${entries.join(",")}}`);
  const padded = Math.ceil(json.byteLength / 8) * 8;
  if (padded > MAX_HEADER_BYTES) {
    throw new FormatError(`a header of ${padded} bytes is over the limit of ${MAX_HEADER_BYTES}; use more shards`);
  }
  const bytes = new Uint8Array(LENGTH_BYTES + padded).fill(0x20, LENGTH_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true);
  bytes.set(json, LENGTH_BYTES);
  return {
    bytes,
    tensors: tensors.map(({ name, dtype, shape }, i) => {
      const { begin, end } = ranges[i] as { begin: number; end: number };
      return { name, dtype, shape, offset: bytes.byteLength + begin, bytes: end - begin };
    }),
  };
}
