// Checks the header of a GGUF file that strangers wrote: llama.cpp ends the process on some, and node-llama-cpp reads others
// without end.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { CheckpointError, elementCount, formatBytes } from "../../core/index.js";
import { ENCODINGS, encodedBytes } from "../../weights/index.js";
import { ALIGNMENT, encodingOf, VALUE_TYPES } from "./gguf-file.js";

/** Bytes of the values of a type, by its number in the file. */
const WIDTHS: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
};
const INTEGERS = [0, 1, 2, 3, 4, 5, 10, 11];
const SIGNED = [1, 3, 5, 11];
/** The longest that the format allows. */
const MAX_KEY_BYTES = 2 ** 16;
/** GGML_MAX_DIMS. */
const MAX_AXES = 4;
/** LLAMA_MAX_LAYERS, which llama.cpp asserts. */
const MAX_LAYERS = 512;
const MAX_SIZE = 2 ** 31 - 1;
/** Whole numbers that llama.cpp computes with before it checks them, by the key's end, and the largest that it takes. */
const LIMITS: Readonly<Record<string, number>> = {
  "general.alignment": 2 ** 16,
  ".block_count": MAX_LAYERS,
  ".context_length": MAX_SIZE,
  ".embedding_length": MAX_SIZE,
};
const CHUNK = 2 ** 20;

/**
 * Checks that a file is a GGUF file with all of its bytes. Reads its header.
 * @throws CheckpointError if it is not
 */
export function checkGguf(path: string): void {
  const reader = new Reader(path);
  try {
    checkHeader(reader);
  } finally {
    reader.close();
  }
}

function checkHeader(reader: Reader): void {
  if (reader.size < 4 || reader.bytes(4).toString("latin1") !== "GGUF") throw reader.problem("it is not a GGUF file");
  const version = reader.integer(4);
  if (version !== 2 && version !== 3) {
    throw reader.problem(`its version is ${version}, and llama.cpp reads 2 and 3; export it again`);
  }
  const [tensors, keys] = [reader.integer(8), reader.integer(8)];
  let alignment = ALIGNMENT;
  for (let i = 0; i < keys; i++) {
    const key = reader.string(MAX_KEY_BYTES);
    const value = checkValue(reader, key);
    if (key === "general.alignment" && value !== undefined) alignment = value;
  }
  let needed = 0;
  for (let i = 0; i < tensors; i++) needed = Math.max(needed, checkTensor(reader));
  const begin = Math.ceil(reader.at / alignment) * alignment;
  if (needed === 0 || begin + needed <= reader.size) return;
  throw reader.problem(
    `it has ${formatBytes(reader.size)} of ${formatBytes(begin + needed)}; download or export it again`,
  );
}

/** Reads a value past; returns it if it is a whole number of which there is a limit. */
function checkValue(reader: Reader, key: string): number | undefined {
  const type = reader.integer(4);
  const limit = Object.entries(LIMITS).find(([end]) => key.endsWith(end))?.[1];
  const width = WIDTHS[type];
  if (width !== undefined) {
    if (limit === undefined || !INTEGERS.includes(type)) {
      reader.skip(width);
      return undefined;
    }
    const value = reader.integer(width, SIGNED.includes(type));
    if (value >= 1 && value <= limit) return value;
    throw reader.problem(`${JSON.stringify(key)} is ${value}; it must be from 1 to ${limit}`);
  }
  if (type === VALUE_TYPES.string) {
    reader.skip(reader.integer(8));
    return undefined;
  }
  const of = type === VALUE_TYPES.array ? reader.integer(4) : type;
  const count = type === VALUE_TYPES.array ? reader.integer(8) : 0;
  const entry = WIDTHS[of];
  if (entry !== undefined) reader.skip(count * entry);
  else if (of === VALUE_TYPES.string) for (let i = 0; i < count; i++) reader.skip(reader.integer(8));
  else throw reader.problem(`${JSON.stringify(key)} has the type ${of}, which GGUF does not have there`);
  return undefined;
}

/** Reads the entry of a tensor; returns where its bytes end, after the header. */
function checkTensor(reader: Reader): number {
  const name = reader.string(MAX_KEY_BYTES);
  const axes = reader.integer(4);
  if (axes < 1 || axes > MAX_AXES) {
    throw reader.problem(`the tensor ${JSON.stringify(name)} has ${axes} axes; 1 to ${MAX_AXES} are allowed`);
  }
  const shape = Array.from({ length: axes }, () => reader.integer(8));
  const encoding = encodingOf(reader.integer(4));
  const offset = reader.integer(8);
  if (shape.some((extent) => extent < 1) || elementCount(shape) > Number.MAX_SAFE_INTEGER) {
    throw reader.problem(`the tensor ${JSON.stringify(name)} has the shape [${shape.join(", ")}]`);
  }
  // llama.cpp has more encodings; it checks the ends of their tensors.
  if (encoding === undefined) return offset;
  if ((shape[0] as number) % ENCODINGS[encoding].elements !== 0) {
    throw reader.problem(`rows of the tensor ${JSON.stringify(name)} do not fill blocks of ${encoding}`);
  }
  return offset + encodedBytes(encoding, elementCount(shape));
}

/** Reads little-endian values of a file, one after another, and none beyond its end. */
class Reader {
  readonly #path: string;
  readonly #file: number;
  readonly size: number;
  at = 0;
  #chunk = Buffer.alloc(0);
  #chunkStart = 0;

  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, "r");
    this.size = fstatSync(this.#file).size;
  }

  bytes(count: number): Buffer {
    const from = this.at;
    this.skip(count);
    if (from < this.#chunkStart || this.at > this.#chunkStart + this.#chunk.byteLength) {
      const wanted = Buffer.alloc(Math.min(Math.max(count, CHUNK), this.size - from));
      this.#chunk = wanted.subarray(0, readSync(this.#file, wanted, 0, wanted.byteLength, from));
      this.#chunkStart = from;
      if (this.#chunk.byteLength < count) throw this.#cutOff();
    }
    return this.#chunk.subarray(from - this.#chunkStart, this.at - this.#chunkStart);
  }

  skip(count: number): void {
    if (count > this.size - this.at) throw this.#cutOff();
    this.at += count;
  }

  integer(width: number, isSigned = false): number {
    const bytes = this.bytes(width);
    if (width === 8) return Number(isSigned ? bytes.readBigInt64LE() : bytes.readBigUInt64LE());
    return isSigned ? bytes.readIntLE(0, width) : bytes.readUIntLE(0, width);
  }

  string(mostBytes: number): string {
    const bytes = this.integer(8);
    if (bytes > mostBytes) throw this.problem(`it has a name of ${formatBytes(bytes)}`);
    return this.bytes(bytes).toString("utf8");
  }

  close(): void {
    closeSync(this.#file);
  }

  problem(reason: string): CheckpointError {
    return new CheckpointError(`${this.#path} cannot be used: ${reason}.`, { file: this.#path });
  }

  #cutOff(): CheckpointError {
    return this.problem("it ends within its header or is damaged; download or export it again");
  }
}
