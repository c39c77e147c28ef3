// Shared test helpers: files from header texts, temporary folders, errors as values.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { onTestFinished } from "vitest";
import {
  type Header,
  parseHeader,
  parseHeaderLength,
  type TensorDeclaration,
} from "../../src/formats/safetensors/header.js";
import { DTYPE_BITS, type DType } from "../../src/kit/dtype.js";
import { type ErrorWhere, LayergraftError } from "../../src/kit/errors.js";

export const DTYPES = Object.keys(DTYPE_BITS) as DType[];

/** One `"name":{...}` of a header. */
export function entry(name: string, dtype: string, shape: readonly number[], begin: number, end: number): string {
  return `${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [begin, end] })}`;
}

/** A whole file: length, this header unchanged, and `data` (or as many zeros). */
export function fileOf(header: string | Uint8Array, data: number | Uint8Array = 0): Buffer {
  const json = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.byteLength));
  return Buffer.concat([length, json, typeof data === "number" ? Buffer.alloc(data) : data]);
}

/** Like `openSafetensors`, for bytes. */
export function parseFile(file: Uint8Array): Header {
  const length = parseHeaderLength(file.subarray(0, 8), file.byteLength, "x.safetensors");
  return parseHeader(file.subarray(8, 8 + length), file.byteLength, "x.safetensors");
}

export interface Problem {
  readonly name: string;
  readonly message: string;
  readonly where: ErrorWhere;
}

/** The error of ours that `run` throws; anything else fails the test. */
export async function problemOf(run: () => unknown): Promise<Problem> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    return { name: error.name, message: error.message, where: error.where };
  }
  throw new Error("nothing was thrown");
}

/** A new folder, removed when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "layergraft-safetensors-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const tensor: fc.Arbitrary<TensorDeclaration> = fc
  .record({
    name: fc.oneof(
      fc.string({ unit: "binary", maxLength: 12 }),
      fc.constantFrom("__proto__", "constructor", "toString", "0", "", "model.layers.0.mlp.weight"),
    ),
    dtype: fc.constantFrom(...DTYPES),
    shape: fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 }),
  })
  .filter(({ name }) => name !== "__metadata__")
  // Four elements of any dtype fill whole bytes.
  .map(({ name, dtype, shape }) => ({ name, dtype, shape: DTYPE_BITS[dtype] % 8 === 0 ? shape : [...shape, 4] }));

/** Lists of tensors that a file can hold: every dtype, empty and scalar ones, names from all of Unicode. */
export const tensorLists = fc.uniqueArray(tensor, { selector: ({ name }) => name, maxLength: 12 });

export const metadatas = fc.dictionary(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), { maxKeys: 4 });
