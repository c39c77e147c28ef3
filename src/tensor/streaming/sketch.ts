// Randomised subspace iteration (Halko, Martinsson and Tropp, arXiv 0909.4061, section 4.5). Each pass computes the
// matrix A [rows, columns] again, a few rows at a time, so memory holds sketches of A and never A.
//
// V [columns, size] are orthonormal directions, Y = A V [rows, size], Z = A^T Y [columns, size]. A pass computes Y and Z
// from V; the next V spans Z. V and Z are stored with each direction as a vector of `Panels`.

import type { Kernels } from "../../kernels/index.js";
import type { Random } from "../../kit/index.js";
import { type Eigenvectors, eigenvectors, setColumns } from "./exact-decomposition.js";
import type { LowRankFactors } from "./low-rank.js";
import { PANEL, Panels } from "./panels.js";
import { BATCH, RowBatches, type RowSource } from "./row-batches.js";

// The iteration ends when a pass adds at most this share of the squared norm.
const GAIN = 1e-5;
// What is left of the squared norm when float64 has captured all of it.
const NOTHING = 1e-13;
/** Most passes over the matrix with sketches of one size. */
export const MAX_PASSES = 9;

export class Sketch {
  readonly #kernels: Kernels;
  readonly #matrix: RowSource;
  readonly #batches: RowBatches;
  readonly #size: number;
  readonly #v: Panels;
  readonly #z: Panels;
  /** Y in batches of rows, each [size, rows of the batch]. */
  readonly #y: Float32Array;
  readonly #products: number;

  constructor(kernels: Kernels, matrix: RowSource, size: number) {
    this.#kernels = kernels;
    this.#matrix = matrix;
    this.#batches = new RowBatches(kernels, matrix);
    this.#size = size;
    this.#v = new Panels(kernels, size, matrix.columns);
    this.#z = new Panels(kernels, size, matrix.columns);
    this.#y = new Float32Array(matrix.rows * size);
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
    const { squares } = this.#matrix;
    let before = 0;
    for (let pass = 1; ; pass++) {
      this.#v.orthonormalize();
      const captured = this.#pass();
      const isConverged = pass > 1 && captured - before <= GAIN * squares;
      if (isConverged || squares - captured <= NOTHING * squares || pass === MAX_PASSES) return;
      before = captured;
      this.#v.values.set(this.#z.values);
    }
  }

  /** Y = A V and Z = A^T Y. @returns the squared norm of Y */
  #pass(): number {
    const { wasm } = this.#kernels;
    const [size, v, z, y] = [this.#size, this.#v, this.#z, this.#products];
    let captured = 0;
    z.values.fill(0);
    for (const { at, count, panel } of this.#batches.read()) {
      this.#kernels.doubles(y, size * count).fill(0);
      for (let p = 0; p < v.panels; p++) wasm.addDots(y, v.at(p), panel(p), size, count, v.width(p));
      for (let p = 0; p < z.panels; p++) wasm.addRows(z.at(p), y, panel(p), size, z.width(p), count);
      const values = this.#kernels.doubles(y, size * count);
      for (let i = 0; i < values.length; i++) captured += (values[i] as number) ** 2;
      this.#y.set(values, at * size);
    }
    return captured;
  }

  /** Eigenvectors of V^T A^T A V; the eigenvalues are the squares of A's singular values in V. */
  solve(): Eigenvectors {
    const size = this.#size;
    const gram = this.#kernels.borrow(() => {
      const address = this.#kernels.allocate(8 * size * size);
      this.#v.addProducts(address, this.#z);
      return this.#kernels.doubles(address, size * size).slice();
    });
    return eigenvectors(gram, size, this.#kernels);
  }

  /** The directions of the next pass. */
  directions(): Float64Array[] {
    return Array.from({ length: this.#size }, (_, i) => this.#z.vector(i));
  }

  /** The leading ranks, with the root of each singular value on both sides, so that the factors are of one size. */
  factors(gains: Float64Array, vectors: Float64Array, rank: number): LowRankFactors {
    const { rows, columns } = this.#matrix;
    const { wasm } = this.#kernels;
    const [size, v] = [this.#size, this.#v];
    const roots = Array.from(gains.subarray(0, rank), (gain) => Math.sqrt(Math.sqrt(gain)));
    const [left, right] = [new Float32Array(rows * rank), new Float32Array(rank * columns)];
    const turn = this.#kernels.allocate(8 * rank * size);
    const turned = this.#kernels.allocate(8 * rank * Math.max(PANEL, BATCH));
    this.#kernels.doubles(turn, rank * size).set(vectors.subarray(0, rank * size));
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
      setColumns(left, values, roots, at, count);
    }
    return { rank, left, right, gains: gains.slice(0, rank) };
  }
}
