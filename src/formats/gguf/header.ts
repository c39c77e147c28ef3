// Reads the header of a GGUF file, versions 2 and 3: metadata, and the places of the tensors. What strangers wrote is checked
// before it is believed, every count against the bytes that are left: llama.cpp ends the process on some files, and
// node-llama-cpp reads others without end.
// Format: docs/gguf.md of ggml-org/ggml.
import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { BLOCKS, encodedBytes } from "../../kernels/index.js";
import { READ_NOW } from "../../kit/files/index.js";
import { CheckpointError, elementCount } from "../../kit/index.js";
import { formatBytes, shorten } from "../../kit/printing/index.js";

/** Names of `ggml_type`, by number. */
const TENSOR_TYPES: ReadonlyMap<number, string> = new Map([
  ...["F32", "F16", "Q4_0", "Q4_1"].map((name, i) => [i, name] as const),
  ...["Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"].map(
    (name, i) => [6 + i, name] as const,
  ),
  ...["IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"].map(
    (name, i) => [16 + i, name] as const,
  ),
  ...["I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16"].map((name, i) => [24 + i, name] as const),
  [34, "TQ1_0"],
  [35, "TQ2_0"],
  [39, "MXFP4"],
]);

/** The number of a type. */
export function ggufTypeNumber(name: string): number {
  return [...TENSOR_TYPES].find(([, type]) => type === name)?.[0] as number;
}

/** A type of tensors whose values are read. */
export type GgufType = keyof typeof BLOCKS;

export interface GgufTensor {
  readonly name: string;
  /** Slowest axis first, as in safetensors. */
  readonly shape: readonly number[];
  /** Its name in llama.cpp. */
  readonly type: string;
  /** First byte in the file. */
  readonly offset: number;
  /** Undefined if values of the type are not read. */
  readonly bytes: number | undefined;
}

/** A value of the metadata; an array holds values of one kind. */
export type GgufValue = number | boolean | string | readonly number[] | readonly boolean[] | readonly string[];

/** Metadata by key. Arrays, which are nearly all of a header, are checked when it is read, and read from the file by `get`. */
export type GgufKeys = Pick<ReadonlyMap<string, GgufValue>, "get" | "has">;

export interface GgufHeader {
  readonly metadata: GgufKeys;
  readonly tensors: readonly GgufTensor[];
  /** Places of lists of float32 in the metadata, by key. */
  readonly lists: ReadonlyMap<string, { readonly offset: number; readonly count: number }>;
  /** Number of its tokenizer's tokens. Default: it has no tokenizer. */
  readonly tokens?: number | undefined;
  readonly bytes: number;
  /** SHA-256 of everything before the tensors, hexadecimal. */
  readonly digest: string;
}

/** Bytes of numbers in metadata, by their type. */
const WIDTHS: ReadonlyMap<number, number> = new Map([
  ...[0, 1, 7].map((type) => [type, 1] as const),
  ...[2, 3].map((type) => [type, 2] as const),
  ...[4, 5, 6].map((type) => [type, 4] as const),
  ...[10, 11, 12].map((type) => [type, 8] as const),
]);
const [F32, BOOL, STRING, ARRAY, F64] = [6, 7, 8, 9, 12];
const SIGNED = [1, 3, 5, 11];

/** The longest that the format allows. */
const MAX_KEY_BYTES = 2 ** 16;
/** GGML_MAX_DIMS. */
const MAX_AXES = 4;
/** LLAMA_MAX_LAYERS, which llama.cpp asserts. */
const MAX_LAYERS = 512;
const MAX_INT = 2 ** 31 - 1;
/** Whole numbers that llama.cpp computes with before it checks them, by the key's end, and the largest that it takes. */
const LIMITS: Readonly<Record<string, number>> = {
  "general.alignment": 2 ** 16,
  ".block_count": MAX_LAYERS,
  ".context_length": MAX_INT,
  ".embedding_length": MAX_INT,
};
/** Of a header: those of the largest vocabularies have 20 MB. */
const MAX_HEADER_BYTES = 400_000_000;
const CHUNK = 2 ** 20;
const ALIGNMENT = 32;

/**
 * Reads and checks the header of a file that has all of its bytes.
 * @throws CheckpointError if it is not a GGUF file that llama.cpp could read, too
 */
export function readGgufHeader(path: string): GgufHeader {
  const reader = new Reader(path);
  try {
    return readHeader(reader);
  } finally {
    reader.close();
  }
}

function readHeader(reader: Reader): GgufHeader {
  if (reader.size < 4 || reader.bytes(4).toString("latin1") !== "GGUF") throw reader.problem("it is not a GGUF file");
  const version = reader.integer(4);
  if (version !== 2 && version !== 3) {
    throw reader.problem(`its version is ${version}, and llama.cpp reads 2 and 3; export it again`);
  }
  const [tensorCount, keys] = [reader.integer(8), reader.integer(8)];
  const metadata = new Metadata(reader.path);
  for (let i = 0; i < keys; i++) {
    const key = reader.name();
    if (metadata.has(key)) throw reader.problem(`it has ${quoted(key)} twice`);
    metadata.set(key, readValue(reader, key));
  }
  const entries = new Map<string, Omit<GgufTensor, "offset"> & { readonly start: number }>();
  for (let i = 0; i < tensorCount; i++) {
    const entry = readEntry(reader);
    if (entries.has(entry.name)) throw reader.problem(`it has the tensor ${quoted(entry.name)} twice`);
    entries.set(entry.name, entry);
  }
  const alignment = (metadata.get("general.alignment") as number | undefined) ?? ALIGNMENT;
  const aligned = (at: number) => Math.ceil(at / alignment) * alignment;
  const begin = aligned(reader.at);
  const tensors = [...entries.values()].map(({ start, ...entry }) => ({ ...entry, offset: begin + start }));
  const end = tensors.reduce((most, { offset, bytes = 0 }) => Math.max(most, offset + bytes), 0);
  if (end > reader.size) {
    const sizes = `${formatBytes(reader.size)} of ${formatBytes(end)}`;
    throw reader.problem(`it has ${sizes}; download or export it again`);
  }
  let next = 0;
  for (const { name, start, bytes } of entries.values()) {
    // As llama.cpp requires. Only types that it has and exports do not have no known size.
    if (start !== next) throw reader.problem(`the tensor ${quoted(name)} begins at byte ${start}, not at ${next}`);
    if (bytes === undefined) break;
    next = aligned(start + bytes);
  }
  const tokens = metadata.lengthOf("tokenizer.ggml.tokens");
  return { metadata, tensors, lists: reader.lists, tokens, bytes: reader.size, digest: reader.digest() };
}

/** An array in a file: the type of its values, how many, and the first byte of them. */
interface Place {
  readonly of: number;
  readonly count: number;
  readonly offset: number;
}

class Metadata implements GgufKeys {
  readonly #path: string;
  readonly #values = new Map<string, GgufValue | Place>();

  constructor(path: string) {
    this.#path = path;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  set(key: string, value: GgufValue | Place): void {
    this.#values.set(key, value);
  }

  /** Values of an array that is still to be read. */
  lengthOf(key: string): number | undefined {
    const value = this.#values.get(key);
    return typeof value === "object" && "of" in value ? value.count : undefined;
  }

  /** @throws CheckpointError if an array of the file is no longer there */
  get(key: string): GgufValue | undefined {
    const value = this.#values.get(key);
    if (typeof value !== "object" || !("of" in value)) return value;
    const reader = new Reader(this.#path);
    try {
      const array = readArray(reader, key, value);
      this.#values.set(key, array);
      return array;
    } finally {
      reader.close();
    }
  }
}

function readValue(reader: Reader, key: string): GgufValue | Place {
  const type = reader.integer(4);
  const value = type === ARRAY ? placeOf(reader, key) : type === STRING ? reader.text() : readNumber(reader, key, type);
  const limit = Object.entries(LIMITS).find(([end]) => key.endsWith(end))?.[1];
  if (limit === undefined || (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= limit)) return value;
  const shown = typeof value === "object" ? "an array" : shorten(String(value));
  throw reader.problem(`${quoted(key)} is ${shown}; it must be a whole number from 1 to ${limit}`);
}

/** Checks that an array is within the file, and skips it. */
function placeOf(reader: Reader, key: string): Place {
  const [of, count] = [reader.integer(4), reader.integer(8)];
  const width = of === STRING ? 8 : WIDTHS.get(of);
  if (width === undefined) throw unknownType(reader, key, of);
  reader.require(count * width);
  const offset = reader.at;
  if (of === F32) reader.lists.set(key, { offset, count });
  if (of === STRING) for (let i = 0; i < count; i++) reader.skip(reader.integer(8));
  else reader.skip(count * width);
  return { of, count, offset };
}

function readArray(reader: Reader, key: string, { of, count, offset }: Place): GgufValue {
  reader.at = offset;
  // Before space for the values is taken.
  reader.require(count * (of === STRING ? 8 : (WIDTHS.get(of) ?? 1)));
  if (of === STRING) return Array.from({ length: count }, () => reader.text());
  return Array.from({ length: count }, () => readNumber(reader, key, of)) as GgufValue;
}

function readNumber(reader: Reader, key: string, type: number): number | boolean {
  const width = WIDTHS.get(type);
  if (width === undefined) throw unknownType(reader, key, type);
  if (type === F32) return reader.bytes(width).readFloatLE();
  if (type === F64) return reader.bytes(width).readDoubleLE();
  const value = reader.integer(width, SIGNED.includes(type));
  return type === BOOL ? value !== 0 : value;
}

function unknownType(reader: Reader, key: string, type: number): CheckpointError {
  return reader.problem(`${quoted(key)} has the type ${type}, which GGUF does not have there`);
}

function readEntry(reader: Reader): Omit<GgufTensor, "offset"> & { readonly start: number } {
  const name = reader.name();
  const axes = reader.integer(4);
  if (axes < 1 || axes > MAX_AXES) {
    throw reader.problem(`the tensor ${quoted(name)} has ${axes} axes; 1 to ${MAX_AXES} are allowed`);
  }
  const extents = Array.from({ length: axes }, () => reader.integer(8));
  const number = reader.integer(4);
  const start = reader.integer(8);
  const type = TENSOR_TYPES.get(number) ?? `type ${number}`;
  const elements = elementCount(extents);
  if (extents.some((extent) => extent < 1) || elements > Number.MAX_SAFE_INTEGER) {
    throw reader.problem(`the tensor ${quoted(name)} has the shape [${extents.join(", ")}]`);
  }
  const entry = { name, shape: extents.toReversed(), type, start };
  // llama.cpp has more types; it checks the ends of their tensors.
  if (!isGgufType(type)) return { ...entry, bytes: undefined };
  if ((extents[0] as number) % BLOCKS[type].elements !== 0) {
    throw reader.problem(`rows of the tensor ${quoted(name)} do not fill blocks of ${type}`);
  }
  return { ...entry, bytes: encodedBytes(type, elements) };
}

export function isGgufType(type: string): type is GgufType {
  return Object.hasOwn(BLOCKS, type);
}

/** Reads little-endian values of a file, one after another, and none beyond its end. */
class Reader {
  readonly path: string;
  readonly #file: number;
  readonly size: number;
  readonly lists = new Map<string, { readonly offset: number; readonly count: number }>();
  at = 0;
  #chunk = Buffer.alloc(0);
  #chunkStart = 0;

  constructor(path: string) {
    this.path = path;
    this.#file = openSync(path, READ_NOW);
    const stats = fstatSync(this.#file);
    this.size = stats.size;
    if (stats.isFile()) return;
    this.close();
    throw this.problem("it is not a file");
  }

  bytes(count: number): Buffer {
    const from = this.at;
    this.skip(count);
    if (this.at > this.#chunkStart + this.#chunk.byteLength) {
      const wanted = Buffer.alloc(Math.min(Math.max(count, CHUNK), this.size - from));
      this.#chunk = wanted.subarray(0, readSync(this.#file, wanted, 0, wanted.byteLength, from));
      this.#chunkStart = from;
      if (this.#chunk.byteLength < count) throw this.#cutOff();
    }
    return this.#chunk.subarray(from - this.#chunkStart, this.at - this.#chunkStart);
  }

  skip(count: number): void {
    this.require(count);
    this.at += count;
    if (this.at > MAX_HEADER_BYTES) throw this.problem(`its header has more than ${formatBytes(MAX_HEADER_BYTES)}`);
  }

  /** @throws CheckpointError if the file has fewer bytes left */
  require(count: number): void {
    if (count > this.size - this.at) throw this.#cutOff();
  }

  integer(width: number, isSigned = false): number {
    const bytes = this.bytes(width);
    if (width === 8 && isSigned) return Number(bytes.readBigInt64LE());
    // Vocabularies have a length before each token, and a bigint takes five times as long.
    if (width === 8) return bytes.readUInt32LE() + bytes.readUInt32LE(4) * 2 ** 32;
    return isSigned ? bytes.readIntLE(0, width) : bytes.readUIntLE(0, width);
  }

  text(): string {
    return this.bytes(this.integer(8)).toString("utf8");
  }

  name(): string {
    const length = this.integer(8);
    if (length > MAX_KEY_BYTES && MAX_KEY_BYTES < this.size) {
      throw this.problem(`it has a name of ${formatBytes(length)}`);
    }
    const bytes = this.bytes(length);
    if (!isUtf8(bytes)) throw this.problem(`its name ${quoted(bytes.toString("utf8"))} is not UTF-8`);
    return bytes.toString("utf8");
  }

  /** SHA-256 of what was read. */
  digest(): string {
    const hash = createHash("sha256");
    const chunk = Buffer.alloc(CHUNK);
    for (let at = 0; at < this.at; ) {
      const count = readSync(this.#file, chunk, 0, Math.min(CHUNK, this.at - at), at);
      if (count === 0) throw this.#cutOff();
      hash.update(chunk.subarray(0, count));
      at += count;
    }
    return hash.digest("hex");
  }

  close(): void {
    closeSync(this.#file);
  }

  problem(reason: string): CheckpointError {
    return new CheckpointError(`${this.path} cannot be used: ${reason}.`, { file: this.path });
  }

  #cutOff(): CheckpointError {
    return this.problem("it ends within its header or is damaged; download or export it again");
  }
}

/** A name of a stranger, for a message. */
const quoted = (name: string) => JSON.stringify(shorten(name));
