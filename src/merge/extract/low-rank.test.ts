import { Matrix, SingularValueDecomposition } from "ml-matrix";
import { describe, expect, it } from "vitest";
import { Random } from "../../core/index.js";
import { type LowRank, lowRank } from "./low-rank.js";

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

function product({ left, right, rank }: LowRank, rows: number, columns: number): Float64Array {
  return Float64Array.from({ length: rows * columns }, (_, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns];
    let sum = 0;
    for (let r = 0; r < rank; r++) sum += (left[i * rank + r] ?? 0) * (right[r * columns + j] ?? 0);
    return sum;
  });
}

const squaredNorm = (values: ArrayLike<number>) => Array.from(values).reduce((sum, x) => sum + x * x, 0);

/** Squared singular values by the dense float64 decomposition of ml-matrix. */
function exactSquares(matrix: Float32Array, rows: number, columns: number): number[] {
  const values = Array.from({ length: rows }, (_, i) => Array.from(matrix.subarray(i * columns, (i + 1) * columns)));
  return new SingularValueDecomposition(new Matrix(values), { autoTranspose: true }).diagonal.map((x) => x * x);
}

const SHAPES = [
  { rows: 150, columns: 90 },
  { rows: 90, columns: 151 },
];

describe("lowRank", () => {
  it.each(SHAPES)("recovers a matrix of low rank, $rows by $columns", async ({ rows, columns }) => {
    const matrix = withSizes(rows, columns, [3, 1, 0.1, 0.01]);
    const found = await lowRank(matrix, rows, columns, { rank: 4, seed: 0, label: "m" });
    const difference = product(found, rows, columns).map((x, i) => x - (matrix[i] ?? 0));
    expect(Math.sqrt(squaredNorm(difference) / squaredNorm(matrix))).toBeLessThan(1e-7);
  });

  it.each(SHAPES)("keeps what the best approximation keeps, $rows by $columns", async ({ rows, columns }) => {
    // Slowly falling sizes, as in the change of a full fine-tune, and the worst case: noise.
    const sizes = Array.from({ length: 80 }, (_, i) => 1 / (i + 1) ** 0.7);
    for (const [matrix, error] of [
      [withSizes(rows, columns, sizes), 1e-6],
      [gaussian(rows * columns, 5), 1e-3],
    ] as const) {
      const exact = exactSquares(matrix, rows, columns);
      const total = squaredNorm(matrix);
      const best = exact.slice(0, 16).reduce((sum, x) => sum + x, 0) / total;
      const found = await lowRank(matrix, rows, columns, { rank: 16, seed: 0, label: "m" });
      const difference = product(found, rows, columns).map((x, i) => x - (matrix[i] ?? 0));
      const kept = 1 - squaredNorm(difference) / total;
      expect(found.squares.reduce((sum, x) => sum + x, 0) / total).toBeCloseTo(kept, 12);
      expect(kept).toBeLessThanOrEqual(best + 1e-12);
      expect(best - kept).toBeLessThan(error);
    }
  });

  it("finds the smallest rank that keeps a share, beyond its first sketch too", async () => {
    const [rows, columns] = [150, 120];
    const matrix = gaussian(rows * columns, 5);
    const exact = exactSquares(matrix, rows, columns);
    const total = squaredNorm(matrix);
    for (const energy of [0.05, 0.5, 0.95]) {
      let sum = 0;
      const best = exact.findIndex((square) => {
        sum += square;
        return sum >= energy * total;
      });
      const found = await lowRank(matrix, rows, columns, { energy, seed: 0, label: "m" });
      expect(found.rank - (best + 1)).toBeLessThanOrEqual(1);
      expect(found.rank).toBeGreaterThanOrEqual(best + 1);
      expect(squaredNorm(found.squares.map(Math.sqrt)) / total).toBeGreaterThanOrEqual(energy);
    }
    const capped = await lowRank(matrix, rows, columns, { energy: 0.95, rank: 10, seed: 0, label: "m" });
    expect(capped.rank).toBe(10);
  });

  it("depends on seed and label alone, and is full at the smaller side", async () => {
    const [rows, columns] = [20, 12];
    const matrix = gaussian(rows * columns, 5);
    const options = { rank: 40, seed: 0, label: "m" };
    const found = await lowRank(matrix, rows, columns, options);
    expect(found.rank).toBe(12);
    const difference = product(found, rows, columns).map((x, i) => x - (matrix[i] ?? 0));
    expect(squaredNorm(difference)).toBeLessThan(1e-22);
    expect(await lowRank(matrix, rows, columns, options)).toEqual(found);
    const other = await lowRank(matrix, rows, columns, { ...options, seed: 1 });
    expect(Array.from(other.squares)).toEqual(Array.from(found.squares, (x) => expect.closeTo(x, 9)));
  });
});
