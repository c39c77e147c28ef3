// Plain TypeScript references for the SIMD kernels.

import { SUM_BLOCK } from "../../src/kernels/adamw.js";
import type { KernelDType } from "../../src/kernels/kernels.js";
import type { DeltaStatistics } from "../../src/tensor/streaming/results.js";

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

function bitsOf(value: number): number {
  float[0] = value;
  return bits[0] ?? 0;
}

function fromBits(pattern: number): number {
  bits[0] = pattern;
  return float[0] ?? 0;
}

/** Value of one stored element, given as its bit pattern. */
export function decode(dtype: KernelDType, pattern: number): number {
  if (dtype === "F32") return fromBits(pattern);
  if (dtype === "BF16") return fromBits((pattern << 16) >>> 0);
  const sign = pattern & 0x8000 ? -1 : 1;
  const exponent = (pattern >> 10) & 0x1f;
  const mantissa = pattern & 0x3ff;
  if (exponent === 0x1f) return mantissa === 0 ? sign * Infinity : Number.NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -24 : sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** Bit pattern of a float32 value rounded to the dtype, to nearest, ties to even; NaN is the canonical quiet one. */
export function encode(dtype: KernelDType, value: number): number {
  if (Number.isNaN(value)) return { F32: 0x7fc00000, BF16: 0x7fc0, F16: 0x7e00 }[dtype];
  const pattern = bitsOf(value);
  if (dtype === "F32") return pattern;
  if (dtype === "BF16") return (pattern + 0x7fff + ((pattern >>> 16) & 1)) >>> 16;
  const sign = (pattern >>> 16) & 0x8000;
  const magnitude = Math.abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  // The spacing of float16 at this magnitude; subnormals share the spacing of the smallest normals.
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), -14);
  const spacing = 2 ** (exponent - 10);
  const units = roundTiesToEven(magnitude / spacing);
  // Units of 1024 and more carry the implicit bit into the exponent by addition; so does rounding up to 2048.
  return sign | (units + (exponent + 14) * 1024);
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** sum(w_i x_i) / sum(w_i) for one element, each operation rounded to float32, in order. */
export function blend(values: readonly number[], weights: readonly number[], divisor: number): number {
  let acc = Math.fround(Math.fround(weights[0] ?? 0) * (values[0] ?? 0));
  for (let i = 1; i < values.length; i++) {
    acc = Math.fround(acc + Math.fround(Math.fround(weights[i] ?? 0) * (values[i] ?? 0)));
  }
  return divisor === 1 ? acc : Math.fround(acc / Math.fround(divisor));
}

/** acc[i, j] += scale * sum_k left[i, k] right[k, j], each operation rounded to float32, k in order. */
export function addLowRank(
  acc: Float32Array,
  left: Float32Array,
  right: Float32Array,
  rows: number,
  columns: number,
  rank: number,
  scale: number,
): void {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let k = 0; k < rank; k++) {
        const product = Math.fround((left[row * rank + k] ?? 0) * (right[k * columns + column] ?? 0));
        sum = Math.fround(sum + product);
      }
      const at = row * columns + column;
      acc[at] = (acc[at] ?? 0) + Math.fround(sum * Math.fround(scale));
    }
  }
}

/** a [m, k] times b [k, n], in float64, row-major. */
export function product(a: Float64Array, b: Float64Array, m: number, n: number, k: number): Float64Array {
  return Float64Array.from({ length: m * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let l = 0; l < k; l++) sum += (a[i * k + l] ?? 0) * (b[l * n + j] ?? 0);
    return sum;
  });
}

/** [rows, columns] as [columns, rows]. */
export function transpose(a: Float64Array, rows: number, columns: number): Float64Array {
  return a.map((_, at) => a[(at % rows) * columns + Math.floor(at / rows)] ?? 0);
}

/** Statistics of a - b: the difference is rounded to float32, the sums are float64. */
export function deltaStatistics(a: Float32Array, b: Float32Array): DeltaStatistics {
  const result = { sumAbsolute: 0, sumSquares: 0, sumSquaresOfB: 0, largest: 0, differing: 0, nonFinite: 0 };
  for (let i = 0; i < a.length; i++) {
    const difference = Math.fround(Math.abs((a[i] ?? 0) - (b[i] ?? 0)));
    if (difference !== 0 && !Object.is(a[i], b[i])) result.differing++;
    if (!Number.isFinite(difference)) {
      result.nonFinite++;
      continue;
    }
    result.sumAbsolute += difference;
    result.sumSquares += difference * difference;
    result.sumSquaresOfB += (b[i] ?? 0) ** 2;
    result.largest = Math.max(result.largest, difference);
  }
  return result;
}

/** Per column (or per row) sums of |a - b| of two row-major matrices, and totals over all elements. */
export interface MatrixStatistics {
  readonly sums: number[];
  readonly squares: number;
  readonly own: number;
  readonly equal: number;
  readonly largest: number;
}

export function columnStatistics(a: readonly number[], b: readonly number[], columns: number): MatrixStatistics {
  return matrixStatistics(a, b, (i) => i % columns);
}

export function rowStatistics(a: readonly number[], b: readonly number[], columns: number): MatrixStatistics {
  return matrixStatistics(a, b, (i) => Math.floor(i / columns));
}

function matrixStatistics(
  a: readonly number[],
  b: readonly number[],
  bin: (index: number) => number,
): MatrixStatistics {
  const sums: number[] = [];
  let [squares, own, equal, largest] = [0, 0, 0, 0];
  a.forEach((value, i) => {
    const base = b[i] ?? 0;
    const difference = Math.abs(Math.fround(value - base));
    sums[bin(i)] = (sums[bin(i)] ?? 0) + difference;
    squares += difference * difference;
    own += base * base;
    if (difference === 0) equal++;
    largest = Math.max(largest, difference);
  });
  return { sums, squares, own, equal, largest };
}

/** Sum of the products of two differences from b, and how many of them are negative. */
export function pairStatistics(
  x: readonly number[],
  y: readonly number[],
  b: readonly number[],
): { dot: number; opposed: number } {
  let [dot, opposed] = [0, 0];
  x.forEach((value, i) => {
    const base = b[i] ?? 0;
    const product = Math.fround(Math.fround(value - base) * Math.fround((y[i] ?? 0) - base));
    dot += product;
    if (product < 0) opposed++;
  });
  return { dot, opposed };
}

const LANES = 8;

/**
 * The sum of a[i]^2 in float64. Blocks of SUM_BLOCK elements one after the other; in a block, element i goes to lane
 * i mod 8, and what is left over after the last eight is added at the end.
 */
export function sumSquares(a: Float32Array): number {
  let total = 0;
  for (let begin = 0; begin < a.length; begin += SUM_BLOCK) {
    const block = a.subarray(begin, begin + SUM_BLOCK);
    const whole = block.length - (block.length % LANES);
    const [s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0] = laneSums(block.subarray(0, whole));
    total += s0 + s2 + (s4 + s6) + (s1 + s3 + (s5 + s7));
    for (const x of block.subarray(whole)) total += x * x;
  }
  return total;
}

function laneSums(a: Float32Array): Float64Array {
  const lanes = new Float64Array(LANES);
  a.forEach((x, i) => {
    lanes[i % LANES] = (lanes[i % LANES] ?? 0) + x * x;
  });
  return lanes;
}
