// The WebAssembly kernels and the memory they work in. One instance per thread; nothing here is shared.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { FloatDType } from "../kit/index.js";
import { BLOCKS, type BlockEncoding, ENCODINGS, type Encoding, type StoredBlocks } from "./encodings.js";

/** A dtype that the SIMD kernels read and write; float64 is converted to float32 first. */
export type KernelDType = Exclude<FloatDType, "F64">;

type Scale = (src: number, acc: number, n: number, weight: number) => void;

/** Exports of the WebAssembly module, which `assembly/` describes. Buffer arguments are addresses; `n` counts elements. */
interface Exports
  extends Record<`scale${KernelDType}`, Scale>,
    Record<`difference${KernelDType}`, (a: number, b: number, out: number, n: number) => void>,
    Record<`addScaled${KernelDType}`, Scale>,
    Record<`encode${KernelDType}`, (acc: number, dst: number, n: number) => void>,
    Record<`countNonFinite${FloatDType}`, (src: number, n: number) => number>,
    Record<`quantize${BlockEncoding}`, (x: number, dst: number, blocks: number) => number>,
    Record<`dequantize${StoredBlocks}`, (src: number, x: number, blocks: number) => void> {
  /** A `WebAssembly.Memory`, which only the library of browsers declares. */
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  heapBase(): number;
  encodeF8_E4M3(acc: number, dst: number, n: number): void;
  divide(acc: number, n: number, divisor: number): void;
  decodeCodes(
    bits: number,
    codes: number,
    row: number,
    places: number,
    values: number,
    scales: number,
    zeros: number,
    scaleRow: number,
    scalePlaces: number,
    n: number,
    to: number,
  ): void;
  addLowRank(
    acc: number,
    left: number,
    right: number,
    rows: number,
    columns: number,
    rank: number,
    scale: number,
  ): void;
  setLengths(acc: number, lengths: number, rows: number, columns: number): void;
  addDots(c: number, a: number, b: number, m: number, n: number, k: number): void;
  addRows(c: number, a: number, b: number, m: number, n: number, k: number): void;
  tridiagonalize(v: number, d: number, e: number, n: number, sums: number): void;
  solveTridiagonal(v: number, d: number, e: number, n: number, panel: number, rotations: number, size: number): void;
  widen(src: number, dst: number, rows: number, columns: number, stride: number): void;
  deltaStatistics(a: number, b: number, n: number, out: number): void;
  columnStatistics(a: number, b: number, rows: number, columns: number, sums: number, totals: number): void;
  rowStatistics(a: number, b: number, rows: number, columns: number, sums: number, totals: number): void;
  pairStatistics(x: number, y: number, b: number, n: number, totals: number): void;
  subtract(a: number, b: number, n: number): void;
  trimBy(a: number, by: number, n: number, low: number, high: number): void;
  drop(a: number, n: number, index: number, seed0: number, seed1: number, bound: number, scale: number): void;
  electSigns(
    table: number,
    weights: number,
    count: number,
    n: number,
    tie: number,
    weighted: boolean,
    normalize: boolean,
  ): void;
  addProducts(a: number, b: number, n: number, total: number): void;
  variance(table: number, count: number, n: number): void;
  largest(table: number, count: number, n: number): void;
  needed(table: number, count: number, n: number, threshold: number, agree: number): void;
  unite(table: number, count: number, n: number, alone: number, shared: number): void;
  scaleLines(
    table: number,
    count: number,
    rows: number,
    columns: number,
    factors: number,
    stride: number,
    byColumn: boolean,
  ): void;
  importance(a: number, b: number, rows: number, columns: number, scratch: number): void;
  addColumnProducts(a: number, b: number, rows: number, columns: number, sums: number): void;
  rowProducts(a: number, b: number, rows: number, columns: number, sums: number): void;
  approach(a: number, b: number, n: number, step: number): void;
  selectColumns(a: number, b: number, rows: number, columns: number, mask: number): void;
  countKeys(a: number, n: number, from: number, shift: number, bins: number, counts: number): void;
  takeCounts(counts: number, n: number, pairs: number): number;
  countSigns(a: number, n: number, totals: number): void;
  dropByRank(
    a: number,
    rows: number,
    columns: number,
    index: number,
    seed0: number,
    seed1: number,
    density: number,
    epsilon: number,
    divide: boolean,
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
   * @returns how many of the rounded values are infinite or NaN
   */
  encode(dtype: KernelDType, acc: number, dst: number, n: number): number {
    this.wasm[`encode${dtype}`](acc, dst, n);
    return this.countNonFinite(dtype, dst, n);
  }

  /** Rounds float32 to codes or their scales: E4M3, to nearest, ties to even, at most 448; E8M0, of powers of two. */
  encodeF8(dtype: "F8_E4M3" | "F8_E8M0", acc: number, dst: number, n: number): void {
    if (dtype === "F8_E4M3") this.wasm.encodeF8_E4M3(acc, dst, n);
    else this.bytes(dst, n).set(this.integers(acc, n).map((bits) => bits >> 23));
  }

  /** How many of `n` stored elements are infinite or NaN. */
  countNonFinite(dtype: FloatDType, address: number, n: number): number {
    return this.wasm[`countNonFinite${dtype}`](address, n);
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
