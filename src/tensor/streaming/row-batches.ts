// Reads the rows of a matrix in batches of float64, for products.
import type { Kernels } from "../../kernels/index.js";
import { PANEL } from "./panels.js";

/** A matrix whose rows are computed on demand. */
export interface RowSource {
  readonly rows: number;
  readonly columns: number;
  /** Squared Frobenius norm. */
  readonly squares: number;
  /** Calls `each` for blocks of rows [from, to), in order, with the address of their float32 values. */
  read(from: number, to: number, each: (from: number, to: number, address: number) => void): void;
}

/** Rows that products take at once: with a panel of columns they stay in a first-level cache. */
export const BATCH = 32;

/** Rows [at, at + count) of a matrix, as dense matrices [count, width]. */
export interface Batch {
  readonly at: number;
  readonly count: number;
  /** Address of the columns of a panel. */
  readonly panel: (panel: number) => number;
}

export class RowBatches {
  readonly panels: number;
  readonly #kernels: Kernels;
  readonly #matrix: RowSource;
  readonly #address: number;

  constructor(kernels: Kernels, matrix: RowSource) {
    this.panels = Math.ceil(matrix.columns / PANEL);
    this.#kernels = kernels;
    this.#matrix = matrix;
    this.#address = kernels.allocate(8 * BATCH * matrix.columns);
  }

  width(panel: number): number {
    return Math.min(PANEL, this.#matrix.columns - panel * PANEL);
  }

  /** Reads all rows; a batch is valid until the next. */
  *read(): Generator<Batch> {
    const { rows, columns } = this.#matrix;
    for (let at = 0; at < rows; at += BATCH) {
      const count = Math.min(BATCH, rows - at);
      const panel = (p: number) => this.#address + 8 * p * PANEL * count;
      this.#matrix.read(at, at + count, (from, to, source) => {
        for (let p = 0; p < this.panels; p++) {
          const into = panel(p) + 8 * (from - at) * this.width(p);
          this.#kernels.wasm.widen(source + 4 * p * PANEL, into, to - from, this.width(p), columns);
        }
      });
      yield { at, count, panel };
    }
  }
}
