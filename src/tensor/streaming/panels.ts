// Float64 vectors in WebAssembly memory, cut into panels that fit a core's caches.
import type { Kernels } from "../../kernels/index.js";

/** Elements of a vector in a panel. */
export const PANEL = 128;
// Vectors that are made orthogonal to the earlier ones together, in products of matrices.
const GROUP = 16;
// Two to four are enough where there are far fewer vectors than dimensions.
const MAX_ROUNDS = 16;

/** Vectors [count, length]: one dense matrix [count, at most PANEL] after the other. */
export class Panels {
  readonly count: number;
  readonly length: number;
  readonly panels: number;
  readonly #kernels: Kernels;
  readonly #address: number;

  constructor(kernels: Kernels, count: number, length: number) {
    this.count = count;
    this.length = length;
    this.panels = Math.ceil(length / PANEL);
    this.#kernels = kernels;
    this.#address = kernels.allocate(8 * count * length);
  }

  width(panel: number): number {
    return Math.min(PANEL, this.length - panel * PANEL);
  }

  /** Address of a vector's part in a panel. */
  at(panel: number, vector = 0): number {
    return this.#address + 8 * (panel * PANEL * this.count + vector * this.width(panel));
  }

  /** The parts of a vector, in order. */
  *parts(vector: number): Generator<Float64Array> {
    for (let p = 0; p < this.panels; p++) yield this.#kernels.doubles(this.at(p, vector), this.width(p));
  }

  /** All elements, in the order of the panels. */
  get values(): Float64Array {
    return this.#kernels.doubles(this.#address, this.count * this.length);
  }

  /** Vector `i` as a dense array. */
  vector(i: number): Float64Array {
    const values = new Float64Array(this.length);
    let at = 0;
    for (const part of this.parts(i)) {
      values.set(part, at);
      at += part.length;
    }
    return values;
  }

  setVector(i: number, values: Float64Array): void {
    let at = 0;
    for (const part of this.parts(i)) {
      part.set(values.subarray(at, at + part.length));
      at += part.length;
    }
  }

  /** Adds to `products` [count, count] the dot products of these vectors with those of another. */
  addProducts(products: number, other: Panels): void {
    for (let p = 0; p < this.panels; p++) {
      this.#kernels.wasm.addDots(products, this.at(p), other.at(p), this.count, other.count, this.width(p));
    }
  }

  /**
   * Makes the vectors orthonormal, in place and in order (Gram and Schmidt). Zero vectors stay zero.
   *
   * What is left of a vector that depends on earlier ones is rounding errors, which are not orthogonal to them. So its
   * projections are subtracted again until little is subtracted.
   */
  orthonormalize(): void {
    const kernels = this.#kernels;
    kernels.borrow(() => {
      const products = kernels.allocate(8 * GROUP * this.count);
      for (let from = 0; from < this.count; from += GROUP) {
        const to = Math.min(from + GROUP, this.count);
        for (let round = 0, least = 0; round < MAX_ROUNDS && (round < 2 || least < 0.5); round++) {
          this.#subtractProjections(products, from, to, 0, from);
          least = 1;
          for (let i = from; i < to; i++) {
            this.#subtractProjections(products, i, i + 1, from, i);
            least = Math.min(least, this.#normalize(i));
          }
        }
      }
    });
  }

  /** Subtracts from vectors [first, last) their projections on the orthonormal vectors [from, to). */
  #subtractProjections(products: number, first: number, last: number, from: number, to: number): void {
    if (from === to) return;
    const { wasm } = this.#kernels;
    const [count, others] = [last - first, to - from];
    const values = this.#kernels.doubles(products, count * others).fill(0);
    for (let p = 0; p < this.panels; p++) {
      wasm.addDots(products, this.at(p, first), this.at(p, from), count, others, this.width(p));
    }
    for (let i = 0; i < values.length; i++) values[i] = -(values[i] as number);
    for (let p = 0; p < this.panels; p++) {
      wasm.addRows(this.at(p, first), products, this.at(p, from), count, this.width(p), others);
    }
  }

  /** Scales a vector to norm 1, but leaves zeros. @returns its norm before, or 1 for zeros */
  #normalize(i: number): number {
    let squares = 0;
    for (const part of this.parts(i)) for (let k = 0; k < part.length; k++) squares += (part[k] as number) ** 2;
    const norm = Math.sqrt(squares);
    if (norm === 0) return 1;
    for (const part of this.parts(i)) for (let k = 0; k < part.length; k++) part[k] = (part[k] as number) / norm;
    return norm;
  }
}
