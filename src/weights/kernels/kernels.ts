// The WebAssembly kernels and the memory they work in. One instance per thread; nothing here is shared.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { FloatDType } from "../../core/index.js";
import { BLOCKS, type BlockEncoding, ENCODINGS, type Encoding, type StoredBlocks } from "./encodings.js";

/** A dtype that the SIMD kernels read and write; float64 is converted to float32 first. */
export type KernelDType = Exclude<FloatDType, "F64">;

type Scale = (src: number, acc: number, n: number, weight: number) => void;
type Encode = (acc: number, dst: number, n: number) => number | undefined;
type MatrixStatistics = (a: number, b: number, rows: number, columns: number, sums: number, totals: number) => void;
type PairStatistics = (x: number, y: number, b: number, n: number, totals: number) => void;

/** Exports of the WebAssembly module. Buffer arguments are addresses; `n` counts elements. */
interface Exports
  // acc[i] = weight * src[i] in float32; exact for weight 1.
  extends Record<`scale${KernelDType}`, Scale>,
    // out[i] = a[i] - b[i] in float32.
    Record<`difference${KernelDType}`, (a: number, b: number, out: number, n: number) => void>,
    // acc[i] += weight * src[i] in float32: the product is rounded, then the sum.
    Record<`addScaled${KernelDType}`, Scale>,
    // Rounds; float16 returns how many finite values became infinite. bfloat16 has the range of float32.
    Record<`encode${KernelDType}`, Encode>,
    // Adds to `sums` [columns] the sums of |a - b| down each column of two stored matrices, and to `totals` [sum of
    // (a - b)^2, sum of b^2, elements where a equals b, largest |a - b|], all float64. Values must be finite; a
    // non-finite sum means that some were not.
    Record<`columns${KernelDType}`, MatrixStatistics>,
    // As columns, with `sums` [rows] along each stored row; a vector is a matrix of one row.
    Record<`rows${KernelDType}`, MatrixStatistics>,
    // Adds to `totals` [sum of (x - b)(y - b), elements where these differences have opposite signs], float64.
    Record<`pair${KernelDType}`, PairStatistics>,
    // Encodes blocks of finite float32; returns how many of them have no finite scale.
    Record<`quantize${BlockEncoding}`, (x: number, dst: number, blocks: number) => number>,
    // Blocks to float32.
    Record<`dequantize${StoredBlocks}`, (src: number, x: number, blocks: number) => void> {
  readonly memory: WebAssembly.Memory;
  heapBase(): number;
  /** acc[i] /= divisor in float32. */
  divide(acc: number, n: number, divisor: number): void;
  /** acc[i, j] += scale * sum_k left[i, k] right[k, j], all float32, row-major and without padding between rows. */
  addLowRank(
    acc: number,
    left: number,
    right: number,
    rows: number,
    columns: number,
    rank: number,
    scale: number,
  ): void;
  /** c [m, n] += a [m, k] times b [n, k] transposed, all float64, row-major and dense. */
  addDots(c: number, a: number, b: number, m: number, n: number, k: number): void;
  /** c [m, n] += a [m, k] times b [k, n], all float64, row-major and dense. */
  addRows(c: number, a: number, b: number, m: number, n: number, k: number): void;
  /** Copies columns of float32 rows, `stride` elements apart, to float64: dst [rows, columns]. */
  widen(src: number, dst: number, rows: number, columns: number, stride: number): void;
  deltaStatistics(a: number, b: number, n: number, out: number): void;
  /** a = a - b in float32. */
  subtract(a: number, b: number, n: number): void;
  trimBy(a: number, by: number, n: number, low: number, high: number): void;
  drop(a: number, n: number, index: number, seed0: number, seed1: number, bound: number, scale: number): void;
  /** Over buffers whose addresses (u32) are in `table` and weights (float32) in `weights`; into the first buffer. */
  consensus(
    table: number,
    weights: number,
    count: number,
    n: number,
    tie: number,
    weighted: boolean,
    normalize: boolean,
  ): void;
  /** Adds to `total`, a float64, the sum of a[i] b[i]; what follows the last element must be zero. */
  addProducts(a: number, b: number, n: number, total: number): void;
  /** Over buffers whose addresses (u32) are in `table`; into the first buffer. */
  variance(table: number, count: number, n: number): void;
  approach(a: number, b: number, n: number, step: number): void;
  /** `mask` has an int32 per column, -1 or 0. */
  selectColumns(a: number, b: number, rows: number, columns: number, mask: number): void;
  /** Adds to `counts` [1 + bins] u32 how many magnitudes have bits below `from`, and in each range of 2^shift from there on. */
  countKeys(a: number, n: number, from: number, shift: number, bins: number, counts: number): void;
  /** Writes index and count of counters that are not zero to `pairs` [n, 2] u32 and clears them; returns how many. */
  takeCounts(counts: number, n: number, pairs: number): number;
  /** Adds to `totals`, two float64, how many elements are positive and how many negative. */
  countSigns(a: number, n: number, totals: number): void;
  /** One row of `n`; `scratch` has 4 n + 32 u32, `counts` 4096. */
  dropByMagnitude(
    a: number,
    n: number,
    index: number,
    seed0: number,
    seed1: number,
    density: number,
    epsilon: number,
    divide: boolean,
    scratch: number,
    counts: number,
  ): void;
}

const PAGE = 65_536;
const PADDING = 32; // two vectors: the largest stride of any kernel's loop

let compiled: WebAssembly.Module | undefined;

function compile(): WebAssembly.Module {
  compiled ??= new WebAssembly.Module(readFileSync(createRequire(import.meta.url).resolve("#kernels.wasm")));
  return compiled;
}

/** Exports of a new instance, with a memory of its own; the module is compiled once. */
export function instantiate(): Readonly<Record<string, unknown>> {
  return new WebAssembly.Instance(compile()).exports;
}

/**
 * SIMD kernels (`wasm`) over buffers in one WebAssembly memory.
 *
 * Buffers come from `allocate` and are padded to 32 bytes; kernels run over the padding. The bytes of a buffer after
 * its last element must be zero when it is read (`clearPadding`), so the padding does not count.
 */
export class Kernels {
  readonly wasm: Exports;
  #end: number;
  /** End of what was ever allocated; beyond it memory is zero. */
  #used: number;

  constructor() {
    this.wasm = instantiate() as unknown as Exports;
    this.#end = align(this.wasm.heapBase());
    this.#used = this.#end;
  }

  /**
   * Reserves a buffer of at least `bytes` bytes, filled with zeros, for the life of this instance or of `borrow`.
   * Views taken before a call to `allocate` are detached by it.
   * @returns its address, a multiple of 32.
   */
  allocate(bytes: number): number {
    const address = this.#end;
    this.#end = align(address + bytes + PADDING);
    const missing = this.#end - this.wasm.memory.buffer.byteLength;
    if (missing > 0) this.wasm.memory.grow(Math.ceil(missing / PAGE));
    if (address < this.#used) this.bytes(address, this.#end - address).fill(0);
    this.#used = Math.max(this.#used, this.#end);
    return address;
  }

  /** Gives back what was allocated while `work` ran. */
  borrow<T>(work: () => T): T {
    const end = this.#end;
    try {
      return work();
    } finally {
      this.#end = end;
    }
  }

  /** A view of `length` bytes at `address`. */
  bytes(address: number, length: number): Uint8Array {
    return new Uint8Array(this.wasm.memory.buffer, address, length);
  }

  /** A view of `length` float32 at `address`. */
  floats(address: number, length: number): Float32Array {
    return new Float32Array(this.wasm.memory.buffer, address, length);
  }

  /** Zeroes what follows the first `length` bytes of a buffer, up to the end of a kernel's last vector. */
  clearPadding(address: number, length: number): void {
    this.bytes(address + length, PADDING).fill(0);
  }

  /**
   * Rounds float32 to a stored dtype, to nearest, ties to even; any NaN becomes the canonical quiet NaN.
   * @returns how many finite values became infinite (float16 only; bfloat16 has the range of float32).
   */
  encode(dtype: KernelDType, acc: number, dst: number, n: number): number {
    return this.wasm[`encode${dtype}`](acc, dst, n) ?? 0;
  }

  /**
   * Encodes whole blocks of float32 as GGUF files store them.
   * @returns their bytes, and how many values or scales became infinite or are not finite
   */
  quantize(encoding: Encoding, x: number, dst: number, n: number): { bytes: number; broken: number } {
    const { elements, bytes } = ENCODINGS[encoding];
    if (encoding === "F32" || encoding === "F16" || encoding === "BF16") {
      return { bytes: n * bytes, broken: this.encode(encoding, x, dst, n) };
    }
    const blocks = n / elements;
    return { bytes: blocks * bytes, broken: this.wasm[`quantize${encoding}`](x, dst, blocks) };
  }

  /** Whole blocks of GGUF files to `n` float32. */
  dequantize(blocks: StoredBlocks, src: number, x: number, n: number): void {
    this.wasm[`dequantize${blocks}`](src, x, n / BLOCKS[blocks].elements);
  }

  /** A view of `length` float64 at `address`. */
  doubles(address: number, length: number): Float64Array {
    return new Float64Array(this.wasm.memory.buffer, address, length);
  }

  /** A view of `length` int32 or uint32 at `address`. */
  integers(address: number, length: number): Int32Array {
    return new Int32Array(this.wasm.memory.buffer, address, length);
  }

  counters(address: number, length: number): Uint32Array {
    return new Uint32Array(this.wasm.memory.buffer, address, length);
  }

  /** `DeltaStatistics` of a - b over n float32 elements, as six numbers; `scratch` is a buffer of at least 48 bytes. */
  deltaStatistics(a: number, b: number, n: number, scratch: number): Float64Array {
    this.wasm.deltaStatistics(a, b, n, scratch);
    return this.doubles(scratch, 6).slice();
  }
}

function align(address: number): number {
  return Math.ceil(address / PADDING) * PADDING;
}
