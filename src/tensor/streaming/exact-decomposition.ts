// The singular value decomposition of a matrix from the eigenvectors of its products with itself, in float64: of A^T A
// where A has more rows than columns, which streams A twice, else of A A^T, which holds A. Squaring leaves singular
// values below 1e-8 of the largest without a correct digit; a sum of their squares does not show them.
import { Kernels } from "../../kernels/index.js";
import type { LowRankFactors } from "./low-rank.js";
import { PANEL, Panels } from "./panels.js";
import { BATCH, RowBatches, type RowSource } from "./row-batches.js";

/** @param choose the rank to keep, from the squares of all singular values, largest first */
export function decomposeExactly(
  kernels: Kernels,
  matrix: RowSource,
  choose: (gains: Float64Array) => number,
): LowRankFactors {
  return matrix.rows < matrix.columns ? fromRows(kernels, matrix, choose) : fromColumns(kernels, matrix, choose);
}

/** Bytes that the decomposition takes of the memory of kernels. */
export function exactKernelBytes({ rows, columns }: Pick<RowSource, "rows" | "columns">, rank: number): number {
  const batch = 8 * BATCH * columns;
  if (rows < columns) {
    const most = Math.max(batch + 8 * rows ** 2, eigenBytes(rows), 8 * rank * (rows + PANEL));
    return 8 * rows * columns + most;
  }
  return batch + Math.max(productsBytes(columns), eigenBytes(columns), 8 * rank * (columns + BATCH));
}

/** Bytes that `columnProducts` takes of the memory of kernels. */
export const productsBytes = (columns: number) => 8 * ((columns * (columns + PANEL)) / 2 + PANEL * BATCH);

const rootsOf = (values: Float64Array, rank: number) =>
  Array.from(values.subarray(0, rank), (gain) => Math.sqrt(Math.sqrt(gain)));

function fromColumns(kernels: Kernels, matrix: RowSource, choose: (gains: Float64Array) => number): LowRankFactors {
  const { rows, columns } = matrix;
  const batches = new RowBatches(kernels, matrix);
  const { values, vectors } = eigenvectors(columnProducts(kernels, batches, columns), columns, kernels);
  const rank = choose(values);
  const roots = rootsOf(values, rank);
  const right = new Float32Array(rank * columns);
  for (let at = 0; at < right.length; at++) {
    right[at] = (roots[Math.floor(at / columns)] as number) * (vectors[at] as number);
  }
  const directions = new Panels(kernels, rank, columns);
  for (let r = 0; r < rank; r++) directions.setVector(r, vectors.subarray(r * columns, (r + 1) * columns));
  const left = new Float32Array(rows * rank);
  const products = kernels.allocate(8 * rank * BATCH);
  for (const { at, count, panel } of batches.read()) {
    const sums = kernels.doubles(products, rank * count).fill(0);
    for (let p = 0; p < batches.panels; p++) {
      kernels.wasm.addDots(products, directions.at(p), panel(p), rank, count, batches.width(p));
    }
    setColumns(left, sums, roots, at, count);
  }
  return { rank, left, right, gains: values.slice(0, rank) };
}

/** A^T A [columns, columns] */
export function columnProducts(kernels: Kernels, batches: RowBatches, columns: number): Float64Array {
  return kernels.borrow(() => {
    // Blocks [width of p, width of q] for panels p <= q.
    const blocks = Array.from({ length: batches.panels }, (_, p) =>
      Array.from({ length: batches.panels }, (_, q) =>
        q < p ? 0 : kernels.allocate(8 * batches.width(p) * batches.width(q)),
      ),
    );
    const turned = kernels.allocate(8 * PANEL * BATCH);
    for (const { count, panel } of batches.read()) {
      for (let p = 0; p < batches.panels; p++) {
        const width = batches.width(p);
        const [from, to] = [kernels.doubles(panel(p), count * width), kernels.doubles(turned, count * width)];
        for (let i = 0; i < count; i++) {
          for (let j = 0; j < width; j++) to[j * count + i] = from[i * width + j] as number;
        }
        for (let q = p; q < batches.panels; q++) {
          kernels.wasm.addRows(blocks[p]?.[q] ?? 0, turned, panel(q), width, batches.width(q), count);
        }
      }
    }
    const products = new Float64Array(columns * columns);
    blocks.forEach((row, p) => {
      for (let q = p; q < batches.panels; q++) {
        const [height, width] = [batches.width(p), batches.width(q)];
        const block = kernels.doubles(row[q] ?? 0, height * width);
        for (let i = 0; i < height; i++) {
          for (let j = 0; j < width; j++) {
            const [a, b] = [p * PANEL + i, q * PANEL + j];
            products[a * columns + b] = products[b * columns + a] = block[i * width + j] as number;
          }
        }
      }
    });
    return products;
  });
}

function fromRows(kernels: Kernels, matrix: RowSource, choose: (gains: Float64Array) => number): LowRankFactors {
  const { rows, columns } = matrix;
  const all = new Panels(kernels, rows, columns);
  const gram = kernels.borrow(() => {
    const batches = new RowBatches(kernels, matrix);
    for (const { at, count, panel } of batches.read()) {
      for (let p = 0; p < batches.panels; p++) {
        const size = count * batches.width(p);
        kernels.doubles(all.at(p, at), size).set(kernels.doubles(panel(p), size));
      }
    }
    const products = kernels.allocate(8 * rows * rows);
    all.addProducts(products, all);
    return kernels.doubles(products, rows * rows).slice();
  });
  const { values, vectors } = eigenvectors(gram, rows, kernels);
  const rank = choose(values);
  const roots = rootsOf(values, rank);
  const left = new Float32Array(rows * rank);
  for (const [r, root] of roots.entries()) {
    for (let i = 0; i < rows; i++) left[i * rank + r] = root * (vectors[r * rows + i] as number);
  }
  const turn = kernels.allocate(8 * rank * rows);
  const turned = kernels.allocate(8 * rank * PANEL);
  kernels.doubles(turn, rank * rows).set(vectors.subarray(0, rank * rows));
  const right = new Float32Array(rank * columns);
  for (let p = 0; p < all.panels; p++) {
    const width = all.width(p);
    const sums = kernels.doubles(turned, rank * width).fill(0);
    kernels.wasm.addRows(turned, turn, all.at(p), rank, width, rows);
    for (const [r, root] of roots.entries()) {
      for (let j = 0; j < width; j++) {
        right[r * columns + p * PANEL + j] = root === 0 ? 0 : (sums[r * width + j] as number) / root;
      }
    }
  }
  return { rank, left, right, gains: values.slice(0, rank) };
}

/** Eigenvalues, largest first, and eigenvectors as the rows of a matrix [size, size]. */
export interface Eigenvectors {
  readonly values: Float64Array;
  readonly vectors: Float64Array;
}

// Rotations that are applied together: what is turned is read once for all of them.
const ROTATIONS_BYTES = 2 ** 20;

const rotationsBytes = (size: number) => Math.max(16 * (size + 1), Math.min(ROTATIONS_BYTES, 16 * size ** 2));

/** Bytes that eigenvectors take of the memory of kernels, but for a few. */
export const eigenBytes = (size: number) => 8 * size ** 2 + 80 * size + rotationsBytes(size);

/** @param gram a symmetric matrix [size, size] without negative eigenvalues; @param kernels in whose memory to compute; default: its own */
export function eigenvectors(gram: Float64Array, size: number, kernels: Kernels = new Kernels()): Eigenvectors {
  const [values, vectors] = [new Float64Array(size), new Float64Array(size * size)];
  if (size === 0) return { values, vectors };
  return kernels.borrow(() => {
    const v = kernels.allocate(8 * size * size);
    const [d, e, sums] = [kernels.allocate(8 * size), kernels.allocate(8 * size), kernels.allocate(32)];
    const [panel, rotations] = [kernels.allocate(64 * size), kernels.allocate(rotationsBytes(size))];
    kernels.doubles(v, size * size).set(gram);
    kernels.wasm.tridiagonalize(v, d, e, size, sums);
    kernels.wasm.solveTridiagonal(v, d, e, size, panel, rotations, rotationsBytes(size));
    const found = kernels.doubles(d, size);
    for (const [i, from] of ascending(found).reverse().entries()) {
      values[i] = Math.max(0, found[from] as number);
      vectors.set(kernels.doubles(v + 8 * from * size, size), i * size);
    }
    return { values, vectors };
  });
}

/** The indices of numbers in ascending order; of equal ones as a sort by selection leaves them, which swaps the least with the first. */
function ascending(numbers: Float64Array): number[] {
  const order = Array.from(numbers.keys());
  const at = (i: number) => numbers[order[i] as number] as number;
  for (let i = 0; i < order.length - 1; i++) {
    let least = i;
    for (let j = i + 1; j < order.length; j++) if (at(j) < at(least)) least = j;
    [order[i], order[least]] = [order[least] as number, order[i] as number];
  }
  return order;
}

/** Writes columns [rank, count], each divided by its root, to rows [at, at + count) of a matrix [rows, rank]. */
export function setColumns(
  left: Float32Array,
  columns: Float64Array,
  roots: readonly number[],
  at: number,
  count: number,
): void {
  const rank = roots.length;
  for (const [r, root] of roots.entries()) {
    for (let i = 0; i < count; i++) {
      left[(at + i) * rank + r] = root === 0 ? 0 : (columns[r * count + i] as number) / root;
    }
  }
}
