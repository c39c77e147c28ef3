// @module-tag slow
import { Matrix, SingularValueDecomposition } from "ml-matrix";
import { describe, expect, it } from "vitest";
import { Kernels } from "../../kernels/kernels.js";
import { Random } from "../../kit/index.js";
import { type LowRankFactors, lowRank, lowRankBytes } from "./low-rank.js";
import { Panels } from "./panels.js";

function gaussian(count: number, seed: number): Float32Array {
  const random = Random.of(seed, "test");
  return Float32Array.from({ length: count }, () => random.normal());
}

/** A matrix [rows, columns] whose directions have the given sizes. */
function withSizes(rows: number, columns: number, sizes: readonly number[]): Float32Array {
  const [u, v] = [gaussian(rows * sizes.length, 1), gaussian(columns * sizes.length, 2)];
  return Float32Array.from({ length: rows * columns }, (_, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns];
    return sizes.reduce(
      (sum, size, r) => sum + size * (u[i * sizes.length + r] ?? 0) * (v[j * sizes.length + r] ?? 0),
      0,
    );
  });
}

function orthonormal(count: number, length: number): Float64Array[] {
  const vectors = new Panels(new Kernels(), count, length);
  for (let i = 0; i < count; i++) vectors.setVector(i, Float64Array.from(gaussian(length, i + length)));
  vectors.orthonormalize();
  return Array.from({ length: count }, (_, i) => vectors.vector(i));
}

function product({ left, right, rank }: LowRankFactors, rows: number, columns: number): Float64Array {
  return Float64Array.from({ length: rows * columns }, (_, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns];
    let sum = 0;
    for (let r = 0; r < rank; r++) sum += (left[i * rank + r] ?? 0) * (right[r * columns + j] ?? 0);
    return sum;
  });
}

const sumOf = (values: ArrayLike<number>) => Array.from(values).reduce((sum, x) => sum + x, 0);
const squaredNorm = (values: ArrayLike<number>) => Array.from(values).reduce((sum, x) => sum + x * x, 0);

/** Squared singular values by the dense float64 decomposition of ml-matrix. */
function exactSquares(matrix: Float32Array, rows: number, columns: number): number[] {
  const values = Array.from({ length: rows }, (_, i) => Array.from(matrix.subarray(i * columns, (i + 1) * columns)));
  return new SingularValueDecomposition(new Matrix(values), { autoTranspose: true }).diagonal.map((x) => x * x);
}

interface Settings {
  readonly rank?: number;
  readonly energy?: number;
  readonly seed?: number;
}

/** The approximation of a matrix in memory, read in blocks of three rows, and how many rows were read. */
function approximate(matrix: Float32Array, rows: number, columns: number, settings: Settings = {}) {
  const { rank = rows, energy = 1, seed = 0 } = settings;
  const kernels = new Kernels();
  const address = kernels.allocate(matrix.byteLength);
  kernels.floats(address, matrix.length).set(matrix);
  let read = 0;
  const source = {
    ...{ rows, columns, squares: squaredNorm(matrix) },
    read: (begin: number, end: number, each: (from: number, to: number, address: number) => void) => {
      for (let from = begin; from < end; from += 3) each(from, Math.min(from + 3, end), address + 4 * from * columns);
      read += end - begin;
    },
  };
  const found = lowRank(kernels, source, { rank, energy, random: Random.of(seed, "start") });
  return { ...found, passes: read / rows };
}

/** Share of the squared norm that factors keep, by the rest that they leave. */
function keptBy(found: LowRankFactors, matrix: Float32Array, rows: number, columns: number): number {
  const difference = product(found, rows, columns).map((x, i) => x - (matrix[i] ?? 0));
  return 1 - squaredNorm(difference) / squaredNorm(matrix);
}

const SHAPES = [
  { rows: 150, columns: 90 },
  { rows: 90, columns: 151 },
];

describe("lowRank", () => {
  it.each(SHAPES)("recovers a matrix of low rank, $rows by $columns", ({ rows, columns }) => {
    const matrix = withSizes(rows, columns, [3, 1, 0.1, 0.01]);
    const found = approximate(matrix, rows, columns, { rank: 4 });
    const difference = product(found, rows, columns).map((x, i) => x - (matrix[i] ?? 0));
    expect(Math.sqrt(squaredNorm(difference) / squaredNorm(matrix))).toBeLessThan(2e-7);
    expect(found.passes).toBe(2);
  });

  it.each(SHAPES)("keeps what the best approximation keeps, $rows by $columns", ({ rows, columns }) => {
    // Slowly falling sizes, as in the change of a full fine-tune, and the worst case: noise.
    const sizes = Array.from({ length: 40 }, (_, i) => 1 / (i + 1) ** 0.7);
    for (const [matrix, error] of [
      [withSizes(rows, columns, sizes), 1e-5],
      [gaussian(rows * columns, 5), 1e-3],
    ] as const) {
      const exact = exactSquares(matrix, rows, columns);
      const total = squaredNorm(matrix);
      const best = sumOf(exact.slice(0, 16)) / total;
      const found = approximate(matrix, rows, columns, { rank: 16 });
      const kept = keptBy(found, matrix, rows, columns);
      expect(sumOf(found.gains) / total).toBeCloseTo(kept, 9);
      expect(kept).toBeLessThanOrEqual(best + 1e-12);
      expect(best - kept).toBeLessThan(error);
    }
  });

  it.each(SHAPES)("is exact at the smaller side, $rows by $columns", ({ rows, columns }) => {
    const matrix = gaussian(rows * columns, 5);
    const found = approximate(matrix, rows, columns, { rank: 500 });
    expect(found.rank).toBe(90);
    const exact = exactSquares(matrix, rows, columns);
    found.gains.forEach((gain, i) => {
      expect(Math.abs(gain - (exact[i] ?? 0))).toBeLessThan(1e-11 * (exact[0] ?? 0));
    });
    expect(1 - keptBy(found, matrix, rows, columns)).toBeLessThan(1e-12);
  });

  it("finds the smallest rank that keeps a share, beyond its first sketch too", () => {
    const [rows, columns] = [150, 120];
    const matrix = gaussian(rows * columns, 5);
    const exact = exactSquares(matrix, rows, columns);
    const total = squaredNorm(matrix);
    for (const energy of [0.05, 0.5, 0.95]) {
      let sum = 0;
      const best =
        1 +
        exact.findIndex((square) => {
          sum += square;
          return sum >= energy * total;
        });
      const found = approximate(matrix, rows, columns, { energy });
      expect(found.rank - best).toBeLessThanOrEqual(1);
      expect(found.rank).toBeGreaterThanOrEqual(best);
      expect(keptBy(found, matrix, rows, columns)).toBeGreaterThanOrEqual(energy - 1e-7);
    }
    expect(approximate(matrix, rows, columns, { energy: 0.95, rank: 10 }).rank).toBe(10);
  });

  it("finds the smallest rank from one sketch, from larger ones and from all singular values", () => {
    const [rows, columns, count] = [460, 450, 200];
    const sizes = Array.from({ length: count }, (_, i) => (i + 1) ** -0.3);
    const [u, v] = [orthonormal(count, rows), orthonormal(count, columns)];
    const matrix = new Float32Array(rows * columns);
    for (const [r, size] of sizes.entries()) {
      for (let i = 0; i < rows; i++) {
        const x = size * (u[r]?.[i] ?? 0);
        for (let j = 0; j < columns; j++)
          matrix[i * columns + j] = (matrix[i * columns + j] ?? 0) + x * (v[r]?.[j] ?? 0);
      }
    }
    const total = squaredNorm(sizes);
    const passes: number[] = [];
    for (const share of [0.3, 0.7, 0.97]) {
      let sum = 0;
      const best =
        1 +
        sizes.findIndex((size) => {
          sum += size * size;
          return sum >= share * total;
        });
      const found = approximate(matrix, rows, columns, { energy: share });
      expect(found.rank).toBe(best);
      passes.push(found.passes);
    }
    expect(passes[1]).toBeGreaterThan(passes[0] ?? 0);
  });

  it("depends on the seed alone, and hardly on it", () => {
    const matrix = withSizes(90, 80, [3, 2, 1, 0.5]);
    const found = approximate(matrix, 90, 80, { rank: 3 });
    expect(approximate(matrix, 90, 80, { rank: 3 })).toEqual(found);
    const other = approximate(matrix, 90, 80, { rank: 3, seed: 1 });
    expect(other.left).not.toEqual(found.left);
    for (const [i, gain] of other.gains.entries()) expect(gain / (found.gains[i] ?? 0)).toBeCloseTo(1, 12);
  });

  it("needs the memory that it says, for sketches and not for the matrix", () => {
    expect(lowRankBytes({ rows: 128_256, columns: 2048 }, 64)).toBeLessThan(90e6);
    expect(lowRankBytes({ rows: 2048, columns: 8192 }, 64)).toBeLessThan(20e6);
  });
});
