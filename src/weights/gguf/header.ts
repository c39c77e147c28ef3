// Reads the header of a GGUF file, versions 2 and 3: metadata, and the places of the tensors. What strangers wrote is
// checked before it is believed: every count against the bytes that are left, every place against the file.
// Format: docs/gguf.md of ggml-org/ggml.
import { type FileHandle, open } from "node:fs/promises";
import { elementCount, FormatError, isSystemError } from "../../core/index.js";
import { BLOCKS, encodedBytes } from "../kernels/encodings.js";

/** Numbers of `ggml_type`. */
const TENSOR_TYPES: Readonly<Record<number, string>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  6: "Q5_0",
  7: "Q5_1",
  8: "Q8_0",
  9: "Q8_1",
  10: "Q2_K",
  11: "Q3_K",
  12: "Q4_K",
  13: "Q5_K",
  14: "Q6_K",
  15: "Q8_K",
  16: "IQ2_XXS",
  17: "IQ2_XS",
  18: "IQ3_XXS",
  19: "IQ1_S",
  20: "IQ4_NL",
  21: "IQ3_S",
  22: "IQ2_S",
  23: "IQ4_XS",
  24: "I8",
  25: "I16",
  26: "I32",
  27: "I64",
  28: "F64",
  29: "IQ1_M",
  30: "BF16",
  34: "TQ1_0",
  35: "TQ2_0",
  39: "MXFP4",
};

/** A type of tensors that layergraft reads. */
export type GgufType = keyof typeof BLOCKS;

export interface GgufTensor {
  readonly name: string;
  /** Slowest axis first, as in safetensors. */
  readonly shape: readonly number[];
  readonly type: GgufType;
  /** First byte in the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** A value of the metadata; arrays hold values of one kind. */
export type GgufValue = number | boolean | string | readonly number[] | readonly boolean[] | readonly string[];

export interface GgufHeader {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
  /** The bytes before the tensors. */
  readonly bytes: Uint8Array;
}

// Far above real files: the header of a model with 260,000 tokens and as many merges has 20 MB.
const MAX_HEADER_BYTES = 400_000_000;
const MAX_KEYS = 10_000;
const MAX_TENSORS = 100_000;
const MAX_NAME = 256;
const MAX_AXES = 4;
const MAX_ALIGNMENT = 65_536;

/** Bytes of the numbers of metadata, by type. */
const SIZES: Readonly<Record<number, number>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const STRING = 8;
const ARRAY = 9;

/** More of the file is needed. */
class TooShort extends Error {}

/** Reads values one after another. */
class Cursor {
  readonly #bytes: Buffer;
  readonly #fail: (what: string) => FormatError;
  at = 0;

  constructor(bytes: Buffer, fail: (what: string) => FormatError) {
    this.#bytes = bytes;
    this.#fail = fail;
  }

  take(length: number): Buffer {
    if (length > MAX_HEADER_BYTES) throw this.#fail("has a header that is too large");
    if (this.at + length > this.#bytes.length) throw new TooShort();
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }

  u32(): number {
    return this.take(4).readUInt32LE();
  }

  /** A count or size. */
  size(): number {
    const value = this.take(8).readBigUInt64LE();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.#fail(`has a size of ${value}`);
    return Number(value);
  }

  string(): string {
    const bytes = this.take(this.size());
    return bytes.toString("utf8");
  }

  value(type: number): GgufValue {
    if (type === STRING) return this.string();
    if (type !== ARRAY) return this.#scalar(type);
    const of = this.u32();
    const count = this.size();
    const least = of === STRING ? 8 : SIZES[of];
    if (least === undefined) throw this.#fail(`has an array of type ${of}`);
    if (count * least > MAX_HEADER_BYTES) throw this.#fail("has a header that is too large");
    // Before space for its values is taken.
    if (this.at + count * least > this.#bytes.length) throw new TooShort();
    if (of === STRING) return Array.from({ length: count }, () => this.string());
    return Array.from({ length: count }, () => this.#scalar(of)) as GgufValue;
  }

  #scalar(type: number): number | boolean {
    const size = SIZES[type];
    if (size === undefined) throw this.#fail(`has a value of type ${type}`);
    const bytes = this.take(size);
    if (type === 6) return bytes.readFloatLE();
    if (type === 12) return bytes.readDoubleLE();
    if (type === 7) return bytes[0] !== 0;
    if (type === 10) return Number(bytes.readBigUInt64LE());
    if (type === 11) return Number(bytes.readBigInt64LE());
    return type % 2 === 0 ? bytes.readUIntLE(0, size) : bytes.readIntLE(0, size);
  }
}

/**
 * Reads and checks the header of a GGUF file.
 * @throws FormatError if it is missing, breaks the format, or has tensors of a type that layergraft does not read
 */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  const handle = await open(path, "r").catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) throw new FormatError(`${path} does not exist`, { file: path }, error);
    throw error;
  });
  try {
    const { size } = await handle.stat();
    for (let length = Math.min(size, 2 ** 20); ; length = Math.min(size, length * 4)) {
      const bytes = await readStart(handle, length);
      try {
        return parseGgufHeader(bytes, size, path);
      } catch (error) {
        if (!(error instanceof TooShort)) throw error;
        if (length === size || length >= MAX_HEADER_BYTES) throw fault(path, "ends within its header");
      }
    }
  } finally {
    await handle.close();
  }
}

async function readStart(handle: FileHandle, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await handle.read(bytes, 0, length, 0);
  return bytes.subarray(0, bytesRead);
}

function fault(path: string, what: string): FormatError {
  return new FormatError(`${path} is not a GGUF file that can be read: it ${what}.`, { file: path });
}

/** @param size of the whole file */
function parseGgufHeader(bytes: Buffer, size: number, path: string): GgufHeader {
  const fail = (what: string) => fault(path, what);
  const cursor = new Cursor(bytes, fail);
  if (cursor.take(4).toString("latin1") !== "GGUF") throw fail('does not begin with "GGUF"');
  const version = cursor.u32();
  if (version !== 2 && version !== 3) throw fail(`has version ${version}, not 2 or 3`);
  const [tensorCount, keyCount] = [cursor.size(), cursor.size()];
  if (tensorCount > MAX_TENSORS) throw fail(`lists ${tensorCount} tensors`);
  if (keyCount > MAX_KEYS) throw fail(`lists ${keyCount} keys`);
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < keyCount; i++) {
    const key = cursor.string();
    if (metadata.has(key)) throw fail(`has the key ${JSON.stringify(key.slice(0, 80))} twice`);
    metadata.set(key, cursor.value(cursor.u32()));
  }
  const alignment = metadata.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || alignment < 1 || alignment > MAX_ALIGNMENT || alignment % 1 !== 0) {
    throw fail("has an alignment that is no number of bytes");
  }
  const entries = Array.from({ length: tensorCount }, () => entryOf(cursor, fail));
  const begin = Math.ceil(cursor.at / alignment) * alignment;
  const tensors = entries.map(({ start, ...entry }): GgufTensor => {
    if (start % alignment !== 0) throw fail(`has ${entry.name} at a place that is not aligned`);
    return { ...entry, offset: begin + start };
  });
  checkPlaces(tensors, size, fail);
  return { metadata, tensors, bytes: bytes.subarray(0, cursor.at) };
}

function entryOf(cursor: Cursor, fail: (what: string) => FormatError) {
  const name = cursor.string();
  if (name === "" || name.length > MAX_NAME) throw fail("has a tensor with an empty or endless name");
  const axes = cursor.u32();
  if (axes < 1 || axes > MAX_AXES) throw fail(`has ${name} with ${axes} axes`);
  const shape = Array.from({ length: axes }, () => cursor.size()).toReversed();
  const number = cursor.u32();
  const type = TENSOR_TYPES[number] ?? `type ${number}`;
  if (!Object.hasOwn(BLOCKS, type)) {
    const known = Object.keys(BLOCKS).join(", ");
    throw fail(`has ${name} in ${type}. Types that can be read are ${known}`);
  }
  const known = type as GgufType;
  const elements = elementCount(shape);
  if (!Number.isSafeInteger(elements)) throw fail(`has ${name} with ${elements} values`);
  const columns = shape.at(-1) as number;
  if (columns % BLOCKS[known].elements !== 0) throw fail(`has ${name} with rows of ${columns} values in ${type}`);
  return { name, shape, type: known, bytes: encodedBytes(known, elements), start: cursor.size() };
}

/** @throws FormatError for a tensor outside the file, within another, or with the name of another */
function checkPlaces(tensors: readonly GgufTensor[], size: number, fail: (what: string) => FormatError): void {
  const names = new Set<string>();
  for (const { name } of tensors) {
    if (names.has(name)) throw fail(`has ${name} twice`);
    names.add(name);
  }
  let end = 0;
  for (const { name, offset, bytes } of tensors.toSorted((a, b) => a.offset - b.offset || a.bytes - b.bytes)) {
    if (offset < end) throw fail(`has ${name} within another tensor`);
    end = offset + bytes;
    if (end > size) throw fail(`ends at byte ${size}, before the end of ${name}`);
  }
}
