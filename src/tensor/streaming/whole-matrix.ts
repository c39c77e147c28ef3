// What merges of whole matrices are composed of, in float64: singular values, from the eigenvectors of a matrix's products with
// itself on its shorter side. A matrix with other singular values is a product with one of that side, so its other vectors are not
// computed. Time grows with the cube of the shorter side.
import type { Kernels } from "../../kernels/index.js";
import {
  columnProducts,
  decomposeExactly,
  eigenBytes,
  eigenvectors,
  exactKernelBytes,
  productsBytes,
} from "./exact-decomposition.js";
import type { LowRankFactors } from "./low-rank.js";
import { PANEL, Panels } from "./panels.js";
import { BATCH, RowBatches, type RowSource } from "./row-batches.js";
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

const isWide = ({ rows, columns }: MatrixSize) => rows < columns;

/** Rows that become columns together: both sides stay in a first-level cache. */
const TILE = 32;

/** The columns of a matrix as rows. */
function turned<T extends Float32Array | Float64Array>(from: T, { rows, columns }: MatrixSize, into: T): T {
  for (let top = 0; top < rows; top += TILE) {
    const bottom = Math.min(rows, top + TILE);
    for (let column = 0; column < columns; column++) {
      for (let row = top; row < bottom; row++) into[column * rows + row] = from[row * columns + column] as number;
    }
  }
  return into;
}

/** Makes rows of the columns of a matrix in its own memory. */
export const turn = ({ rows, columns, values }: Matrix): Matrix => {
  return { rows: columns, columns: rows, values: turned(values.slice(), { rows, columns }, values) };
};

const turnedCopy = ({ values, ...size }: Matrix): Matrix => turn({ ...size, values: values.slice() });

function turnFactors({ rank, left, right, gains }: LowRankFactors): LowRankFactors {
  const [rows, columns] = [left.length / rank, right.length / rank];
  return rank === 0
    ? { rank, left, right, gains }
    : {
        rank,
        left: turned(right, { rows: rank, columns }, new Float32Array(right.length)),
        right: turned(left, { rows, columns: rank }, new Float32Array(left.length)),
        gains,
      };
}

/** Calls `work` with a matrix as a source of rows. */
function withRows<T>(kernels: Kernels, { rows, columns, values }: Matrix, work: (source: RowSource) => T): T {
  return kernels.borrow(() => {
    const address = kernels.allocate(4 * BATCH * columns);
    const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
      kernels.floats(address, (to - from) * columns).set(values.subarray(from * columns, to * columns));
      each(from, to, address);
    };
    let squares = 0;
    for (const x of values) squares += x * x;
    return work({ rows, columns, squares, read });
  });
}

/** How many singular values are not rounding errors, from the squares of all. */
const countKept = (gains: Float64Array) => gains.findLastIndex((gain) => gain > NOTHING ** 2 * (gains[0] ?? 0)) + 1;

/** The leading singular values, with the root of each in the factors on both sides. */
export function decompose(kernels: Kernels, matrix: Matrix, rank = Number.POSITIVE_INFINITY): LowRankFactors {
  if (isWide(matrix)) return turnFactors(decompose(kernels, turnedCopy(matrix), rank));
  return withRows(kernels, matrix, (source) =>
    decomposeExactly(kernels, source, (gains) => Math.min(rank, countKept(gains))),
  );
}

/**
 * left [rows, rank] times diag(weights) times right [rank, columns]
 * @param into its memory may be that of `left` where that is as wide
 */
export function product<T extends Float32Array | Float64Array = Float32Array>(
  kernels: Kernels,
  left: Float32Array | Float64Array,
  right: Float32Array | Float64Array,
  weights: readonly number[],
  columns: number,
  into?: T,
): T {
  const rank = weights.length;
  const rows = rank === 0 ? 0 : left.length / rank;
  const result = into ?? (new Float32Array(rows * columns) as T);
  if (rank === 0) result.fill(0);
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

type NewValues = (values: readonly number[]) => readonly number[];

/** The matrix [columns, columns] that gives one that is not wide other singular values, from the right, in float64. */
function changeOfValues(kernels: Kernels, matrix: Matrix, to: NewValues): Float64Array {
  const { columns } = matrix;
  const gram = withRows(kernels, matrix, (source) => columnProducts(kernels, new RowBatches(kernels, source), columns));
  const { values, vectors } = eigenvectors(gram, columns, kernels);
  const singular = Array.from(values.subarray(0, countKept(values)), Math.sqrt);
  const wanted = singular.length === 0 ? [] : to(singular);
  const weights = singular.map((value, i) => (wanted[i] ?? 0) / value);
  const right = vectors.subarray(0, weights.length * columns);
  const left = turned(right, { rows: weights.length, columns }, new Float64Array(right.length));
  // What began as the products becomes the result.
  return product(kernels, left, right, weights, columns, gram);
}

const ones = (count: number) => Array.from({ length: count }, () => 1);

/** The same vectors with other singular values, as `to` makes of all, in the memory of the matrix. */
export function withValues(kernels: Kernels, matrix: Matrix, to: NewValues): Float32Array {
  if (isWide(matrix)) {
    const upright = turn(matrix);
    return turn({ ...upright, values: withValues(kernels, upright, to) }).values;
  }
  const { columns, values } = matrix;
  return product(kernels, values, changeOfValues(kernels, matrix, to), ones(columns), columns, values);
}

/** Makes each singular value that is not zero 1: the nearest matrix of this kind. */
const toOnes: NewValues = (singular) => singular.map(() => 1);

export const mean = (values: readonly number[], count = values.length) => values.reduce((sum, x) => sum + x, 0) / count;

/** @param into may be one of all */
export function added(
  { rows, columns }: MatrixSize,
  all: readonly Float32Array[],
  into: Float32Array = new Float32Array(rows * columns),
): Matrix {
  for (let i = 0; i < into.length; i++) {
    let sum = 0;
    for (const one of all) sum += one[i] as number;
    into[i] = sum;
  }
  return { rows, columns, values: into };
}

/** Spaces of singular vectors side by side, made orthonormal on both sides; with their own singular values, or the mean. */
export function joined(
  kernels: Kernels,
  spaces: readonly LowRankFactors[],
  { rows, columns }: MatrixSize,
  isFlat: boolean,
  into?: Float32Array,
): Float32Array {
  if (rows < columns) {
    const values = joined(kernels, spaces.map(turnFactors), { rows: columns, columns: rows }, isFlat, into);
    return turn({ rows: columns, columns: rows, values }).values;
  }
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
  // The long side is multiplied last, and once.
  const inner = product(
    kernels,
    changeOfValues(kernels, { rows, columns: rank, values: u }, toOnes),
    withValues(kernels, { rows: rank, columns, values: v }, toOnes),
    weights,
    columns,
    new Float64Array(rank * columns),
  );
  return product(kernels, u, inner, ones(rank), columns, into);
}

/** How a method merges whole matrices. */
export interface MatrixRule extends Arithmetic {
  /** The merged values of a matrix, which may take the memory of the first values. @param number of the recipe */
  readonly merge: (kernels: Kernels, values: readonly Float32Array[], size: MatrixSize, number: number) => Float32Array;
  /** From which of `count` values on they are of [columns, columns]; default none. */
  readonly squareFrom?: (count: number) => number;
  /** Bytes that it needs besides the values and one matrix, such as its result. */
  readonly bytes: (size: MatrixSize, number: number) => number;
  /** Bytes that it takes of the memory of kernels, which has 4 GiB. */
  readonly kernelBytes: (size: MatrixSize, number: number) => number;
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
export function wholeBytes(operation: Operation & { readonly number: number }, columns: number): number {
  const { rule, matrix, number } = operation;
  const values = elementsOfValues(operation, columns).reduce((sum, count) => sum + count, matrix);
  return 4 * values + ruleOf(rule).bytes({ rows: matrix / columns, columns }, number);
}

/** Bytes that the merge of a matrix takes of the memory of kernels. */
export function wholeKernelBytes(operation: Operation & { readonly number: number }, columns: number): number {
  const { rule, matrix, number } = operation;
  const size = { rows: matrix / columns, columns };
  return ruleOf(rule).kernelBytes(size, number);
}

const sides = ({ rows, columns }: MatrixSize) => [Math.min(rows, columns), Math.max(rows, columns)] as const;

function valuesBytes(size: MatrixSize): number {
  const [short] = sides(size);
  return 40 * short ** 2 + 24 * BATCH * short;
}

function joinedBytes(size: MatrixSize): number {
  const [short, long] = sides(size);
  return valuesBytes(size) + 8 * short * (short + long);
}

function valuesKernelBytes(size: MatrixSize): number {
  const [short] = sides(size);
  return Math.max(12 * BATCH * short + productsBytes(short), eigenBytes(short), productBytes(short, short));
}

function joinedKernelBytes(size: MatrixSize): number {
  const [short, long] = sides(size);
  const rows = 4 * BATCH * short;
  return Math.max(rows + exactKernelBytes({ rows: long, columns: short }, short), productBytes(short, short));
}

type Memory = Pick<MatrixRule, "bytes" | "kernelBytes">;

/** What `withValues` needs besides the matrix. */
export const VALUES_MEMORY: Memory = { bytes: valuesBytes, kernelBytes: valuesKernelBytes };

/** What decompositions need that share all directions, and joining them again. */
export const JOINED_MEMORY: Memory = { bytes: joinedBytes, kernelBytes: joinedKernelBytes };

/** Bytes of a product with matrices of `columns`, whose inner side is `rank`. */
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
