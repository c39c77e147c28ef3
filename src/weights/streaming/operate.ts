// Applies operations to blocks of values: to float32 buffers with the SIMD kernels, or to float64 arrays with their plain
// twins where tensors are stored as float64.
import type { Kernels } from "../kernels/kernels.js";
import * as plain from "../kernels/operations.js";
import { type BoundOperation, type Evaluation, operationsOf } from "./program.js";
import { slerpWeights } from "./value-operation.js";

/** Elements of a tensor that are computed at once. */
export interface Block {
  /** Index of the first of them among the elements that are evaluated. */
  readonly begin: number;
  /** Its index in the whole tensor, which is another one where a part of a tensor is evaluated. */
  readonly index: number;
  readonly length: number;
  /** Elements in a stored row. */
  readonly columns: number;
}

const ALL = 2 ** 32;

/** Sizes of what operations need beside the blocks themselves. */
export function scratchBytes(evaluations: readonly Evaluation[]): { inputs: number; bytes: number } {
  let inputs = 0;
  let bytes = 0;
  for (const evaluation of evaluations) {
    for (const operation of operationsOf(evaluation)) {
      inputs = Math.max(inputs, operation.of.length);
      if (operation.op === "select" && operation.axis === "columns") bytes = Math.max(bytes, evaluation.columns * 4);
      if (operation.op === "drop-by-magnitude") bytes = Math.max(bytes, (evaluation.columns * 4 + 6144) * 4);
    }
  }
  return { inputs, bytes };
}

export class Operator {
  readonly #kernels: Kernels;
  /** Addresses of buffers, and weights, of operations over many values. */
  readonly #table: number;
  readonly #weights: number;
  readonly #scratch: number;

  constructor(kernels: Kernels, evaluations: readonly Evaluation[]) {
    const { inputs, bytes } = scratchBytes(evaluations);
    this.#kernels = kernels;
    this.#table = kernels.allocate(inputs * 4);
    this.#weights = kernels.allocate(inputs * 4);
    this.#scratch = kernels.allocate(bytes);
  }

  /** Applies an operation to float32 buffers; the result is in the first. */
  apply(operation: BoundOperation, buffers: readonly number[], block: Block): void {
    const kernels = this.#kernels;
    const { index, length: n, columns } = block;
    const [a = 0, b = 0] = buffers;
    switch (operation.op) {
      case "subtract":
        kernels.subtract(a, b, n);
        break;
      case "trim":
        kernels.trimBy(a, a, n, operation.low, operation.high);
        break;
      case "trim-by":
        kernels.trimBy(a, b, n, operation.low, Number.POSITIVE_INFINITY);
        break;
      case "drop": {
        const bound = boundOf(operation.density);
        if (bound >= ALL) kernels.scale("F32", a, a, n, operation.scale);
        else kernels.drop(a, n, index, operation.seed, bound, operation.scale);
        break;
      }
      case "drop-by-magnitude": {
        const { seed, density, epsilon } = operation;
        for (let at = 0; at < n; at += columns) {
          kernels.dropByMagnitude(a + at * 4, columns, index + at, seed, density, epsilon, this.#scratch);
        }
        break;
      }
      case "consensus": {
        this.#fillTable(buffers);
        kernels.floats(this.#weights, buffers.length).set(operation.weights);
        const { tie, weighted, normalize } = operation;
        kernels.consensus(this.#table, this.#weights, buffers.length, n, tie, weighted, normalize);
        break;
      }
      case "variance":
        this.#fillTable(buffers);
        kernels.variance(this.#table, buffers.length, n);
        break;
      case "approach":
        kernels.approach(a, b, n, operation.step);
        break;
      case "select":
        if (operation.axis === "columns") {
          eachMatrix(operation, block, (mask, from, length) => {
            this.#loadMask(mask);
            kernels.selectColumns(a + from * 4, b + from * 4, length / columns, columns, this.#scratch);
          });
        } else selectRows(kernels.floats(a, n), kernels.floats(b, n), operation.mask, block);
        break;
      case "slerp-rows":
        slerpRows(kernels.floats(a, n), kernels.floats(b, n), operation, columns);
        break;
    }
  }

  #fillTable(buffers: readonly number[]): void {
    this.#kernels.counters(this.#table, buffers.length).set(buffers);
  }

  #loadMask(mask: Uint8Array): void {
    this.#kernels.integers(this.#scratch, mask.length).set(Int32Array.from(mask, (marked) => -marked));
  }
}

/** The parts of a block that lie in one matrix each, with the columns' mask there. */
function eachMatrix(
  { mask, matrix }: { readonly mask: Uint8Array; readonly matrix: number },
  { index, length, columns }: Block,
  each: (mask: Uint8Array, from: number, length: number) => void,
): void {
  for (let from = 0; from < length; ) {
    const number = Math.floor((index + from) / matrix);
    const until = Math.min(length, (number + 1) * matrix - index);
    each(mask.subarray(number * columns, (number + 1) * columns), from, until - from);
    from = until;
  }
}

/** Applies an operation to float64 arrays; the result is in the first. */
export function operatePlainly(operation: BoundOperation, arrays: readonly Float64Array[], block: Block): void {
  const [a = new Float64Array(), b = a] = arrays;
  const { index, columns } = block;
  switch (operation.op) {
    case "subtract":
      plain.subtract(a, b);
      break;
    case "trim":
      plain.trimBy(a, a, operation.low, Math.fround(operation.high));
      break;
    case "trim-by":
      plain.trimBy(a, b, operation.low, Number.POSITIVE_INFINITY);
      break;
    case "drop": {
      const [seed0, seed1] = operation.seed;
      plain.drop(a, index, seed0, seed1, boundOf(operation.density), operation.scale);
      break;
    }
    case "drop-by-magnitude": {
      const [seed0, seed1] = operation.seed;
      for (let at = 0; at < a.length; at += columns) {
        const row = a.subarray(at, at + columns);
        plain.dropByMagnitude(row, index + at, seed0, seed1, operation.density, operation.epsilon);
      }
      break;
    }
    case "consensus": {
      const { weights, tie, weighted, normalize } = operation;
      plain.consensus(arrays, weights, tie, weighted, normalize);
      break;
    }
    case "variance":
      plain.variance(arrays);
      break;
    case "approach":
      plain.approach(a, b, operation.step);
      break;
    case "select":
      if (operation.axis === "rows") selectRows(a, b, operation.mask, block);
      else {
        eachMatrix(operation, block, (mask, from, length) => {
          const marks = Int32Array.from(mask, (marked) => -marked);
          plain.selectColumns(a.subarray(from, from + length), b.subarray(from, from + length), marks);
        });
      }
      break;
    case "slerp-rows":
      slerpRows(a, b, operation, columns);
      break;
  }
}

/** The number of 32-bit random numbers that mean "keep". */
function boundOf(density: number): number {
  return Math.round(density * ALL);
}

function selectRows(a: plain.Numbers, b: plain.Numbers, mask: Uint8Array, { index, columns }: Block): void {
  for (let at = 0; at < a.length; at += columns) {
    if (mask[(index + at) / columns] !== 1) a.set(b.subarray(at, at + columns), at);
  }
}

function slerpRows(
  a: plain.Numbers,
  b: plain.Numbers,
  { t, straight }: { readonly t: number; readonly straight: number },
  columns: number,
): void {
  for (let at = 0; at < a.length; at += columns) {
    let [dot, square0, square1] = [0, 0, 0];
    for (let i = at; i < at + columns; i++) {
      const [x, y] = [a[i] ?? 0, b[i] ?? 0];
      dot += x * y;
      square0 += x * x;
      square1 += y * y;
    }
    const [weight0, weight1] = slerpWeights(dot, square0, square1, t, straight);
    for (let i = at; i < at + columns; i++) a[i] = weight0 * (a[i] ?? 0) + weight1 * (b[i] ?? 0);
  }
}
