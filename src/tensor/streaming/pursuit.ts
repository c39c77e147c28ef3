// Rows of an embedding that a model lacks, from rows that it has: most from those that it shares with another model, by
// orthogonal matching pursuit, as mergekit-tokensurgeon selects atoms (arXiv 2506.06607, algorithm 1).
// d width of the donor's rows, B rows at once, k atoms of each.

import type { Pursuit as PursuitIn } from "../../formats/checkpoint/index.js";
import type { KernelDType, Kernels } from "../../kernels/index.js";
import { bytesPerElement } from "../../kit/index.js";
import type { Inputs } from "./files.js";
import { nearestAtoms } from "./nearest.js";

/** Rows of a stored matrix. */
export interface Table {
  readonly file: number;
  readonly offset: number;
  readonly dtype: KernelDType;
  readonly columns: number;
}

export type Pursuit = PursuitIn<Table>;

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

/** Rows of the model's matrix and their weights in a sum. */
interface Combination {
  readonly rows: ArrayLike<number> & Iterable<number> & { entries(): Iterable<[number, number]> };
  readonly weights: ArrayLike<number>;
}

/** A row on its way: what is left of it, orthonormal directions q, and R with atoms = R^T q. */
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
  const { donor, atoms, twins, k } = pursuit;
  const made = new Float32Array(targets.length * own.columns);
  const step = rowsAtOnce(pursuit);
  const rowOf = (table: Table, index: number) => readRow(kernels, files, table, index);
  if (pursuit.mean) {
    const mean = meanOf(kernels, files, pursuit, own, onStep);
    for (const i of targets.keys()) made.set(mean, i * own.columns);
    return made;
  }
  const keep = (at: number, { rows, weights }: Combination) => {
    const sum = new Float64Array(own.columns);
    for (const [j, row] of rows.entries()) addTo(sum, rowOf(own, row), weights[j] as number);
    made.set(sum, at * own.columns);
  };
  if (pursuit.listed) {
    const { starts, rows, weights } = pursuit.listed;
    for (const [i, target] of targets.entries()) {
      onStep();
      const [from, end] = [starts[target], starts[target + 1]];
      keep(i, { rows: rows.subarray(from, end), weights: weights.subarray(from, end) });
    }
    return made;
  }
  for (let at = 0; at < targets.length; at += step) {
    if (pursuit.nearest) {
      onStep();
      const some = targets.slice(at, at + step).map((index) => rowOf(donor, index));
      const found = kernels.borrow(() => nearestAtoms(kernels, files, pursuit, some));
      for (const [i, { chosen, weights }] of found.entries()) {
        keep(at + i, { rows: chosen.map((atom) => twins[atom] as number), weights });
      }
      continue;
    }
    const rows = targets.slice(at, at + step).map((index): Row => {
      const target = rowOf(donor, index);
      return { target, residual: target.slice(), chosen: [], directions: [], triangle: [], isDone: false };
    });
    for (let t = 0; t < Math.min(k, atoms.length) && rows.some(({ isDone }) => !isDone); t++) {
      onStep();
      const best = kernels.borrow(() => largest(kernels, files, pursuit, rows));
      for (const [i, row] of rows.entries()) {
        const atom = best[i] as number;
        if (!row.isDone) row.isDone = atom < 0 || !add(row, atom, rowOf(donor, atoms[atom] as number));
      }
    }
    for (const [i, row] of rows.entries()) {
      keep(at + i, { rows: row.chosen.map((atom) => twins[atom] as number), weights: solve(row) });
    }
  }
  return made;
}

/** Elements of a stored matrix from `first` on as float32 at an address. @param raw space for them as stored */
export function readFloats(
  kernels: Kernels,
  files: Inputs,
  { file, offset, dtype }: Omit<Table, "columns">,
  [first, count]: readonly [number, number],
  raw: number,
  into: number,
): void {
  const width = bytesPerElement(dtype);
  files.read(file, offset + first * width, kernels.bytes(raw, count * width));
  kernels.clearPadding(raw, count * width);
  kernels.wasm[`scale${dtype}`](raw, into, count, 1);
}

function readRow(kernels: Kernels, files: Inputs, table: Table, index: number): Float64Array {
  return kernels.borrow(() => {
    const [raw, into] = [kernels.allocate(4 * table.columns), kernels.allocate(4 * table.columns)];
    readFloats(kernels, files, table, [index * table.columns, table.columns], raw, into);
    return Float64Array.from(kernels.floats(into, table.columns));
  });
}

const means = new WeakMap<Pursuit, Float64Array>();

/** The mean of all rows of a matrix; computed once by each thread. */
function meanOf(kernels: Kernels, files: Inputs, pursuit: Pursuit, own: Table, onStep: () => void): Float64Array {
  const known = means.get(pursuit);
  if (known) return known;
  const mean = new Float64Array(own.columns);
  const rows = pursuit.atoms.length;
  for (let row = 0; row < rows; row++) {
    if (row % 1024 === 0) onStep();
    addTo(mean, readRow(kernels, files, own, row), 1 / rows);
  }
  means.set(pursuit, mean);
  return mean;
}

/**
 * Products of atoms with vectors, a run of atoms that are neighbors at a time.
 * @param use gets the number of atoms before the run, in it, their products [atoms, width], and their values [atoms, columns]
 */
export function eachRun(
  kernels: Kernels,
  files: Inputs,
  { donor, atoms }: Pursuit,
  vectors: readonly Float64Array[],
  use: (from: number, count: number, products: Float32Array, width: number, values: Float32Array) => void,
): void {
  const { columns } = donor;
  const width = lanes(vectors.length);
  const most = Math.max(1, Math.floor(ATOM_ELEMENTS / columns));
  const [left, raw, some, into] = [columns * width, most * columns, most * columns, most * width].map((n) =>
    kernels.allocate(4 * n),
  ) as [number, number, number, number];
  const turned = kernels.floats(left, columns * width).fill(0);
  for (const [i, vector] of vectors.entries()) {
    for (let d = 0; d < columns; d++) turned[d * width + i] = vector[d] as number;
  }
  for (let from = 0, count = 1; from < atoms.length; from += count) {
    const first = atoms[from] as number;
    for (count = 1; count < most && atoms[from + count] === first + count; ) count++;
    readFloats(kernels, files, donor, [first * columns, count * columns], raw, some);
    const products = kernels.floats(into, count * width).fill(0);
    kernels.wasm.addLowRank(into, some, left, count, width, columns, 1);
    use(from, count, products, width, kernels.floats(some, count * columns));
  }
}

/** The atom with the largest product with each row's residual, of those not chosen; -1 where all are 0. */
function largest(kernels: Kernels, files: Inputs, pursuit: Pursuit, rows: readonly Row[]): Int32Array {
  const best = new Int32Array(rows.length).fill(-1);
  const size = new Float64Array(rows.length);
  const residuals = rows.map(({ residual }) => residual);
  eachRun(kernels, files, pursuit, residuals, (from, count, products, width) => {
    for (let a = 0; a < count; a++) {
      for (let i = 0; i < best.length; i++) {
        const product = Math.abs(products[a * width + i] as number);
        if (!(product > (size[i] as number)) || rows[i]?.chosen.includes(from + a)) continue;
        size[i] = product;
        best[i] = from + a;
      }
    }
  });
  return best;
}

/** Adds an atom to a row, by Gram and Schmidt, twice. @returns whether more can follow: rounding errors are no reason */
function add(row: Row, atom: number, direction: Float64Array): boolean {
  const before = dot(direction, direction);
  const column = row.directions.map(() => 0);
  for (let round = 0; round < 2; round++) {
    for (const [j, q] of row.directions.entries()) {
      const share = dot(q, direction);
      column[j] = (column[j] as number) + share;
      addTo(direction, q, -share);
    }
  }
  const squares = dot(direction, direction);
  if (!(squares > NOTHING * before)) return false;
  const norm = Math.sqrt(squares);
  for (let d = 0; d < direction.length; d++) direction[d] = (direction[d] as number) / norm;
  row.chosen.push(atom);
  row.directions.push(direction);
  row.triangle.push([...column, norm]);
  addTo(row.residual, direction, -dot(direction, row.residual));
  return dot(row.residual, row.residual) > NOTHING * dot(row.target, row.target);
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
