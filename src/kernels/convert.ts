// Converts whole arrays between stored bytes and float32 with the SIMD kernels.
import { BLOCKS, type StoredBlocks } from "./encodings.js";
import { type KernelDType, Kernels } from "./kernels.js";

// Elements that fit in a second-level cache in both forms.
const BLOCK = 32_768;

/** The SIMD kernels with two work buffers. */
export class Converter {
  readonly #kernels = new Kernels();
  readonly #floats = this.#kernels.allocate(BLOCK * 4);
  readonly #stored = this.#kernels.allocate(BLOCK * 4);

  /**
   * Rounds float32 values to a stored dtype, to nearest, ties to even; any NaN becomes the canonical quiet NaN.
   * @returns the bytes, little-endian, and how many of the rounded values are infinite or NaN
   */
  encode(dtype: KernelDType, values: Float32Array): { bytes: Uint8Array; nonFinite: number } {
    const size = dtype === "F32" ? 4 : 2;
    const bytes = new Uint8Array(values.length * size);
    let nonFinite = 0;
    for (let begin = 0; begin < values.length; begin += BLOCK) {
      const block = values.subarray(begin, begin + BLOCK);
      this.#kernels.floats(this.#floats, BLOCK).set(block);
      this.#kernels.clearPadding(this.#floats, block.byteLength);
      nonFinite += this.#kernels.encode(dtype, this.#floats, this.#stored, block.length);
      bytes.set(this.#kernels.bytes(this.#stored, block.length * size), begin * size);
    }
    return { bytes, nonFinite };
  }

  /** The float32 values of whole blocks of a GGUF file, fewer than fill a buffer. */
  dequantize(blocks: StoredBlocks, bytes: Uint8Array): Float32Array {
    const count = (bytes.byteLength / BLOCKS[blocks].bytes) * BLOCKS[blocks].elements;
    if (count > BLOCK) throw new RangeError(`${count} values are more than a buffer holds`);
    this.#kernels.bytes(this.#stored, bytes.byteLength).set(bytes);
    this.#kernels.dequantize(blocks, this.#stored, this.#floats, count);
    return this.#kernels.floats(this.#floats, count).slice();
  }

  /** The float32 values of stored bytes, which float32 holds exactly; into `to` if it is given. */
  decode(dtype: KernelDType, bytes: Uint8Array, to?: Float32Array): Float32Array {
    const size = dtype === "F32" ? 4 : 2;
    const values = to ?? new Float32Array(bytes.byteLength / size);
    for (let begin = 0; begin < values.length; begin += BLOCK) {
      const block = bytes.subarray(begin * size, (begin + BLOCK) * size);
      const count = block.byteLength / size;
      this.#kernels.bytes(this.#stored, block.byteLength).set(block);
      this.#kernels.clearPadding(this.#stored, block.byteLength);
      this.#kernels.wasm[`scale${dtype}`](this.#stored, this.#floats, count, 1);
      values.set(this.#kernels.floats(this.#floats, count), begin);
    }
    return values;
  }
}
