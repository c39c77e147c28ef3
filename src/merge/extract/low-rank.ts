// The best low-rank approximation of a matrix by a randomised singular value decomposition: block power iteration
// (Halko, Martinsson and Tropp, arXiv 0909.4061, algorithms 4.4 and 5.1), in float64.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Matrix } from "ml-matrix";
import { Random } from "../../core/index.js";

/** A matrix [rows, columns] as left [rows, rank] times right [rank, columns], both float64, row-major. */
export interface LowRank {
  readonly rank: number;
  readonly left: Float64Array;
  readonly right: Float64Array;
  /** Squared Frobenius norm that each rank adds, largest first, [rank]. */
  readonly squares: Float64Array;
}

export interface LowRankOptions {
  /** Largest rank. Default: the smaller side of the matrix. */
  readonly rank?: number | undefined;
  /** Share of the squared Frobenius norm to keep with the smallest rank that does. Default: 1, so all of `rank`. */
  readonly energy?: number | undefined;
  /** Seed of the random start. */
  readonly seed: number;
  /** Name of the matrix: matrices of one seed start with different numbers. */
  readonly label: string;
  /** Called between products, several times a second; may throw. */
  readonly onTurn?: (() => void) | undefined;
}

// Columns beyond the rank that the sketch has: with them the last singular values that are kept converge, too.
const EXTRA = 16;
// The first sketch of a search for a rank; it doubles until it holds the share.
const FIRST_SEARCH = 64;
// The iteration ends when another pass adds less than this share of the norm, or after the maximum.
const GAIN = 1e-5;
const MOST_ITERATIONS = 8;
// Multiplications between two turns of the event loop, about 0.2 s.
const WORK_PER_TURN = 2e8;

/**
 * Approximates a matrix. The result depends on its values, the seed and the label alone.
 * @param matrix float32, row-major, finite
 */
export async function lowRank(
  matrix: Float32Array,
  rows: number,
  columns: number,
  options: LowRankOptions,
): Promise<LowRank> {
  const { rank = Number.POSITIVE_INFINITY, energy = 1 } = options;
  const smaller = Math.min(rows, columns);
  const most = Math.min(rank, smaller);
  const total = matrix.reduce((sum, x) => sum + x * x, 0);
  const isSearch = energy < 1;
  for (let tried = isSearch ? Math.min(FIRST_SEARCH, most) : most; ; tried = Math.min(2 * tried, most)) {
    const found = await decompose(matrix, { rows, columns }, { ...options, tried, total });
    const kept = ranksFor(found.squares.subarray(0, tried), energy * total);
    if (tried === most || kept !== undefined) return truncated(found, { rows, columns }, kept ?? most);
  }
}

/** The smallest number of leading entries whose sum reaches a target; undefined if none does. */
function ranksFor(squares: Float64Array, target: number): number | undefined {
  let sum = 0;
  for (const [i, square] of squares.entries()) {
    sum += square;
    if (sum >= target) return i + 1;
  }
  return undefined;
}

interface Sides {
  readonly rows: number;
  readonly columns: number;
}

interface Decomposition {
  /** [rows, size], orthonormal columns. */
  readonly u: Matrix;
  /** [columns, size], orthonormal columns. */
  readonly v: Matrix;
  readonly squares: Float64Array;
}

async function decompose(
  matrix: Float32Array,
  { rows, columns }: Sides,
  { seed, label, tried, total, onTurn }: LowRankOptions & { readonly tried: number; readonly total: number },
): Promise<Decomposition> {
  // Loaded here, as no other command needs it.
  const { Matrix, QrDecomposition, SingularValueDecomposition } = await import("ml-matrix");
  const smaller = Math.min(rows, columns);
  const size = Math.min(tried + EXTRA, smaller);
  const asMatrix = (values: Float64Array) =>
    Matrix.from1DArray(values.length / size, size, values as unknown as number[]);
  const orthonormal = (values: Float64Array) =>
    Float64Array.from(new QrDecomposition(asMatrix(values)).orthogonalMatrix.to1DArray());
  const random = Random.of(seed, `extract ${label}`);
  const start = Float64Array.from({ length: columns * size }, () => random.normal());
  let basis = orthonormal(await product(multiply, matrix, { rows, columns }, start, size, onTurn));
  let across = await product(multiplyTransposed, matrix, { rows, columns }, basis, size, onTurn);
  let captured = squaredNorm(across);
  // A sketch of full width spans the whole matrix.
  for (let pass = 0; size < smaller && pass < MOST_ITERATIONS; pass++) {
    basis = orthonormal(await product(multiply, matrix, { rows, columns }, orthonormal(across), size, onTurn));
    across = await product(multiplyTransposed, matrix, { rows, columns }, basis, size, onTurn);
    const before = captured;
    captured = squaredNorm(across);
    if (captured - before <= GAIN * total) break;
  }
  // matrix ~ basis across^T, and across = Q R, so the singular values of the small R are the matrix's.
  const qr = new QrDecomposition(asMatrix(across));
  const small = new SingularValueDecomposition(qr.upperTriangularMatrix.transpose(), { autoTranspose: true });
  return {
    u: asMatrix(basis).mmul(small.leftSingularVectors),
    v: qr.orthogonalMatrix.mmul(small.rightSingularVectors),
    squares: Float64Array.from(small.diagonal, (value) => value * value),
  };
}

/** The leading ranks, with the root of each singular value on both sides, so that the factors are of one size. */
function truncated({ u, v, squares }: Decomposition, { rows, columns }: Sides, rank: number): LowRank {
  const left = new Float64Array(rows * rank);
  const right = new Float64Array(rank * columns);
  for (let r = 0; r < rank; r++) {
    const root = (squares[r] ?? 0) ** 0.25;
    for (let i = 0; i < rows; i++) left[i * rank + r] = root * u.get(i, r);
    for (let j = 0; j < columns; j++) right[r * columns + j] = root * v.get(j, r);
  }
  return { rank, left, right, squares: squares.slice(0, rank) };
}

function squaredNorm(values: Float64Array): number {
  return values.reduce((sum, x) => sum + x * x, 0);
}

/** matrix [rows, columns] times other [columns, size] with `multiply`; of matrix^T with `multiplyTransposed`. */
async function product(
  kernel: typeof multiply,
  matrix: Float32Array,
  { rows, columns }: Sides,
  other: Float64Array,
  size: number,
  onTurn?: () => void,
): Promise<Float64Array> {
  const result = new Float64Array((kernel === multiply ? rows : columns) * size);
  await inTurns(rows, columns * size, onTurn, (from, to) => kernel(matrix, columns, other, result, size, from, to));
  return result;
}

/** Calls `work` on ranges of rows, with turns of the event loop between them. */
async function inTurns(
  rows: number,
  perRow: number,
  onTurn: (() => void) | undefined,
  work: (from: number, to: number) => void,
): Promise<void> {
  // A multiple of four rows: the products below take them by fours.
  const step = Math.max(4, 4 * Math.floor(WORK_PER_TURN / perRow / 4));
  for (let from = 0; from < rows; from += step) {
    work(from, Math.min(rows, from + step));
    await nextTurn();
    onTurn?.();
  }
}

/** product[i] += sum_k matrix[i, k] other[k] for rows i of a range; four k at a time, to load and store product less. */
function multiply(
  matrix: Float32Array,
  columns: number,
  other: Float64Array,
  product: Float64Array,
  size: number,
  from: number,
  to: number,
): void {
  for (let i = from; i < to; i++) {
    const at = i * size;
    for (let k = 0; k < columns; k += 4) {
      const place = i * columns + k;
      const left = columns - k;
      const x0 = matrix[place] as number;
      const x1 = left > 1 ? (matrix[place + 1] as number) : 0;
      const x2 = left > 2 ? (matrix[place + 2] as number) : 0;
      const x3 = left > 3 ? (matrix[place + 3] as number) : 0;
      const o0 = k * size;
      const o1 = left > 1 ? o0 + size : o0;
      const o2 = left > 2 ? o1 + size : o0;
      const o3 = left > 3 ? o2 + size : o0;
      for (let j = 0; j < size; j++) {
        product[at + j] =
          (product[at + j] as number) +
          (x0 * (other[o0 + j] as number) + x1 * (other[o1 + j] as number)) +
          (x2 * (other[o2 + j] as number) + x3 * (other[o3 + j] as number));
      }
    }
  }
}

/** product[k] += matrix[i, k] other[i] over rows i of a range; four rows at a time. */
function multiplyTransposed(
  matrix: Float32Array,
  columns: number,
  other: Float64Array,
  product: Float64Array,
  size: number,
  from: number,
  to: number,
): void {
  for (let i = from; i < to; i += 4) {
    const left = to - i;
    const m0 = i * columns;
    const m1 = left > 1 ? m0 + columns : -1;
    const m2 = left > 2 ? m1 + columns : -1;
    const m3 = left > 3 ? m2 + columns : -1;
    const o0 = i * size;
    const o1 = left > 1 ? o0 + size : o0;
    const o2 = left > 2 ? o1 + size : o0;
    const o3 = left > 3 ? o2 + size : o0;
    for (let k = 0; k < columns; k++) {
      const x0 = matrix[m0 + k] as number;
      const x1 = m1 < 0 ? 0 : (matrix[m1 + k] as number);
      const x2 = m2 < 0 ? 0 : (matrix[m2 + k] as number);
      const x3 = m3 < 0 ? 0 : (matrix[m3 + k] as number);
      const at = k * size;
      for (let j = 0; j < size; j++) {
        product[at + j] =
          (product[at + j] as number) +
          (x0 * (other[o0 + j] as number) + x1 * (other[o1 + j] as number)) +
          (x2 * (other[o2 + j] as number) + x3 * (other[o3 + j] as number));
      }
    }
  }
}
