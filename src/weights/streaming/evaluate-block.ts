// Computes blocks of evaluations: reads terms, sums them, rounds once. Each thread has one evaluator, with buffers for
// the program's largest block.
import { bytesPerElement, type FloatDType, isDType } from "../../core/index.js";
import type { Encoding } from "../kernels/encodings.js";
import { type KernelDType, Kernels } from "../kernels/kernels.js";
import type { Inputs } from "./files.js";
import { lowRankBytes } from "./low-rank.js";
import {
  BLOCK_ELEMENTS,
  type BoundOperation,
  blockElements,
  bytesPerValue,
  type Combination,
  type Evaluation,
  evaluationsOf,
  isStored,
  type LowRankJob,
  type LowRankTerm,
  operationsOf,
  type Program,
  pursuitOf,
  requireFloat,
  type StoredTerm,
  storedTerms,
} from "./program.js";
import { PURSUED, pursue, pursuitBytes } from "./pursuit.js";
import { type Block, declarationOf, type Workspace } from "./value-operation.js";
import { mergeMatrix } from "./whole-matrix.js";

interface Buffers {
  /** Elements as stored, or as float32 where they are stored in blocks. */
  readonly raw: number;
  /** Blocks as stored. */
  readonly blocks: number;
  /** float32 sums, one per evaluation of a job. */
  readonly sums: readonly number[];
  /** One term's float32 values, where a low-rank product must be added before the weight. */
  readonly term: number;
  /** Values that occur more than once in an evaluation. */
  readonly shared: readonly number[];
  /** Values of operations, a stack. */
  readonly pool: readonly number[];
  /** Rounded elements. */
  readonly rounded: number;
  readonly left: number;
  readonly right: number;
  readonly factor: number;
  readonly scratch: number;
}

interface Sizes {
  /** All in elements. */
  readonly block: number;
  /** The same of evaluations with values that are stored in blocks. */
  readonly encoded: number;
  readonly left: number;
  readonly right: number;
  readonly factor: number;
  /** Numbers of buffers. */
  readonly slots: number;
  readonly shared: number;
  readonly pool: number;
  /** Values of one operation at most. */
  readonly inputs: number;
  /** Bytes that one operation needs beside its values. */
  readonly operation: number;
  /** Bytes that the merge of a whole matrix needs. */
  readonly whole: number;
}

/** Bytes of an element in Q8_0, the widest blocks, rounded up. */
const WIDEST_BLOCKS = 2;

function largestBlock(program: Program): Sizes {
  const largest = {
    block: 0,
    encoded: 0,
    slots: 1,
    left: 0,
    right: 0,
    factor: 0,
    shared: 0,
    pool: 0,
    inputs: 0,
    operation: 0,
    whole: 0,
  };
  for (const job of program.jobs) {
    const block = blockElements(job);
    // One more than there are values: sums of one value are differences from a slot of zeros.
    largest.slots = Math.max(largest.slots, evaluationsOf(job).length + 1);
    for (const evaluation of evaluationsOf(job)) {
      const length = Math.min(block, Math.max(evaluation.elements, evaluation.columns));
      largest.block = Math.max(largest.block, length);
      largest.pool = Math.max(largest.pool, poolNeeded(evaluation, 0));
      for (const operation of operationsOf(evaluation)) {
        const scratch = declarationOf(operation).scratch?.(evaluation.columns) ?? 0;
        largest.inputs = Math.max(largest.inputs, operation.of.length);
        largest.operation = Math.max(largest.operation, scratch);
        if (operation.op === "whole-matrix") largest.whole = Math.max(largest.whole, wholeBytes(operation, evaluation));
      }
      for (const { dtype, lowRank, shared = -1 } of storedTerms(evaluation)) {
        if (!isDType(dtype)) largest.encoded = Math.max(largest.encoded, length);
        largest.shared = Math.max(largest.shared, shared + 1);
        if (!lowRank) continue;
        const rows = Math.ceil(block / evaluation.columns);
        largest.left = Math.max(largest.left, rows * lowRank.rank);
        largest.right = Math.max(largest.right, lowRank.rank * evaluation.columns);
      }
    }
  }
  largest.factor = Math.max(largest.left, largest.right);
  return largest;
}

/** Maximum pool buffers in use while a combination is computed, with `depth` already in use. */
function poolNeeded({ terms }: Combination, depth: number): number {
  const needs = terms.map((term, index) => {
    if (isStored(term)) return depth;
    const own = term.operation.op === "whole-matrix" ? 1 : Math.max(0, term.operation.of.length - 1);
    const inner = depth + (sharesBuffer(index, term.weight) ? 0 : 1) + own;
    return Math.max(inner, ...term.operation.of.map((input) => poolNeeded(input, inner)));
  });
  return Math.max(depth, ...needs);
}

/** Whether an operation can write into its sum's buffer: it is the first term and has weight 1. */
function sharesBuffer(index: number, weight: number): boolean {
  return index === 0 && weight === 1;
}

/** Bytes of buffers that one thread needs for this program. */
export function workspaceBytes(program: Program): number {
  const { block, encoded, slots, left, right, factor, shared, pool, operation, whole } = largestBlock(program);
  const widest = 8; // raw and rounded elements may be float64
  const buffers =
    block * (2 * widest + (slots + shared + pool + 1) * 4) +
    encoded * WIDEST_BLOCKS +
    (left + right) * 4 +
    factor * 4 +
    operation +
    whole;
  const approximations = program.jobs.map((job) => (job.kind === "low-rank" ? approximationBytes(job) : 0));
  const pursuits = program.jobs.flatMap((job) => pursuitOf(job) ?? []).map(pursuitBytes);
  return buffers + [...approximations, ...pursuits].reduce((most, bytes) => Math.max(most, bytes), 0);
}

function wholeBytes({ matrix, of }: BoundOperation & { op: "whole-matrix" }, { columns }: Evaluation): number {
  const rows = matrix / columns;
  return 4 * matrix * (of.length + 2) + 2 * lowRankBytes({ rows, columns }, Math.min(rows, columns));
}

function approximationBytes({ value: { elements, columns }, rank }: LowRankJob): number {
  return lowRankBytes({ rows: elements / columns, columns }, rank);
}

export class Evaluator {
  readonly kernels = new Kernels();
  readonly #files: Inputs;
  readonly #onStep: () => void;
  readonly #at: Buffers;
  readonly #workspace: Workspace;
  /** The low-rank factor that `right` holds now; factors are read once per tensor and thread. */
  #loaded: LowRankTerm | undefined;
  /** The last matrix that an operation on whole matrices made. */
  #whole: { readonly operation: BoundOperation; readonly number: number; readonly result: Float32Array } | undefined;
  /** Current content of each shared buffer. */
  readonly #held: string[] = [];

  /** @param onStep called now and then in long computations, to stop by throwing */
  constructor(program: Program, files: Inputs, onStep: () => void = () => undefined) {
    this.#onStep = onStep;
    this.#files = files;
    const { block, encoded, slots, left, right, factor, shared, pool, inputs, operation } = largestBlock(program);
    const allocate = (bytes: number) => this.kernels.allocate(bytes);
    const blocks = (count: number) => Array.from({ length: count }, () => allocate(block * 4));
    this.#at = {
      raw: allocate(block * 8),
      blocks: allocate(encoded * WIDEST_BLOCKS),
      sums: blocks(slots),
      term: allocate(block * 4),
      shared: blocks(shared),
      pool: blocks(pool),
      rounded: allocate(block * 8),
      left: allocate(left * 4),
      right: allocate(right * 4),
      factor: allocate(factor * 4),
      scratch: allocate(64),
    };
    this.#workspace = {
      kernels: this.kernels,
      table: allocate(inputs * 4),
      weights: allocate(inputs * 4),
      scratch: allocate(operation),
    };
  }

  /**
   * Elements [begin, end) of an evaluation, rounded to `dtype`.
   * @returns their bytes, valid until the next call, and how many finite values became infinite
   */
  round(
    evaluation: Evaluation,
    begin: number,
    end: number,
    dtype: FloatDType,
  ): { bytes: Uint8Array; overflows: number } {
    const n = end - begin;
    const { rounded } = this.#at;
    const sum = this.sum(evaluation, begin, end, 0);
    let overflows = 0;
    // Writing the literal leaves no NaN with a payload.
    if (dtype === "F64") {
      this.kernels.doubles(rounded, n).set(this.kernels.floats(sum, n).map((x) => (Number.isNaN(x) ? Number.NaN : x)));
    } else overflows = this.kernels.encode(dtype, sum, rounded, n);
    return { bytes: this.kernels.bytes(rounded, n * bytesPerElement(dtype)), overflows };
  }

  /**
   * Elements [begin, end) of an evaluation plus a number, encoded.
   * @returns their bytes, valid until the next call, and how many values or scales are not finite
   */
  encode(evaluation: Evaluation, begin: number, end: number, encoding: Encoding, plus = 0) {
    const { rounded } = this.#at;
    const sum = this.sum(evaluation, begin, end, 0);
    if (plus !== 0) {
      const values = this.kernels.floats(sum, end - begin);
      values.forEach((value, i) => {
        values[i] = value + plus;
      });
    }
    const { bytes, broken } = this.kernels.quantize(encoding, sum, rounded, end - begin);
    return { bytes: this.kernels.bytes(rounded, bytes), broken };
  }

  /**
   * Elements [begin, end) of several evaluations, in one dtype, each in its own slot. If each is one stored tensor and
   * all have the same dtype, they keep it; else they are float32.
   */
  load(evaluations: readonly Evaluation[], begin: number, end: number): { dtype: KernelDType; addresses: number[] } {
    const stored = evaluations.map(storedDType);
    const [dtype] = stored;
    if (dtype === undefined || stored.some((other) => other !== dtype)) {
      return { dtype: "F32", addresses: evaluations.map((evaluation, slot) => this.sum(evaluation, begin, end, slot)) };
    }
    const width = bytesPerElement(dtype);
    const addresses = evaluations.map(({ terms: [term] }, slot) => {
      const address = this.#at.sums[slot] ?? 0;
      const { file, offset } = term as StoredTerm;
      this.#files.read(file, offset + begin * width, this.kernels.bytes(address, (end - begin) * width));
      return address;
    });
    return { dtype, addresses };
  }

  /** Elements [begin, end) in float32; returns the address of the slot's buffer. */
  sum(evaluation: Evaluation, begin: number, end: number, slot: number): number {
    const sum = this.#at.sums[slot] ?? 0;
    this.#combine(evaluation, blockOf(evaluation, begin, end), sum, 0);
    this.kernels.clearPadding(sum, (end - begin) * 4);
    return sum;
  }

  zeros(n: number, slot: number): number {
    const address = this.#at.sums[slot] ?? 0;
    this.kernels.floats(address, n).fill(0);
    this.kernels.clearPadding(address, n * 4);
    return address;
  }

  /** Statistics of the difference of two evaluations, or of one alone, over [begin, end). */
  delta(value: Evaluation, minus: Evaluation | undefined, begin: number, end: number): Float64Array {
    const a = this.sum(value, begin, end, 0);
    const b = minus ? this.sum(minus, begin, end, 1) : this.zeros(end - begin, 1);
    return this.kernels.deltaStatistics(a, b, end - begin, this.#at.scratch);
  }

  /** sum(weight * term) / divisor into `target`; `depth` buffers of the pool are in use. */
  #combine({ terms, divisor }: Combination, block: Block, target: number, depth: number): void {
    const n = block.length;
    terms.forEach((term, index) => {
      if (isStored(term)) {
        this.#addStored(term, block, target, index === 0);
      } else if (sharesBuffer(index, term.weight)) {
        this.#operate(term.operation, block, target, depth);
      } else {
        const result = this.#at.pool[depth] ?? 0;
        this.#operate(term.operation, block, result, depth + 1);
        this.#accumulate("F32", result, target, n, term.weight, index === 0);
      }
    });
    if (divisor !== 1) this.kernels.wasm.divide(target, n, divisor);
  }

  #addStored(term: StoredTerm, block: Block, target: number, first: boolean): void {
    const { begin, length: n } = block;
    const { lowRank, shared } = term;
    if (shared !== undefined) {
      const address = this.#at.shared[shared] ?? 0;
      const holds = `${term.file} ${term.offset} ${lowRank?.a.file} ${lowRank?.a.offset} ${begin} ${n}`;
      if (this.#held[shared] !== holds) {
        this.#addStored(unshared(term), block, address, true);
        this.#held[shared] = holds;
      }
      this.#accumulate("F32", address, target, n, term.weight, first);
    } else if (lowRank) {
      this.#adaptedTerm(term, lowRank, block);
      this.#accumulate("F32", this.#at.term, target, n, term.weight, first);
    } else {
      const dtype = this.#read(term, block);
      this.#accumulate(dtype, this.#at.raw, target, n, term.weight, first);
    }
  }

  /** The part of an operation on whole matrices that is in a block: each matrix is computed once. */
  #operateWhole(operation: BoundOperation & { op: "whole-matrix" }, block: Block, target: number, depth: number): void {
    const { matrix } = operation;
    const { columns } = block;
    const scratch = this.#at.pool[depth] ?? 0;
    for (let at = 0; at < block.length; ) {
      const number = Math.floor((block.begin + at) / matrix);
      const first = number * matrix;
      if (this.#whole?.operation !== operation || this.#whole.number !== number) {
        const step = Math.max(1, Math.floor(BLOCK_ELEMENTS / columns)) * columns;
        const values = operation.of.map((input) => {
          const all = new Float32Array(matrix);
          for (let from = 0; from < matrix; from += step) {
            const length = Math.min(step, matrix - from);
            const index = block.index - block.begin + first + from;
            this.#combine(input, { begin: first + from, index, length, columns }, scratch, depth + 1);
            all.set(this.kernels.floats(scratch, length), from);
          }
          return all;
        });
        const result = mergeMatrix(this.kernels, operation.rule, values, columns, operation.number);
        this.#whole = { operation, number, result };
      }
      const length = Math.min(block.length - at, first + matrix - block.begin - at);
      const from = block.begin + at - first;
      this.kernels.floats(target + 4 * at, length).set(this.#whole.result.subarray(from, from + length));
      at += length;
    }
  }

  /** The result of an operation into `target`. */
  #operate(operation: BoundOperation, block: Block, target: number, depth: number): void {
    if (operation.op === "whole-matrix") {
      this.#operateWhole(operation, block, target, depth);
      return;
    }
    const others = operation.of.length - 1;
    const buffers = [target, ...this.#at.pool.slice(depth, depth + others)];
    operation.of.forEach((input, i) => {
      this.#combine(input, block, buffers[i] ?? 0, depth + Math.max(0, others));
    });
    declarationOf(operation).apply(buffers, operation as never, block, this.#workspace);
  }

  #accumulate(dtype: KernelDType, from: number, sum: number, n: number, weight: number, first: boolean): void {
    if (first) this.kernels.wasm[`scale${dtype}`](from, sum, n, weight);
    else this.kernels.wasm[`addScaled${dtype}`](from, sum, n, weight);
  }

  /** Reads a term's stored elements into the raw buffer. */
  #read(term: StoredTerm, { begin, length: n, columns }: Block): KernelDType {
    const { dtype: stored, plus = 0 } = term;
    const width = bytesPerValue(stored);
    const at = isDType(stored) ? this.#at.raw : this.#at.blocks;
    this.#readStored(term, begin, columns, width, this.kernels.bytes(at, n * width));
    this.#addPursued(term, begin / columns, n / columns, columns, at);
    this.kernels.clearPadding(at, n * width);
    if (!isDType(stored)) this.kernels.dequantize(stored, at, this.#at.raw, n);
    const dtype = isDType(stored) ? requireFloat(stored) : "F32";
    if (plus !== 0) return this.#shifted(dtype, n, plus);
    if (dtype !== "F64") return dtype;
    // All arithmetic is float32; tensors stored as float64 are too rare for their own kernels.
    const doubles = new Float64Array(this.kernels.bytes(this.#at.raw, n * 8).slice().buffer);
    this.kernels.floats(this.#at.raw, n).set(doubles);
    this.kernels.clearPadding(this.#at.raw, n * 4);
    return "F32";
  }

  /** Adds a number to the float32 values of the raw buffer: few have one, the norms of some families. */
  #shifted(dtype: FloatDType, n: number, plus: number): "F32" {
    if (dtype !== "F32") throw new TypeError(`${dtype} values cannot be shifted`);
    const values = this.kernels.floats(this.#at.raw, n);
    for (let i = 0; i < n; i++) values[i] = (values[i] as number) + plus;
    return "F32";
  }

  /** Fills `into` with stored elements from `begin` on; gathered rows in contiguous runs. */
  #readStored(term: StoredTerm, begin: number, columns: number, width: number, into: Uint8Array): void {
    const { gathered } = term;
    if (!gathered) {
      this.#files.read(term.file, term.offset + begin * width, into);
      return;
    }
    const bytesPerRow = columns * width;
    const first = begin / columns;
    const rows = into.byteLength / bytesPerRow;
    const { part, row } = gathered;
    for (let at = 0; at < rows; ) {
      const [from = 0, start = 0] = [part[first + at], row[first + at]];
      let length = 1;
      while (at + length < rows && part[first + at + length] === from && row[first + at + length] === start + length) {
        length++;
      }
      const stored = gathered.parts[from];
      const target = into.subarray(at * bytesPerRow, (at + length) * bytesPerRow);
      if (stored) this.#files.read(stored.file, stored.offset + start * bytesPerRow, target);
      else target.fill(0);
      at += length;
    }
  }

  /** Fills in the rows that are approximated, in the dtype of the others. */
  #addPursued({ gathered, dtype }: StoredTerm, first: number, count: number, columns: number, into: number): void {
    const { pursuit, part, row, parts: [own] = [] } = gathered ?? {};
    if (!pursuit || !own || !part || !row) return;
    const rows = Array.from({ length: count }, (_, i) => i).filter((i) => part[first + i] === PURSUED);
    if (rows.length === 0) return;
    const table = { ...own, dtype: dtype as KernelDType, columns };
    const targets = rows.map((i) => row[first + i] as number);
    const { read } = this.#files.traffic;
    const values = pursue(this.kernels, this.#files, pursuit, table, targets, this.#onStep);
    this.#files.traffic.read = read; // the atoms are read again and again: progress counts rows
    this.kernels.borrow(() => {
      const [from, to] = [this.kernels.allocate(4 * columns), this.kernels.allocate(4 * columns)];
      const bytes = columns * bytesPerElement(table.dtype);
      for (const [i, at] of rows.entries()) {
        this.kernels.floats(from, columns).set(values.subarray(i * columns, (i + 1) * columns));
        this.kernels.encode(table.dtype, from, to, columns);
        this.kernels.bytes(into + at * bytes, bytes).set(this.kernels.bytes(to, bytes));
      }
    });
  }

  /** W + scale * (B A) of whole rows, float32, into the term buffer. */
  #adaptedTerm(term: StoredTerm, lowRank: LowRankTerm, block: Block): void {
    const { begin, length: n, columns } = block;
    const { left, right, term: target } = this.#at;
    const [firstRow, rows] = [begin / columns, n / columns];
    if (this.#loaded !== lowRank) {
      // The factor that every row needs: A, or B transposed.
      if (lowRank.transposed) this.#readTransposed(lowRank.b, lowRank.output, lowRank.rank, right);
      else this.#readRows(lowRank.a, lowRank.input, 0, lowRank.rank, right);
      this.#loaded = lowRank;
    }
    // The rows' own factor: rows of B, or columns of A.
    if (lowRank.transposed) this.#readColumns(lowRank.a, lowRank.input, lowRank.rank, firstRow, rows, left);
    else this.#readRows(lowRank.b, lowRank.rank, firstRow, rows, left);
    const dtype = this.#read(term, block);
    this.kernels.wasm[`scale${dtype}`](this.#at.raw, target, n, 1);
    this.kernels.wasm.addLowRank(target, left, right, rows, columns, lowRank.rank, lowRank.scale);
    this.kernels.clearPadding(target, n * 4);
  }

  /** Rows [first, first + count) of a stored matrix, as float32, to `target`. */
  #readRows(
    stored: { file: number; offset: number; dtype: StoredTerm["dtype"] },
    width: number,
    first: number,
    count: number,
    target: number,
  ): void {
    const dtype = requireFloat(stored.dtype) as KernelDType;
    const element = bytesPerElement(dtype);
    const n = width * count;
    const buffer = this.#at.factor;
    this.#files.read(stored.file, stored.offset + first * width * element, this.kernels.bytes(buffer, n * element));
    this.kernels.clearPadding(buffer, n * element);
    this.kernels.wasm[`scale${dtype}`](buffer, target, n, 1);
  }

  /** Columns [first, first + count) of a stored [height, width] matrix, as rows: [count, height] float32. */
  #readColumns(
    stored: LowRankTerm["a"],
    width: number,
    height: number,
    first: number,
    count: number,
    target: number,
  ): void {
    const dtype = requireFloat(stored.dtype) as KernelDType;
    const element = bytesPerElement(dtype);
    const column = new Float32Array(count);
    for (let row = 0; row < height; row++) {
      const at = stored.offset + (row * width + first) * element;
      this.#files.read(stored.file, at, this.kernels.bytes(this.#at.factor, count * element));
      this.kernels.clearPadding(this.#at.factor, count * element);
      this.kernels.wasm[`scale${dtype}`](this.#at.factor, this.#at.term, count, 1);
      column.set(this.kernels.floats(this.#at.term, count));
      const out = this.kernels.floats(target, count * height);
      for (let i = 0; i < count; i++) out[i * height + row] = column[i] ?? 0;
    }
  }

  /** All of a stored [height, width] matrix, transposed: [width, height] float32. */
  #readTransposed(stored: LowRankTerm["b"], height: number, width: number, target: number): void {
    this.#readRows(stored, width, 0, height, target);
    const rows = this.kernels.floats(target, height * width).slice();
    const out = this.kernels.floats(target, height * width);
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) out[column * height + row] = rows[row * width + column] ?? 0;
    }
  }
}

function blockOf({ columns, first = 0 }: Evaluation, begin: number, end: number): Block {
  return { begin, index: first + begin, length: end - begin, columns };
}

function unshared({ shared: _, ...term }: StoredTerm): StoredTerm {
  return { ...term, weight: 1 };
}

/** The dtype of an evaluation that is one stored tensor, if kernels can read it as stored. */
function storedDType({ terms, divisor }: Evaluation): KernelDType | undefined {
  const [term] = terms;
  if (
    !term ||
    !isStored(term) ||
    terms.length > 1 ||
    term.lowRank ||
    term.gathered ||
    term.plus ||
    term.weight !== 1 ||
    divisor !== 1 ||
    !isDType(term.dtype) ||
    term.dtype === "F64"
  ) {
    return undefined;
  }
  return requireFloat(term.dtype) as KernelDType;
}
