// The block formats of GGUF decoded plainly, one element at a time (dequantize_row_* in ggml-quants.c of llama.cpp).
import { type BlockEncoding, ENCODINGS, type Encoding } from "../../src/kernels/encodings.js";
import { decode } from "./plain-kernels.js";

/** The values of encoded bytes. */
export function decodeBlocks(encoding: Encoding, bytes: Uint8Array): number[] {
  const { bytes: size, elements } = ENCODINGS[encoding];
  const values: number[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    const view = new DataView(bytes.buffer, bytes.byteOffset + at, size);
    if (encoding === "F32") values.push(view.getFloat32(0, true));
    else if (encoding === "F16" || encoding === "BF16") values.push(decode(encoding, view.getUint16(0, true)));
    else values.push(...Array.from({ length: elements }, (_, i) => element(encoding, view, i)));
  }
  return values;
}

function element(encoding: BlockEncoding, view: DataView, i: number): number {
  const half = (at: number) => decode("F16", view.getUint16(at, true));
  const byte = (at: number) => view.getUint8(at);
  const nibble = (at: number, isHigh: boolean) => (isHigh ? byte(at) >> 4 : byte(at) & 15);
  const fifth = (at: number) => ((view.getUint32(at, true) >>> i) & 1) << 4;
  switch (encoding) {
    case "Q8_0":
      return half(0) * view.getInt8(2 + i);
    case "Q4_0":
      return half(0) * (nibble(2 + (i % 16), i >= 16) - 8);
    case "Q5_0":
      return half(0) * ((nibble(6 + (i % 16), i >= 16) | fifth(2)) - 16);
    case "Q5_1":
      return half(0) * (nibble(8 + (i % 16), i >= 16) | fifth(4)) + half(2);
    case "Q6_K": {
      const [side, within] = [Math.floor(i / 128), i % 128];
      const low = nibble(side * 64 + (within % 64), within >= 64);
      const high = (byte(128 + side * 32 + (within % 32)) >> (2 * Math.floor(within / 32))) & 3;
      return half(208) * view.getInt8(192 + Math.floor(i / 16)) * ((low | (high << 4)) - 32);
    }
    default: {
      const block = Math.floor(i / 32);
      const six = (at: number) => byte(4 + at);
      const [scale, minimum] =
        block < 4
          ? [six(block) & 63, six(block + 4) & 63]
          : [(six(block + 4) & 15) | ((six(block - 4) >> 6) << 4), (six(block + 4) >> 4) | ((six(block) >> 6) << 4)];
      const levels = encoding === "Q4_K" ? 16 : 48;
      const low = nibble(levels + Math.floor(i / 64) * 32 + (i % 32), block % 2 === 1);
      const high = encoding === "Q4_K" ? 0 : ((byte(16 + (i % 32)) >> block) & 1) << 4;
      return half(0) * scale * (low | high) - half(2) * minimum;
    }
  }
}
