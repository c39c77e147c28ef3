// Computes one block of an evaluation: reads its terms, adds them up, rounds once. One evaluator per thread, with
// buffers allocated once for the largest block of the program.
import type { FloatDType } from "../core/dtype.js";
import { bytesPerElement } from "../core/dtype.js";
import { type DeltaStatistics, type KernelDType, Kernels } from "../kernels/kernels.js";
import { decode, encodeDouble } from "../kernels/reference.js";
import type { InputFiles } from "./files.js";
import {
  blockElements,
  type Evaluation,
  evaluationsOf,
  type LowRankTerm,
  type Program,
  requireFloat,
  type Term,
} from "./program.js";

interface Buffers {
  /** Elements as stored. */
  readonly raw: number;
  /** float32 sums, one per evaluation of a job. */
  readonly sums: readonly number[];
  /** One term's float32 values, where a low-rank product must be added before the weight. */
  readonly term: number;
  /** Rounded elements. */
  readonly rounded: number;
  readonly left: number;
  readonly right: number;
  readonly factor: number;
  readonly scratch: number;
}

/** Sizes, in elements, of the buffers that a program's blocks need. */
function largestBlock(program: Program): { block: number; slots: number; left: number; right: number; factor: number } {
  const largest = { block: 0, slots: 1, left: 0, right: 0, factor: 0 };
  for (const job of program.jobs) {
    const block = blockElements(job);
    largest.slots = Math.max(largest.slots, evaluationsOf(job).length);
    for (const evaluation of evaluationsOf(job)) {
      largest.block = Math.max(largest.block, Math.min(block, Math.max(evaluation.elements, evaluation.columns)));
      for (const { lowRank } of evaluation.terms) {
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

/** Bytes of buffers that one thread needs for this program. */
export function workspaceBytes(program: Program): number {
  const { block, slots, left, right, factor } = largestBlock(program);
  const widest = 8; // raw and rounded elements may be float64
  return block * (2 * widest + (slots + 1) * 4) + (left + right) * 4 + factor * 4;
}

export class Evaluator {
  readonly kernels = new Kernels();
  readonly #files: InputFiles;
  readonly #at: Buffers;
  /** The low-rank factor that `right` holds now; factors are read once per tensor and thread. */
  #loaded: LowRankTerm | undefined;

  constructor(program: Program, files: InputFiles) {
    this.#files = files;
    const { block, slots, left, right, factor } = largestBlock(program);
    const allocate = (bytes: number) => this.kernels.allocate(bytes);
    this.#at = {
      raw: allocate(block * 8),
      sums: Array.from({ length: slots }, () => allocate(block * 4)),
      term: allocate(block * 4),
      rounded: allocate(block * 8),
      left: allocate(left * 4),
      right: allocate(right * 4),
      factor: allocate(factor * 4),
      scratch: allocate(64),
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
    if (isDouble(evaluation) || dtype === "F64") return this.#roundDouble(evaluation, begin, end, dtype);
    const sum = this.sum(evaluation, begin, end, 0);
    const overflows = this.kernels.encode(dtype, sum, this.#at.rounded, n);
    return { bytes: this.kernels.bytes(this.#at.rounded, n * bytesPerElement(dtype)), overflows };
  }

  /**
   * Elements [begin, end) of several evaluations, in one dtype, each in a slot of its own. They stay as they are stored
   * where each is one stored tensor and all have the same dtype; else they are float32.
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
      const { file, offset } = term as Term;
      this.#files.read(file, offset + begin * width, this.kernels.bytes(address, (end - begin) * width));
      return address;
    });
    return { dtype, addresses };
  }

  /** Elements [begin, end) in float32; returns the address of the slot's buffer. */
  sum(evaluation: Evaluation, begin: number, end: number, slot: number): number {
    const n = end - begin;
    const sum = this.#at.sums[slot] ?? 0;
    evaluation.terms.forEach((term, index) => {
      if (term.lowRank) {
        this.#adaptedTerm(term, term.lowRank, evaluation.columns, begin, n);
        this.#accumulate("F32", this.#at.term, sum, n, term.weight, index === 0);
      } else {
        const dtype = this.#read(term, begin, n);
        this.#accumulate(dtype, this.#at.raw, sum, n, term.weight, index === 0);
      }
    });
    if (evaluation.divisor !== 1) this.kernels.divide(sum, n, evaluation.divisor);
    this.kernels.clearPadding(sum, n * 4);
    return sum;
  }

  /** Statistics of the difference of two evaluations over [begin, end). */
  delta(value: Evaluation, minus: Evaluation, begin: number, end: number): DeltaStatistics {
    const a = this.sum(value, begin, end, 0);
    const b = this.sum(minus, begin, end, 1);
    return this.kernels.deltaStatistics(a, b, end - begin, this.#at.scratch);
  }

  #accumulate(dtype: KernelDType, from: number, sum: number, n: number, weight: number, first: boolean): void {
    if (first) this.kernels.scale(dtype, from, sum, n, weight);
    else this.kernels.addScaled(dtype, from, sum, n, weight);
  }

  /** Reads a term's stored elements into the raw buffer. */
  #read(term: Term, begin: number, n: number): KernelDType {
    const dtype = requireFloat(term.dtype);
    const width = bytesPerElement(dtype);
    this.#files.read(term.file, term.offset + begin * width, this.kernels.bytes(this.#at.raw, n * width));
    this.kernels.clearPadding(this.#at.raw, n * width);
    if (dtype !== "F64") return dtype;
    // Reached by statistics only, which are float32; sums of float64 tensors take the way of #roundDouble.
    const doubles = new Float64Array(this.kernels.bytes(this.#at.raw, n * 8).slice().buffer);
    this.kernels.floats(this.#at.raw, n).set(doubles);
    this.kernels.clearPadding(this.#at.raw, n * 4);
    return "F32";
  }

  /** W + scale * (B A) of whole rows, float32, into the term buffer. */
  #adaptedTerm(term: Term, lowRank: LowRankTerm, columns: number, begin: number, n: number): void {
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
    const dtype = this.#read(term, begin, n);
    this.kernels.scale(dtype, this.#at.raw, target, n, 1);
    this.kernels.addLowRank(target, left, right, rows, columns, lowRank.rank, lowRank.scale);
    this.kernels.clearPadding(target, n * 4);
  }

  /** Rows [first, first + count) of a stored matrix, as float32, to `target`. */
  #readRows(
    stored: { file: number; offset: number; dtype: Term["dtype"] },
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
    this.kernels.scale(dtype, buffer, target, n, 1);
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
      this.kernels.scale(dtype, this.#at.factor, this.#at.term, count, 1);
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

  /** The plain way, in float64 from end to end, for tensors that are float64. */
  #roundDouble(
    evaluation: Evaluation,
    begin: number,
    end: number,
    dtype: FloatDType,
  ): { bytes: Uint8Array; overflows: number } {
    const n = end - begin;
    const sum = new Float64Array(n);
    evaluation.terms.forEach((term, index) => {
      const stored = requireFloat(term.dtype);
      const bytes = new Uint8Array(n * bytesPerElement(stored));
      this.#files.read(term.file, term.offset + begin * bytesPerElement(stored), bytes);
      const values = toDoubles(bytes, stored);
      // The first term is taken, not added to zero: -0 + 0 would lose its sign.
      for (let i = 0; i < n; i++) {
        const product = term.weight * (values[i] ?? 0);
        sum[i] = index === 0 ? product : (sum[i] ?? 0) + product;
      }
    });
    if (evaluation.divisor !== 1) for (let i = 0; i < n; i++) sum[i] = (sum[i] ?? 0) / evaluation.divisor;
    return encodeDouble(dtype, sum);
  }
}

/** The dtype of an evaluation that is one stored tensor, if kernels can take it as it lies. */
function storedDType({ terms, divisor }: Evaluation): KernelDType | undefined {
  const [term] = terms;
  if (!term || terms.length > 1 || term.lowRank || term.weight !== 1 || divisor !== 1 || term.dtype === "F64") {
    return undefined;
  }
  return requireFloat(term.dtype) as KernelDType;
}

function isDouble(evaluation: Evaluation): boolean {
  return evaluation.terms.some((term) => term.dtype === "F64");
}

function toDoubles(bytes: Uint8Array, dtype: FloatDType): Float64Array {
  if (dtype === "F64") return new Float64Array(bytes.buffer);
  const patterns = dtype === "F32" ? new Uint32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
  return Float64Array.from(patterns, (pattern) => decode(dtype, pattern));
}
