// How tensors of GGUF files store their values: plain, or in blocks with scales of their own.
import { bytesPerElement, type DType, isDType } from "../kit/index.js";

/** Elements of a block, and its bytes. The names are those of llama.cpp (ggml-common.h). */
export const ENCODINGS = {
  F32: { elements: 1, bytes: 4 },
  F16: { elements: 1, bytes: 2 },
  BF16: { elements: 1, bytes: 2 },
  Q4_0: { elements: 32, bytes: 18 },
  Q5_0: { elements: 32, bytes: 22 },
  Q5_1: { elements: 32, bytes: 24 },
  Q8_0: { elements: 32, bytes: 34 },
  Q4_K: { elements: 256, bytes: 144 },
  Q5_K: { elements: 256, bytes: 176 },
  Q6_K: { elements: 256, bytes: 210 },
} as const;

export type Encoding = keyof typeof ENCODINGS;

/** Encodings in blocks with a scale. */
export type BlockEncoding = Exclude<Encoding, "F32" | "F16" | "BF16">;

/** The same of all block encodings that are read; those that are not written came with older or smaller models. */
export const BLOCKS = {
  ...ENCODINGS,
  Q4_1: { elements: 32, bytes: 20 },
  Q2_K: { elements: 256, bytes: 84 },
  Q3_K: { elements: 256, bytes: 110 },
} as const;

/** A block encoding that values are read from. */
export type StoredBlocks = Exclude<keyof typeof BLOCKS, "F32" | "F16" | "BF16">;

/** Bytes of a number of elements that fills whole blocks. */
export function encodedBytes(encoding: keyof typeof BLOCKS, elements: number): number {
  const { elements: block, bytes } = BLOCKS[encoding];
  return (elements / block) * bytes;
}

/** How values are stored: one by one, or in blocks of a GGUF file, of which rows fill a whole number. */
export type StoredType = DType | StoredBlocks;

/** Bytes per value; of blocks, a fraction that is exact in binary. */
export function bytesPerValue(type: StoredType): number {
  return isDType(type) ? bytesPerElement(type) : BLOCKS[type].bytes / BLOCKS[type].elements;
}

/** Where a row goes if the halves of its group alternate. */
export function interleaved(row: number, group: number): number {
  const within = row % group;
  const half = group / 2;
  return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}
