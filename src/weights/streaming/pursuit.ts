// Rows of an embedding that a model lacks, from those that it shares with another model: orthogonal matching pursuit, as
// mergekit-tokensurgeon selects atoms (arXiv 2506.06607, algorithm 1).
// d width of the donor's rows, B rows at once, k atoms of each.
import { bytesPerElement } from "../../core/index.js";
import type { KernelDType, Kernels } from "../kernels/kernels.js";
import type { Inputs } from "./files.js";

/** Rows of a stored matrix. */
export interface Table {
  readonly file: number;
  readonly offset: number;
  readonly dtype: KernelDType;
  readonly columns: number;
}

/** How rows are approximated: donor row ~ sum c_j donor[atom_j], new row = sum c_j own[twin_j]. */
export interface Pursuit {
  readonly donor: Table;
  /** Rows of shared tokens in the donor's matrix, ascending, and in the model's own. */
  readonly atoms: Int32Array;
  readonly twins: Int32Array;
  /** Most atoms of a row. */
  readonly k: number;
  /** Rows of the matrix in a block. */
  readonly blockRows: number;
}

/** Most rows that are approximated together. */
const TOGETHER = 64;
// A little fewer on average, as they are not spread evenly. With far fewer, reading atoms takes longer than multiplying them.
const PER_BLOCK = 48;
const BLOCK_ELEMENTS = 2 ** 21;

/** Rows of a block, for a matrix of which some rows are approximated. */
export function blockRowsFor(rows: number, approximated: number, columns: number): number {
  const wanted = Math.ceil((PER_BLOCK * rows) / Math.max(1, approximated));
  return Math.max(1, Math.min(wanted, rows, Math.floor(BLOCK_ELEMENTS / columns)));
}

/** Instead of the index of a part: a row that is approximated. */
export const PURSUED = 254;

// Directions of the rows that are computed at once.
const MEMORY = 2 ** 26;
const ATOM_ELEMENTS = 2 ** 16;
// Squared share of a row that float32 cannot resolve.
const NOTHING = 1e-13;

const rowsAtOnce = ({ k, donor }: Pursuit) =>
  Math.max(8, Math.min(TOGETHER, Math.floor(MEMORY / (8 * k * donor.columns))));
const lanes = (rows: number) => Math.ceil(rows / 16) * 16;

/** Bytes that a thread needs. */
export function pursuitBytes(pursuit: Pursuit): number {
  const { columns } = pursuit.donor;
  const rows = rowsAtOnce(pursuit);
  return 8 * rows * columns * (pursuit.k + 2) + 4 * (columns * lanes(rows) + 4 * ATOM_ELEMENTS);
}

/** A row on its way: its residual, orthonormal directions q, and R with atoms = R^T q. */
interface Row {
  readonly target: Float64Array;
  readonly residual: Float64Array;
  readonly chosen: number[];
  readonly directions: Float64Array[];
  readonly triangle: number[][];
  isDone: boolean;
}

/**
 * New rows, [targets, own.columns]. Each depends on its own target alone, whatever is computed with it.
 * @param targets rows of the donor's matrix
 * @param own the model's matrix
 * @param onStep called before each atom, to stop by throwing
 */
export function pursue(
  kernels: Kernels,
  files: Inputs,
  pursuit: Pursuit,
  own: Table,
  targets: readonly number[],
  onStep: () => void,
): Float32Array {
  const made = new Float32Array(targets.length * own.columns);
  const step = rowsAtOnce(pursuit);
  for (let at = 0; at < targets.length; at += step) {
    kernels.borrow(() => {
      const some = new Batch(kernels, files, pursuit, targets.slice(at, at + step)).run(onStep);
      for (const [i, { chosen, coefficients }] of some.entries()) {
        const sum = new Float64Array(own.columns);
        for (const [j, atom] of chosen.entries()) {
          const row = new Reader(kernels, files, own).row(pursuit.twins[atom] as number);
          addTo(sum, row, coefficients[j] as number);
        }
        made.set(sum, (at + i) * own.columns);
      }
    });
  }
  return made;
}

class Reader {
  readonly #kernels: Kernels;
  readonly #files: Inputs;
  readonly #table: Table;

  constructor(kernels: Kernels, files: Inputs, table: Table) {
    this.#kernels = kernels;
    this.#files = files;
    this.#table = table;
  }

  /** Rows from `first` on as float32 at an address. @param raw space for them as stored */
  read(first: number, count: number, raw: number, into: number): void {
    const { file, offset, dtype, columns } = this.#table;
    const [n, width] = [count * columns, bytesPerElement(dtype)];
    this.#files.read(file, offset + first * columns * width, this.#kernels.bytes(raw, n * width));
    this.#kernels.clearPadding(raw, n * width);
    this.#kernels.wasm[`scale${dtype}`](raw, into, n, 1);
  }

  row(index: number): Float64Array {
    return this.#kernels.borrow(() => {
      const { columns } = this.#table;
      const into = this.#kernels.allocate(4 * columns);
      this.read(index, 1, this.#kernels.allocate(4 * columns), into);
      return Float64Array.from(this.#kernels.floats(into, columns));
    });
  }
}

class Batch {
  readonly #kernels: Kernels;
  readonly #pursuit: Pursuit;
  readonly #reader: Reader;
  readonly #rows: readonly Row[];
  readonly #residuals: number;
  readonly #raw: number;
  readonly #atoms: number;
  readonly #products: number;
  /** Atoms that are read at once. */
  readonly #step: number;

  constructor(kernels: Kernels, files: Inputs, pursuit: Pursuit, targets: readonly number[]) {
    const { columns } = pursuit.donor;
    this.#kernels = kernels;
    this.#pursuit = pursuit;
    this.#reader = new Reader(kernels, files, pursuit.donor);
    this.#rows = targets.map((index): Row => {
      const target = this.#reader.row(index);
      return { target, residual: target.slice(), chosen: [], directions: [], triangle: [], isDone: false };
    });
    this.#step = Math.max(1, Math.floor(ATOM_ELEMENTS / columns));
    this.#residuals = kernels.allocate(4 * columns * lanes(targets.length));
    this.#raw = kernels.allocate(4 * this.#step * columns);
    this.#atoms = kernels.allocate(4 * this.#step * columns);
    this.#products = kernels.allocate(4 * this.#step * lanes(targets.length));
  }

  run(onStep: () => void): { readonly chosen: readonly number[]; readonly coefficients: readonly number[] }[] {
    const most = Math.min(this.#pursuit.k, this.#pursuit.atoms.length);
    for (let t = 0; t < most && this.#rows.some(({ isDone }) => !isDone); t++) {
      onStep();
      const best = this.#largest();
      for (const [i, row] of this.#rows.entries()) if (!row.isDone) this.#add(row, best[i] as number);
    }
    return this.#rows.map((row) => ({ chosen: row.chosen, coefficients: solve(row) }));
  }

  /** The atom with the largest product with each row's residual, of those not chosen; -1 where all are 0. */
  #largest(): Int32Array {
    const { donor, atoms } = this.#pursuit;
    const { wasm } = this.#kernels;
    const width = lanes(this.#rows.length);
    const residuals = this.#kernels.floats(this.#residuals, donor.columns * width).fill(0);
    for (const [i, { residual }] of this.#rows.entries()) {
      for (let d = 0; d < donor.columns; d++) residuals[d * width + i] = residual[d] as number;
    }
    const best = new Int32Array(this.#rows.length).fill(-1);
    const size = new Float64Array(this.#rows.length);
    for (let from = 0; from < atoms.length; ) {
      // Atoms are read in runs of neighbors.
      let count = 1;
      while (count < this.#step && atoms[from + count] === (atoms[from] as number) + count) count++;
      this.#reader.read(atoms[from] as number, count, this.#raw, this.#atoms);
      const products = this.#kernels.floats(this.#products, count * width).fill(0);
      wasm.addLowRank(this.#products, this.#atoms, this.#residuals, count, width, donor.columns, 1);
      for (let a = 0; a < count; a++) {
        for (let i = 0; i < best.length; i++) {
          const product = Math.abs(products[a * width + i] as number);
          if (product > (size[i] as number) && !this.#rows[i]?.chosen.includes(from + a)) {
            size[i] = product;
            best[i] = from + a;
          }
        }
      }
      from += count;
    }
    return best;
  }

  /** Adds an atom to a row: a new direction by Gram and Schmidt, twice, and the rest of the target. */
  #add(row: Row, atom: number): void {
    const direction = atom < 0 ? undefined : this.#reader.row(this.#pursuit.atoms[atom] as number);
    const before = direction ? dot(direction, direction) : 0;
    const column = row.directions.map(() => 0);
    for (let round = 0; direction && round < 2; round++) {
      for (const [j, q] of row.directions.entries()) {
        const share = dot(q, direction);
        column[j] = (column[j] as number) + share;
        addTo(direction, q, -share);
      }
    }
    const squares = direction ? dot(direction, direction) : 0;
    if (!direction || !(squares > NOTHING * before)) {
      row.isDone = true; // nothing new: the residual is rounding errors
      return;
    }
    const norm = Math.sqrt(squares);
    for (let d = 0; d < direction.length; d++) direction[d] = (direction[d] as number) / norm;
    row.chosen.push(atom);
    row.directions.push(direction);
    row.triangle.push([...column, norm]);
    addTo(row.residual, direction, -dot(direction, row.residual));
    if (dot(row.residual, row.residual) <= NOTHING * dot(row.target, row.target)) row.isDone = true;
  }
}

/** Coefficients of the chosen atoms: R c = q target, from the last. */
function solve({ target, directions, triangle }: Row): number[] {
  const c = directions.map((q) => dot(q, target));
  for (let i = c.length - 1; i >= 0; i--) {
    for (let j = i + 1; j < c.length; j++) c[i] = (c[i] as number) - (triangle[j]?.[i] as number) * (c[j] as number);
    c[i] = (c[i] as number) / (triangle[i]?.[i] as number);
  }
  return c;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

function addTo(sum: Float64Array, values: Float64Array, factor: number): void {
  for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + factor * (values[i] as number);
}
