// Training kernels on Float32Arrays: AdamW, sums of squares, accumulation.
import * as plain from "./adamw.js";
import { instantiate } from "./kernels.js";

interface Exports {
  readonly memory: WebAssembly.Memory;
  heapBase(): number;
  adamw(w: number, g: number, m: number, v: number, n: number, ...coefficients: number[]): void;
  sumSquares(a: number, n: number): number;
  add(a: number, b: number, n: number): void;
}

const PAGE = 65_536;
const ALIGNMENT = 64; // cache line; arrays must not share one
const LANES = 8;
// Four of these stay in a second-level cache of 512 kB or more; of 4k to 64k elements, 16k to 32k were fastest.
const BLOCK = plain.SUM_BLOCK;
const STAGES = 4;
/** Limit of 32-bit WebAssembly memory, less the last page, whose end has no address. */
const MAX_TRAINING_BYTES = (65_536 - 1) * PAGE;
/** What arrays can use of it: all but the kernels' own data. */
const MAX_GROUP_BYTES = MAX_TRAINING_BYTES - 2 ** 20;

/**
 * Training kernels with their own memory for arrays.
 *
 * Any Float32Array works; arrays outside this memory are copied in blocks, at half the speed. `array` allocates in this
 * memory while there is room, then ordinary arrays. ONNX Runtime accepts these arrays as
 * inputs and outputs. The constructor allocates the memory once, because growing it would detach every array.
 */
export class TrainingKernels {
  readonly #wasm: Exports;
  readonly #stages: readonly { readonly address: number; readonly view: Float32Array }[];
  readonly #buffer: ArrayBuffer;
  #end: number;

  /**
   * @param options.bytes memory for arrays, in bytes; default 0, at most about 4 GiB (MAX_TRAINING_BYTES). See
   *   `bytesFor`.
   */
  constructor(options: { bytes?: number } = {}) {
    this.#wasm = instantiate() as unknown as Exports;
    const stages = align(this.#wasm.heapBase());
    this.#end = stages + STAGES * BLOCK * 4;
    const { memory } = this.#wasm;
    reserve(memory, this.#end);
    try {
      reserve(memory, Math.min(this.#end + align(options.bytes ?? 0), MAX_TRAINING_BYTES));
    } catch (error) {
      // Not enough address space: all arrays go through blocks.
      if (!(error instanceof RangeError)) throw error;
    }
    this.#buffer = memory.buffer;
    this.#stages = Array.from({ length: STAGES }, (_, i) => {
      const address = stages + i * BLOCK * 4;
      return { address, view: new Float32Array(this.#buffer, address, BLOCK) };
    });
  }

  /**
   * Kernels for each group of arrays that are used together. Neighbouring groups share a memory while it has room for all of their
   * arrays, so that a model of any size is in memories of at most 4 GiB.
   * @param groups lengths of the arrays of each group
   * @param limit bytes of a memory; default 4 GiB less what kernels need
   */
  static forGroups(groups: readonly (readonly number[])[], limit = MAX_GROUP_BYTES): TrainingKernels[] {
    const shared: { bytes: number; count: number }[] = [];
    for (const lengths of groups) {
      const bytes = TrainingKernels.bytesFor(lengths);
      const last = shared.at(-1);
      if (!last || last.bytes + bytes > limit) shared.push({ bytes, count: 1 });
      else {
        last.bytes += bytes;
        last.count++;
      }
    }
    return shared.flatMap(({ bytes, count }) => Array<TrainingKernels>(count).fill(new TrainingKernels({ bytes })));
  }

  /** Memory that arrays of these lengths need, in bytes. */
  static bytesFor(lengths: Iterable<number>): number {
    let bytes = 0;
    for (const length of lengths) bytes += align(length * 4);
    return bytes;
  }

  /** A new array of zeros, in this memory if there is room. */
  array(length: number): Float32Array {
    const bytes = align(length * 4);
    if (this.#end + bytes > this.#buffer.byteLength) return new Float32Array(length);
    const array = new Float32Array(this.#buffer, this.#end, length);
    this.#end += bytes;
    return array;
  }

  /** Whether an array is in this memory. */
  holds(array: Float32Array): boolean {
    return array.buffer === this.#buffer;
  }

  /**
   * One step of AdamW in place on weights and moments.
   * @throws RangeError if the arrays differ in length
   */
  adamw(arrays: plain.AdamWArrays, settings: plain.AdamWSettings): void {
    const { weights, gradient, first, second } = arrays;
    const coefficients = plain.adamwCoefficients(settings);
    const { scale, keep, mixM, keepV, mixV, correctV, epsilon, rate } = coefficients;
    this.#run([weights, gradient, first, second], [true, false, true, true], ([w = 0, g = 0, m = 0, v = 0], n) =>
      this.#wasm.adamw(w, g, m, v, n, scale, keep, mixM, keepV, mixV, correctV, epsilon, rate),
    );
  }

  /** The sum of a[i]^2 in float64, in an order that depends only on the length. */
  sumSquares(a: Float32Array): number {
    const whole = a.length - (a.length % LANES);
    let total = 0;
    for (let begin = 0; begin < whole; begin += BLOCK) {
      const block = a.subarray(begin, Math.min(begin + BLOCK, whole));
      this.#run([block], [false], ([address = 0], n) => {
        total += this.#wasm.sumSquares(address, n);
      });
    }
    for (const x of a.subarray(whole)) total += x * x;
    return total;
  }

  /**
   * a = a + b in float32: accumulates a gradient.
   * @throws RangeError if the arrays differ in length
   */
  add(a: Float32Array, b: Float32Array): void {
    this.#run([a, b], [true, false], ([to = 0, from = 0], n) => this.#wasm.add(to, from, n));
  }

  /** Runs a kernel over arrays: over whole vectors at once if all are in this memory, and over the rest with zeros behind. */
  #run(
    arrays: readonly Float32Array[],
    writes: readonly boolean[],
    kernel: (addresses: readonly number[], n: number) => void,
  ): void {
    const length = arrays[0]?.length ?? 0;
    if (arrays.some((array) => array.length !== length)) throw new RangeError("the arrays differ in length");
    const whole = length - (length % LANES);
    const step = arrays.every((array) => this.holds(array)) ? whole : BLOCK;
    for (let begin = 0, end = 0; begin < length; begin = end) {
      end = begin < whole ? Math.min(begin + step, whole) : length;
      const staged = arrays.map((array, i) => {
        const stage = this.#stages[i];
        if (!stage || (begin < whole && this.holds(array))) return undefined;
        stage.view.fill(0, 0, LANES);
        stage.view.set(array.subarray(begin, end));
        return stage;
      });
      const addresses = arrays.map((array, i) => staged[i]?.address ?? array.byteOffset + begin * 4);
      kernel(addresses, Math.max(end - begin, LANES));
      arrays.forEach((array, i) => {
        if (writes[i]) array.set(staged[i]?.view.subarray(0, end - begin) ?? [], begin);
      });
    }
  }
}

function align(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function reserve(memory: WebAssembly.Memory, bytes: number): void {
  const missing = bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
}
