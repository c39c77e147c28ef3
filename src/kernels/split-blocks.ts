// Blocks of GGUF files as codes and scales apart, in the order of ONNX Runtime's MatMulNBits: the number of code c is
// scale * (c - 2^(bits - 1)), and of two codes in a byte the first is in the lower half.
import { ENCODINGS } from "./encodings.js";

/** Elements of a block, which share a scale. */
export const BLOCK_COLUMNS = 32;

/** Encodings whose blocks can be split. */
export type SplitEncoding = "Q4_0" | "Q8_0";

// Of the scale before the codes of a block, float16.
const SCALE_BYTES = 2;

/** Bytes of the codes and of the float32 scales of a number of elements that fills whole blocks. */
export function splitBytes(
  encoding: SplitEncoding,
  elements: number,
): { readonly codes: number; readonly scales: number } {
  const blocks = elements / BLOCK_COLUMNS;
  return { codes: blocks * (ENCODINGS[encoding].bytes - SCALE_BYTES), scales: blocks * 4 };
}

/** Splits encoded blocks. */
export function splitBlocks(
  encoding: SplitEncoding,
  encoded: Uint8Array,
): { readonly codes: Uint8Array; readonly scales: Uint8Array } {
  const stride = ENCODINGS[encoding].bytes;
  const width = stride - SCALE_BYTES;
  const blocks = encoded.byteLength / stride;
  const codes = new Uint8Array(blocks * width);
  const scales = new Float32Array(blocks);
  for (let block = 0; block < blocks; block++) {
    const from = block * stride;
    const to = block * width;
    scales[block] = halfFloat((encoded[from] as number) | ((encoded[from + 1] as number) << 8));
    const byte = (i: number) => encoded[from + SCALE_BYTES + i] as number;
    if (encoding === "Q8_0") {
      // Signed codes.
      for (let i = 0; i < width; i++) codes[to + i] = byte(i) ^ 0x80;
      continue;
    }
    // Lower halves hold the first 16 elements, upper halves the others.
    for (let i = 0; i < width; i += 2) {
      codes[to + i / 2] = (byte(i) & 15) | ((byte(i + 1) & 15) << 4);
      codes[to + (width + i) / 2] = (byte(i) >> 4) | (byte(i + 1) & 0xf0);
    }
  }
  return { codes, scales: new Uint8Array(scales.buffer) };
}

/** The value of a float16. */
function halfFloat(bits: number): number {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}
