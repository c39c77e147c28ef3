// The best low-rank approximation of a matrix by randomised subspace iteration (Halko, Martinsson and Tropp, arXiv
// 0909.4061, section 4.5), in float64. Each pass computes the matrix A [rows, columns] again, a few rows at a time, so
// memory holds sketches of A and never A.
//
// V [columns, size] are orthonormal directions, Y = A V [rows, size], Z = A^T Y [columns, size]. A pass computes Y and Z
// from V; the next V spans Z. V and Z are stored with each direction as a vector of `Panels`.
import { createRequire } from "node:module";
import type { Random } from "../../core/index.js";
import type { Kernels } from "../kernels/kernels.js";
import { PANEL, Panels } from "./panels.js";

/** A matrix as left [rows, rank] times right [rank, columns], row-major. */
export interface LowRankFactors {
  readonly rank: number;
  readonly left: Float32Array;
  readonly right: Float32Array;
  /** Squared Frobenius norm that each rank adds, largest first, [rank]. */
  readonly gains: Float64Array;
}

/** A matrix whose rows are computed on demand. */
export interface RowSource {
  readonly rows: number;
  readonly columns: number;
  /** Squared Frobenius norm. */
  readonly squares: number;
  /** Calls `each` for blocks of rows [from, to), in order, with the address of their float32 values. */
  read(from: number, to: number, each: (from: number, to: number, address: number) => void): void;
}

export interface LowRankOptions {
  /** Largest rank. */
  readonly rank: number;
  /** Share of the squared norm to keep with the smallest rank that does; 1 for all of `rank`. */
  readonly energy: number;
  readonly random: Random;
}

// Directions beyond the rank: with them the last ones that are kept converge, too.
const EXTRA = 16;
// The first rank of a search.
const FIRST_SEARCH = 64;
// The iteration ends when a pass adds at most this share of the squared norm.
const GAIN = 1e-5;
// What is left of the squared norm when float64 has captured all of it.
const NOTHING = 1e-13;
/** Most passes over the matrix with sketches of one size. */
export const MOST_PASSES = 9;
// Rows of A that products take at once: with a panel of columns they stay in a first-level cache.
const BATCH = 32;

/** Directions that are iterated for a rank. */
function sketchSize(rank: number, { rows, columns }: Pick<RowSource, "rows" | "columns">): number {
  return Math.min(rank + EXTRA, rows, columns);
}

/** Bytes that an approximation of this rank needs. */
export function lowRankBytes(matrix: Pick<RowSource, "rows" | "columns">, rank: number): number {
  const { rows, columns } = matrix;
  const size = sketchSize(rank, matrix);
  const most = Math.min(rank, size);
  const panels = 2 * columns * size + 3 * size * size + BATCH * (columns + 2 * size) + PANEL * size;
  return 8 * panels + 4 * rows * size + 4 * most * (rows + columns);
}

/** Approximates a matrix. The result depends on its values and the random numbers alone. */
export function lowRank(kernels: Kernels, matrix: RowSource, options: LowRankOptions): LowRankFactors {
  const { energy, random } = options;
  const most = Math.min(options.rank, matrix.rows, matrix.columns);
  const target = energy * matrix.squares;
  let tried = energy < 1 ? Math.min(FIRST_SEARCH, most) : most;
  for (let known: readonly Float64Array[] = []; ; ) {
    const found = kernels.borrow(() => {
      const sketch = new Sketch(kernels, matrix, sketchSize(tried, matrix));
      sketch.start(known, random);
      sketch.iterate();
      const { gains, rotation } = sketch.solve();
      const kept = energy < 1 ? ranksFor(gains.subarray(0, tried), target) : most;
      if (kept === undefined && tried < most) return { gains, directions: sketch.directions() };
      return { factors: sketch.factors(gains, rotation, kept ?? most) };
    });
    if (found.factors) return found.factors;
    known = found.directions;
    tried = Math.min(most, nextRank(found.gains.subarray(0, tried), target));
  }
}

/** The rank to try after one that keeps too little. */
function nextRank(gains: Float64Array, target: number): number {
  const sum = gains.reduce((total, gain) => total + gain, 0);
  // No further rank adds more than the last one, so at least this many are missing.
  const missing = Math.ceil((target - sum) / (gains.at(-1) ?? 0));
  return Math.max(2 * gains.length, gains.length + missing);
}

/** The smallest number of leading entries whose sum reaches a target; undefined if none does. */
function ranksFor(gains: Float64Array, target: number): number | undefined {
  let sum = 0;
  for (const [i, gain] of gains.entries()) {
    sum += gain;
    if (sum >= target) return i + 1;
  }
  return undefined;
}

class Sketch {
  readonly #kernels: Kernels;
  readonly #matrix: RowSource;
  readonly #size: number;
  readonly #v: Panels;
  readonly #z: Panels;
  /** Y in batches of rows, each [size, rows of the batch]. */
  readonly #y: Float32Array;
  /** A batch of rows of A, in panels of columns. */
  readonly #batch: number;
  readonly #products: number;

  constructor(kernels: Kernels, matrix: RowSource, size: number) {
    this.#kernels = kernels;
    this.#matrix = matrix;
    this.#size = size;
    this.#v = new Panels(kernels, size, matrix.columns);
    this.#z = new Panels(kernels, size, matrix.columns);
    this.#y = new Float32Array(matrix.rows * size);
    this.#batch = kernels.allocate(8 * BATCH * matrix.columns);
    this.#products = kernels.allocate(8 * BATCH * size);
  }

  /** Starts with known directions, then random ones. */
  start(known: readonly Float64Array[], random: Random): void {
    for (let i = 0; i < this.#size; i++) {
      const direction = known[i] ?? Float64Array.from({ length: this.#v.length }, () => random.float() - 0.5);
      this.#v.setVector(i, direction);
    }
  }

  /** Makes passes until another would capture no more of the norm. */
  iterate(): void {
    const { rows, columns, squares } = this.#matrix;
    let before = 0;
    for (let pass = 1; ; pass++) {
      this.#v.orthonormalize();
      const captured = this.#pass();
      // Directions of full width span all of A, those of its height after one pass.
      const spansAll = this.#size === columns || (this.#size === rows && pass > 1);
      const isConverged = pass > 1 && captured - before <= GAIN * squares;
      if (spansAll || isConverged || squares - captured <= NOTHING * squares || pass === MOST_PASSES) return;
      before = captured;
      this.#v.values.set(this.#z.values);
    }
  }

  /** Y = A V and Z = A^T Y. @returns the squared norm of Y */
  #pass(): number {
    const { rows } = this.#matrix;
    const { wasm } = this.#kernels;
    const [size, v, z, y] = [this.#size, this.#v, this.#z, this.#products];
    let captured = 0;
    z.values.fill(0);
    for (let at = 0; at < rows; at += BATCH) {
      const count = Math.min(BATCH, rows - at);
      const panel = this.#load(at, count);
      this.#kernels.doubles(y, size * count).fill(0);
      for (let p = 0; p < v.panels; p++) wasm.addDots(y, v.at(p), panel(p), size, count, v.width(p));
      for (let p = 0; p < z.panels; p++) wasm.addRows(z.at(p), y, panel(p), size, z.width(p), count);
      const values = this.#kernels.doubles(y, size * count);
      for (let i = 0; i < values.length; i++) captured += (values[i] as number) ** 2;
      this.#y.set(values, at * size);
    }
    return captured;
  }

  /** Reads a batch of rows. @returns the address of [count, width] float64 by panel */
  #load(at: number, count: number): (panel: number) => number {
    const { columns } = this.#matrix;
    const address = (panel: number) => this.#batch + 8 * panel * PANEL * count;
    this.#matrix.read(at, at + count, (from, to, source) => {
      for (let p = 0; p < this.#v.panels; p++) {
        const width = this.#v.width(p);
        const into = address(p) + 8 * (from - at) * width;
        this.#kernels.wasm.widen(source + 4 * p * PANEL, into, to - from, width, columns);
      }
    });
    return address;
  }

  /** Eigenvalues of V^T A^T A V, the squares of A's singular values in V, largest first, and eigenvectors as rows. */
  solve(): { gains: Float64Array; rotation: Float64Array } {
    const size = this.#size;
    const gram = this.#kernels.borrow(() => {
      const address = this.#kernels.allocate(8 * size * size);
      this.#v.addProducts(address, this.#z);
      return this.#kernels.doubles(address, size * size).slice();
    });
    // Loaded here and not imported, as no other job needs it, and at once, as jobs are synchronous.
    const { EigenvalueDecomposition, Matrix } = createRequire(import.meta.url)(
      "ml-matrix",
    ) as typeof import("ml-matrix");
    const matrix = Matrix.from1DArray(size, size, gram as unknown as number[]);
    const { realEigenvalues, eigenvectorMatrix } = new EigenvalueDecomposition(matrix, { assumeSymmetric: true });
    const gains = new Float64Array(size);
    const rotation = new Float64Array(size * size);
    // They are in ascending order.
    for (let i = 0; i < size; i++) {
      const from = size - 1 - i;
      gains[i] = Math.max(0, realEigenvalues[from] ?? 0);
      for (let j = 0; j < size; j++) rotation[i * size + j] = eigenvectorMatrix.get(j, from);
    }
    return { gains, rotation };
  }

  /** The directions of the next pass. */
  directions(): Float64Array[] {
    return Array.from({ length: this.#size }, (_, i) => this.#z.vector(i));
  }

  /** The leading ranks, with the root of each singular value on both sides, so that the factors are of one size. */
  factors(gains: Float64Array, rotation: Float64Array, rank: number): LowRankFactors {
    const { rows, columns } = this.#matrix;
    const { wasm } = this.#kernels;
    const [size, v] = [this.#size, this.#v];
    const roots = Array.from(gains.subarray(0, rank), (gain) => Math.sqrt(Math.sqrt(gain)));
    const [left, right] = [new Float32Array(rows * rank), new Float32Array(rank * columns)];
    const turn = this.#kernels.allocate(8 * rank * size);
    this.#kernels.doubles(turn, rank * size).set(rotation.subarray(0, rank * size));
    const turned = this.#kernels.allocate(8 * rank * Math.max(PANEL, BATCH));
    for (let p = 0; p < v.panels; p++) {
      const width = v.width(p);
      const values = this.#kernels.doubles(turned, rank * width).fill(0);
      wasm.addRows(turned, turn, v.at(p), rank, width, size);
      for (let r = 0; r < rank; r++) {
        for (let j = 0; j < width; j++) {
          right[r * columns + p * PANEL + j] = (roots[r] as number) * (values[r * width + j] as number);
        }
      }
    }
    for (let at = 0; at < rows; at += BATCH) {
      const count = Math.min(BATCH, rows - at);
      this.#kernels.doubles(this.#products, size * count).set(this.#y.subarray(at * size, (at + count) * size));
      const values = this.#kernels.doubles(turned, rank * count).fill(0);
      wasm.addRows(turned, turn, this.#products, rank, count, size);
      for (let r = 0; r < rank; r++) {
        const root = roots[r] as number;
        for (let i = 0; i < count; i++) {
          left[(at + i) * rank + r] = root === 0 ? 0 : (values[r * count + i] as number) / root;
        }
      }
    }
    return { rank, left, right, gains: gains.slice(0, rank) };
  }
}
