// Eigenvectors of symmetric matrices, bit for bit against those of ml-matrix.
import { EigenvalueDecomposition, Matrix } from "ml-matrix";
import { expect, test } from "vitest";
import { Random } from "../../kit/index.js";
import { eigenvectors } from "./exact-decomposition.js";

/** A^T A of A [rows, size]; of fewer rows than columns some eigenvalues are 0. */
function products(size: number, rows: number): Float64Array {
  const random = Random.of(size, "eigen");
  const a = Float64Array.from({ length: rows * size }, () => random.normal());
  return Float64Array.from({ length: size * size }, (_, at) => {
    let sum = 0;
    for (let r = 0; r < rows; r++) sum += (a[r * size + Math.floor(at / size)] ?? 0) * (a[r * size + (at % size)] ?? 0);
    return sum;
  });
}

function expectEqual(gram: Float64Array, size: number): void {
  const { values, vectors } = eigenvectors(gram, size);
  const matrix = Matrix.from1DArray(size, size, [...gram]);
  const { realEigenvalues, eigenvectorMatrix } = new EigenvalueDecomposition(matrix, { assumeSymmetric: true });
  const wanted = realEigenvalues.map((value) => Math.max(0, value)).reverse();
  expect([...values]).toEqual(wanted);
  const rows = Array.from({ length: size }, (_, i) => eigenvectorMatrix.getColumn(size - 1 - i));
  expect([...vectors]).toEqual(rows.flat());
}

test.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 70])("of a full matrix of side %i", (size) => {
  expectEqual(products(size, size + 3), size);
});

test.each([3, 9, 40])("of a matrix of side %i with eigenvalues of 0", (size) => {
  expectEqual(products(size, Math.ceil(size / 2)), size);
});

test("of diagonal matrices and of zeros, with equal eigenvalues", () => {
  for (const diagonal of [
    [0, 0, 0],
    [1, 1, 1, 1, 1],
    [2, 5, 2, 0, 5, 7, 2],
  ]) {
    const size = diagonal.length;
    const gram = new Float64Array(size * size);
    for (const [i, value] of diagonal.entries()) gram[i * size + i] = value;
    expectEqual(gram, size);
  }
});

test("of no rows", () => {
  expect(eigenvectors(new Float64Array(), 0).values).toEqual(new Float64Array());
});
