// How tensors store their values: plain, in blocks with scales of their own (GGUF), or as codes with scales elsewhere.
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

/** Bits of codes, whose scales are tensors of their own: float8 (E4M3), float4 (E2M1), integers from 0 or with a sign. */
export const CODE_BITS = { FP8: 8, FP4: 4, INT2: 2, INT4: 4, UINT8: 8, INT8: 8 } as const;

export type Code = keyof typeof CODE_BITS;

export const isCode = (type: string): type is Code => Object.hasOwn(CODE_BITS, type);

/** A value by its code. */
export function codeValues(code: Code): Float32Array {
  const value: Readonly<Record<Code, (bits: number) => number>> = {
    FP8: (bits) => ((bits & 127) === 127 ? Number.NaN : smallFloat(bits, 4, 3)),
    FP4: (bits) => smallFloat(bits, 2, 1),
    INT2: (bits) => bits,
    INT4: (bits) => bits,
    UINT8: (bits) => bits,
    INT8: (bits) => (bits << 24) >> 24,
  };
  return Float32Array.from({ length: 2 ** CODE_BITS[code] }, (_, bits) => value[code](bits));
}

/** A float of a sign, an exponent and a mantissa, without infinities. */
function smallFloat(bits: number, exponentBits: number, mantissaBits: number): number {
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1);
  const mantissa = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
  return sign * (exponent === 0 ? mantissa : 1 + mantissa) * 2 ** (Math.max(1, exponent) - 2 ** (exponentBits - 1) + 1);
}

/** How values are stored: one by one, in blocks of a GGUF file, of which rows fill a whole number, or as codes. */
export type StoredType = DType | StoredBlocks | Code;

/** Bytes per value; of blocks and codes, a fraction that is exact in binary. */
export function bytesPerValue(type: StoredType): number {
  if (isCode(type)) return CODE_BITS[type] / 8;
  return isDType(type) ? bytesPerElement(type) : BLOCKS[type].bytes / BLOCKS[type].elements;
}
