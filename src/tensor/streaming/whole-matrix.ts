// What merges of whole matrices are composed of, in float64: singular values, from the decomposition of extract. Time grows
// with the cube of a side. Memory holds the values of one matrix, and about three times its float64 values.
import type { Kernels } from "../../kernels/index.js";
import { decomposeExactly } from "./exact-decomposition.js";
import { type LowRankFactors, lowRankBytes, lowRankKernelBytes } from "./low-rank.js";
import { PANEL, Panels } from "./panels.js";
import { BATCH } from "./row-batches.js";
import { type Arithmetic, arithmeticOf } from "./value-operation.js";

export interface MatrixSize {
  readonly rows: number;
  readonly columns: number;
}

/** Row-major. */
interface Matrix extends MatrixSize {
  readonly values: Float32Array;
}

// Changes are of float32, whose rounding errors have singular values of this size beside the largest.
const NOTHING = 1e-7;

/** The leading singular values, with the root of each in the factors on both sides. */
export function decompose(
  kernels: Kernels,
  { rows, columns, values }: Matrix,
  rank = Number.POSITIVE_INFINITY,
): LowRankFactors {
  return kernels.borrow(() => {
    const address = kernels.allocate(4 * BATCH * columns);
    const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
      kernels.floats(address, (to - from) * columns).set(values.subarray(from * columns, to * columns));
      each(from, to, address);
    };
    let squares = 0;
    for (const x of values) squares += x * x;
    return decomposeExactly(kernels, { rows, columns, squares, read }, (gains) => {
      return Math.min(rank, gains.findLastIndex((gain) => gain > NOTHING ** 2 * (gains[0] ?? 0)) + 1);
    });
  });
}

/** left [rows, rank] times diag(weights) times right [rank, columns] */
export function product(
  kernels: Kernels,
  left: Float32Array,
  right: Float32Array,
  weights: readonly number[],
  columns: number,
): Float32Array {
  const rank = weights.length;
  const rows = rank === 0 ? 0 : left.length / rank;
  const result = new Float32Array(rows * columns);
  kernels.borrow(() => {
    const panels = new Panels(kernels, rank, columns);
    for (const [r, weight] of weights.entries()) {
      const scaled = new Float64Array(right.subarray(r * columns, (r + 1) * columns));
      for (let i = 0; i < columns; i++) scaled[i] = weight * (scaled[i] as number);
      panels.setVector(r, scaled);
    }
    const [factor, sums] = [kernels.allocate(8 * BATCH * rank), kernels.allocate(8 * BATCH * PANEL)];
    for (let at = 0; at < rows; at += BATCH) {
      const count = Math.min(BATCH, rows - at);
      kernels.doubles(factor, count * rank).set(left.subarray(at * rank, (at + count) * rank));
      for (let p = 0; p < panels.panels; p++) {
        const width = panels.width(p);
        const block = kernels.doubles(sums, count * width).fill(0);
        kernels.wasm.addRows(sums, factor, panels.at(p), count, width, rank);
        for (let i = 0; i < count; i++) {
          result.set(block.subarray(i * width, (i + 1) * width), (at + i) * columns + p * PANEL);
        }
      }
    }
  });
  return result;
}

/** The same vectors with other singular values, as `to` makes of all. */
export function withValues(
  kernels: Kernels,
  matrix: Matrix,
  to: (values: readonly number[]) => readonly number[],
): Float32Array {
  const { left, right, gains } = decompose(kernels, matrix);
  const singular = Array.from(gains, Math.sqrt);
  if (singular.length === 0) return new Float32Array(matrix.values.length);
  const wanted = to(singular);
  return product(
    kernels,
    left,
    right,
    singular.map((value, i) => (wanted[i] ?? 0) / value),
    matrix.columns,
  );
}

/** The nearest matrix whose nonzero singular values are 1. */
const polar = (kernels: Kernels, rows: number, columns: number, values: Float32Array) =>
  withValues(kernels, { rows, columns, values }, (singular) => singular.map(() => 1));

export const mean = (values: readonly number[], count = values.length) => values.reduce((sum, x) => sum + x, 0) / count;

export function added({ rows, columns }: MatrixSize, all: readonly Float32Array[]): Matrix {
  const values = new Float32Array(rows * columns);
  for (let i = 0; i < values.length; i++) {
    let sum = 0;
    for (const one of all) sum += one[i] as number;
    values[i] = sum;
  }
  return { rows, columns, values };
}

/** Spaces of singular vectors side by side, made orthonormal on both sides; with their own singular values, or the mean. */
export function joined(
  kernels: Kernels,
  spaces: readonly LowRankFactors[],
  { rows, columns }: MatrixSize,
  isFlat: boolean,
) {
  const singular = spaces.flatMap(({ gains }) => Array.from(gains, Math.sqrt));
  const rank = singular.length;
  const [u, v] = [new Float32Array(rows * rank), new Float32Array(rank * columns)];
  let first = 0;
  for (const { left, right, rank: own } of spaces) {
    for (let i = 0; i < left.length; i++) {
      const r = first + (i % own);
      u[Math.floor(i / own) * rank + r] = (left[i] as number) / Math.sqrt(singular[r] as number);
    }
    for (let i = 0; i < right.length; i++) {
      v[first * columns + i] = (right[i] as number) / Math.sqrt(singular[first + Math.floor(i / columns)] as number);
    }
    first += own;
  }
  const weights = isFlat ? singular.map(() => mean(singular)) : singular;
  return product(kernels, polar(kernels, rows, rank, u), polar(kernels, rank, columns, v), weights, columns);
}

/** How a method merges whole matrices. */
export interface MatrixRule extends Arithmetic {
  /** The merged values of a matrix. @param number of the recipe */
  readonly merge: (kernels: Kernels, values: readonly Float32Array[], size: MatrixSize, number: number) => Float32Array;
  /** From which of `count` values on they are of [columns, columns]; default none. */
  readonly squareFrom?: (count: number) => number;
  /** Bytes that it needs besides the values; default those of two decompositions. */
  readonly bytes?: (size: MatrixSize) => number;
  /** Bytes that it takes of the memory of kernels, which has 4 GiB; default those of a decomposition. */
  readonly kernelBytes?: (size: MatrixSize, number: number) => number;
}

const ruleOf = (name: string) => arithmeticOf<MatrixRule>(name, "merge");

interface Operation {
  readonly rule: string;
  readonly of: readonly unknown[];
  /** Elements of a matrix. */
  readonly matrix: number;
}

/** Whether a value is of [columns, columns]. */
export function isSquare({ rule, of }: Pick<Operation, "rule" | "of">, value: number): boolean {
  return value >= (ruleOf(rule).squareFrom?.(of.length) ?? of.length);
}

/** Elements of each value that belong to one matrix. */
export function elementsOfValues(operation: Operation, columns: number): number[] {
  return operation.of.map((_, i) => (isSquare(operation, i) ? columns ** 2 : operation.matrix));
}

/** Bytes that the merge of a matrix needs. */
export function wholeBytes(operation: Operation, columns: number): number {
  const { rule, matrix } = operation;
  const rows = matrix / columns;
  const values = elementsOfValues(operation, columns).reduce((sum, count) => sum + count, 2 * matrix);
  const size = { rows, columns };
  return 4 * values + (ruleOf(rule).bytes?.(size) ?? 2 * lowRankBytes(size, Math.min(rows, columns)));
}

/** Bytes that the merge of a matrix takes of the memory of kernels. */
export function wholeKernelBytes(operation: Operation & { readonly number: number }, columns: number): number {
  const { rule, matrix, number } = operation;
  const size = { rows: matrix / columns, columns };
  return ruleOf(rule).kernelBytes?.(size, number) ?? decompositionBytes(size);
}

/** Those of a decomposition, and of the product that puts it together again. */
export function decompositionBytes(size: MatrixSize): number {
  const { rows, columns } = size;
  const smaller = Math.min(rows, columns);
  return Math.max(4 * BATCH * columns + lowRankKernelBytes(size, smaller), productBytes(smaller, columns));
}

/** Those of a product with matrices of `columns`, whose inner side is `rank`. */
export const productBytes = (rank: number, columns: number) => 8 * (rank * columns + BATCH * (rank + PANEL));

/** @param changes of one matrix, in rows of `columns`; @param number of the rule */
export function mergeMatrix(
  kernels: Kernels,
  rule: string,
  changes: readonly Float32Array[],
  columns: number,
  number: number,
): Float32Array {
  const elements = changes[0]?.length ?? 0;
  const merged = ruleOf(rule).merge(kernels, changes, { rows: elements / columns, columns }, number);
  return merged.length === elements ? merged : new Float32Array(elements);
}
