// The layout of a GGUF file, version 3: metadata, the places of the tensors, then their bytes.
// Format: docs/gguf.md of ggml-org/ggml.

import { ggufTypeNumber } from "../../formats/gguf/index.js";
import { type Encoding, encodedBytes } from "../../kernels/index.js";
import { elementCount } from "../../kit/index.js";

const VERSION = 3;
/** Tensors begin at multiples of this, the format's default. */
const ALIGNMENT = 32;

/** Numbers of value types in metadata that files are written with. */
const VALUE_TYPES = { u8: 0, i32: 5, u32: 4, f32: 6, bool: 7, string: 8, array: 9 } as const;

type Scalar = "u32" | "f32" | "bool" | "string";

/** A value with its type in the file. */
export type MetadataValue =
  | { readonly type: Scalar; readonly value: number | boolean | string }
  | {
      readonly type: "array";
      readonly of: "i32" | "f32" | "bool" | "u8";
      readonly value: readonly number[] | Uint8Array;
    }
  | { readonly type: "array"; readonly of: "string"; readonly value: readonly string[] };

/** Metadata by key; a key that is set again keeps its place. */
export type Metadata = Map<string, MetadataValue>;

export const u32 = (value: number): MetadataValue => ({ type: "u32", value });
export const f32 = (value: number): MetadataValue => ({ type: "f32", value });
export const bool = (value: boolean): MetadataValue => ({ type: "bool", value });
export const text = (value: string): MetadataValue => ({ type: "string", value });

export interface TensorEntry {
  readonly name: string;
  /** Slowest axis first, as in safetensors. */
  readonly shape: readonly number[];
  readonly encoding: Encoding;
}

export interface GgufLayout {
  /** Everything before the first tensor. */
  readonly header: Uint8Array;
  /** First byte of each tensor, in the order of the entries. */
  readonly offsets: readonly number[];
  readonly bytes: number;
}

export function layOutGguf(metadata: ReadonlyMap<string, MetadataValue>, tensors: readonly TensorEntry[]): GgufLayout {
  const writer = new Writer();
  writer.raw(Buffer.from("GGUF"));
  writer.u32(VERSION);
  writer.u64(tensors.length);
  writer.u64(metadata.size);
  for (const [key, value] of metadata) {
    writer.string(key);
    writer.u32(VALUE_TYPES[value.type]);
    if (value.type === "array") writer.raw(encodedArray(value));
    else writer.scalar(value.type, value.value);
  }
  let end = 0;
  const starts = tensors.map(({ name, shape, encoding }) => {
    const start = aligned(end);
    end = start + encodedBytes(encoding, elementCount(shape));
    writer.string(name);
    writer.u32(shape.length);
    for (const extent of shape.toReversed()) writer.u64(extent);
    writer.u32(ggufTypeNumber(encoding));
    writer.u64(start);
    return start;
  });
  const bytes = writer.end();
  const header = Buffer.alloc(aligned(bytes.byteLength));
  bytes.copy(header);
  const offsets = starts.map((start) => header.byteLength + start);
  // The last tensor is padded, too: readers map the file up to there.
  return { header, offsets, bytes: header.byteLength + aligned(end) };
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT;
}

/** Little-endian values, one after another. */
class Writer {
  readonly #parts: Buffer[] = [];

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
  }

  u32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    this.raw(bytes);
  }

  u64(value: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    this.raw(bytes);
  }

  string(value: string): void {
    const bytes = Buffer.from(value);
    this.u64(bytes.byteLength);
    this.raw(bytes);
  }

  scalar(type: Scalar, value: number | boolean | string): void {
    if (type === "string") this.string(String(value));
    else if (type === "bool") this.raw(Buffer.from([value ? 1 : 0]));
    else if (type === "u32") this.u32(Number(value));
    else this.raw(Buffer.from(Float32Array.of(Number(value)).buffer));
  }

  end(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** Arrays that were written before: a tokenizer's are the same for each type that a model is planned as. */
const encodedArrays = new WeakMap<MetadataValue, Buffer>();

function encodedArray(array: MetadataValue & { readonly type: "array" }): Buffer {
  const known = encodedArrays.get(array);
  if (known) return known;
  const { of, value } = array;
  const head = Buffer.alloc(12);
  head.writeUInt32LE(VALUE_TYPES[of]);
  head.writeBigUInt64LE(BigInt(value.length), 4);
  const encoded = Buffer.concat([head, valuesOf(array)]);
  encodedArrays.set(array, encoded);
  return encoded;
}

function valuesOf({ of, value }: MetadataValue & { readonly type: "array" }): Buffer {
  if (of === "string") return encodedStrings(value as readonly string[]);
  if (of === "f32") return Buffer.from(Float32Array.from(value as readonly number[]).buffer);
  if (of === "i32") return Buffer.from(Int32Array.from(value as readonly number[]).buffer);
  return Buffer.from(Uint8Array.from(value as readonly number[]));
}

/** In one buffer: vocabularies have hundreds of thousands of strings. */
function encodedStrings(strings: readonly string[]): Buffer {
  const bytes = Buffer.alloc(strings.reduce((sum, one) => sum + 8 + Buffer.byteLength(one), 0));
  let at = 0;
  for (const one of strings) {
    const length = bytes.write(one, at + 8);
    // Lengths have 64 bits, of which a string needs 32.
    bytes.writeUInt32LE(length, at);
    at += 8 + length;
  }
  return bytes;
}
