import { createRequire } from "node:module";

/** Eigenvalues, largest first, and eigenvectors as the rows of a matrix [size, size]. */
export interface Eigenvectors {
  readonly values: Float64Array;
  readonly vectors: Float64Array;
}

/** @param gram a symmetric matrix [size, size] without negative eigenvalues */
export function eigenvectors(gram: Float64Array, size: number): Eigenvectors {
  // Loaded here, as few jobs need it, and at once, as jobs are synchronous.
  const { EigenvalueDecomposition, Matrix } = createRequire(import.meta.url)("ml-matrix") as typeof import("ml-matrix");
  const matrix = Matrix.from1DArray(size, size, gram as unknown as number[]);
  const { realEigenvalues, eigenvectorMatrix } = new EigenvalueDecomposition(matrix, { assumeSymmetric: true });
  const values = new Float64Array(size);
  const vectors = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    // ml-matrix has them in ascending order.
    const from = size - 1 - i;
    values[i] = Math.max(0, realEigenvalues[from] ?? 0);
    for (let j = 0; j < size; j++) vectors[i * size + j] = eigenvectorMatrix.get(j, from);
  }
  return { values, vectors };
}
