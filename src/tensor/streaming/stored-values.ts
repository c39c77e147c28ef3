// Reads the stored terms of a block: each range once, whatever the number of its uses; adapters are added to whole rows.

import type { KernelDType, Kernels, StoredBlocks, StoredType } from "../../kernels/index.js";
import { bytesPerValue, turnValues } from "../../kernels/index.js";
import { bytesPerElement, isDType } from "../../kit/index.js";
import { type Buffers, bytesOfBuffers, reserveBuffers } from "./buffers.js";
import { type Coded, CodedRows, type CodedSizes, codedBytes } from "./coded-rows.js";
import type { Inputs } from "./files.js";
import {
  type LowRankTerm,
  plainTerms,
  productsOf,
  rangeOf,
  requireFloat,
  type Stored,
  type StoredTerm,
} from "./program.js";
import { PURSUED, pursue, readFloats } from "./pursuit.js";
import type { Block } from "./value-operation.js";

/** Sizes of buffers: `window` in bytes, the others in elements. */
export interface StoredSizes {
  /** Elements that are converted at once. */
  readonly step: number;
  /** Stored elements of a block, one buffer per range. */
  readonly window: number;
  readonly windows: number;
  readonly left: number;
  readonly right: number;
  /** Of each range of codes. */
  readonly coded: CodedSizes;
}

const buffersOf = ({ step, window, windows, left, right }: StoredSizes) => ({
  converted: step * 4,
  column: Math.max(step, left) * 4,
  left: left * 4,
  right: right * 4,
  factor: Math.max(left, right) * 4,
  windows: [windows, window] as const,
});

/** Bytes of all buffers. */
export function storedBytes(sizes: StoredSizes): number {
  return bytesOfBuffers(buffersOf(sizes)) + sizes.windows * codedBytes(sizes.coded);
}

export class StoredValues {
  readonly #kernels: Kernels;
  readonly #files: Inputs;
  readonly #onStep: () => void;
  readonly #at: Buffers<ReturnType<typeof buffersOf>>;
  /** Index of the window of each range, and the terms whose ranges have been read for the block. */
  readonly #windowOf = new Map<string, number>();
  readonly #indexOf = new Map<StoredTerm, number>();
  readonly #coded: readonly CodedRows[];
  readonly #read: boolean[] = [];
  #plain: ReadonlyMap<string, StoredTerm> = new Map();
  #block: Block = { begin: 0, index: 0, length: 0, columns: 1 };
  /** The low-rank factor that `right` holds now; factors are read once per matrix and thread. */
  #loaded: { readonly lowRank: LowRankTerm; readonly matrix: number } | undefined;
  readonly #columnLength: number;

  constructor(kernels: Kernels, files: Inputs, sizes: StoredSizes, onStep: () => void) {
    const { step, windows, left, coded } = sizes;
    this.#onStep = onStep;
    this.#kernels = kernels;
    this.#files = files;
    this.#columnLength = Math.max(step, left);
    this.#at = reserveBuffers(kernels, buffersOf(sizes));
    const count = coded.codes === 0 ? 0 : windows;
    this.#coded = Array.from({ length: count }, () => new CodedRows(kernels, files, coded));
  }

  /** Forgets the windows of other evaluations. @param terms those of the next ones */
  clear(terms: readonly StoredTerm[]): void {
    this.#plain = plainTerms(terms);
    this.#windowOf.clear();
    this.#indexOf.clear();
    for (const rows of this.#coded) rows.clear();
  }

  /** Starts a block, whose steps `locate` asks for. */
  open(block: Block): void {
    this.#block = block;
    this.#read.fill(false);
  }

  /** Element type of the values at `locate`. */
  dtypeOf({ dtype, undo }: StoredTerm): KernelDType {
    if (undo || !isDType(dtype)) return "F32"; // of blocks and codes
    const stored = requireFloat(dtype);
    return stored === "F64" ? "F32" : stored;
  }

  /** Address of a term's elements in a part of the open block. Values that are converted are valid until the next call. */
  locate(term: StoredTerm, part: Block): number {
    const { dtype, undo } = term;
    const { converted } = this.#at;
    const n = part.length;
    if (isCoded(term)) {
      const { columns } = part;
      const [first, soon] = [part.begin / columns, (this.#block.begin + this.#block.length) / columns];
      this.#coded[this.#indexFor(term)]?.decode(term, first, n / columns, soon, converted);
      this.#kernels.clearPadding(converted, n * 4);
      return converted;
    }
    const width = bytesPerValue(dtype);
    const at = this.#window(term, width) + (part.begin - this.#block.begin) * width;
    if (!isDType(dtype)) this.#kernels.dequantize(dtype as StoredBlocks, at, converted, n);
    else if (dtype === "F64") {
      // All arithmetic is float32; tensors stored as float64 are too rare for their own kernels.
      const doubles = new Float64Array(this.#kernels.bytes(at, n * 8).slice().buffer);
      this.#kernels.floats(converted, n).set(doubles);
    } else if (!undo) return at;
    else this.#kernels.wasm[`scale${requireFloat(dtype) as KernelDType}`](at, converted, n, 1);
    if (undo) undoWriting(this.#kernels.floats(converted, n), undo);
    return converted;
  }

  /** Number of a term's range. */
  #indexFor(term: StoredTerm): number {
    const known = this.#indexOf.get(term);
    if (known !== undefined) return known;
    const range = rangeOf(term);
    const index = this.#windowOf.get(range) ?? this.#windowOf.size;
    this.#windowOf.set(range, index);
    this.#indexOf.set(term, index);
    return index;
  }

  /** Address of a term's stored elements of the whole block, which are read once. */
  #window(term: StoredTerm, width: number): number {
    const index = this.#indexFor(term);
    const at = this.#at.windows[index] as number;
    if (!this.#read[index]) {
      const { begin, length, columns } = this.#block;
      this.#readStored(term, begin, columns, width, at, length * width);
      this.#addPursued(term, begin / columns, length / columns, columns, at);
      this.#kernels.clearPadding(at, length * width);
      this.#read[index] = true;
    }
    return at;
  }

  /** Fills bytes from `into` on with stored elements from `begin` on; gathered rows in contiguous runs. */
  #readStored(
    term: StoredTerm,
    begin: number,
    ...[columns, width, into, bytes]: readonly [columns: number, width: number, into: number, bytes: number]
  ): void {
    const { gathered } = term;
    if (!gathered) {
      this.#files.read(term.file, term.offset + begin * width, this.#kernels.bytes(into, bytes));
      return;
    }
    const bytesPerRow = columns * width;
    const first = begin / columns;
    const rows = bytes / bytesPerRow;
    const { part, row } = gathered;
    for (let at = 0; at < rows; ) {
      const [from = 0, start = 0] = [part[first + at], row[first + at]];
      let length = 1;
      while (at + length < rows && part[first + at + length] === from && row[first + at + length] === start + length) {
        length++;
      }
      const stored = gathered.parts[from];
      const place = into + at * bytesPerRow;
      if (stored?.type) {
        this.#readAs(stored.type, stored, start * columns, place, length * columns);
        at += length;
        continue;
      }
      const target = this.#kernels.bytes(place, length * bytesPerRow);
      const twin =
        stored && start === first + at && this.#plain.get(rangeOf({ ...stored, dtype: term.dtype, weight: 1 }));
      // The same rows of the base, for one.
      if (twin) target.set(this.#kernels.bytes(this.#window(twin, width) + at * bytesPerRow, target.byteLength));
      else if (stored) this.#files.read(stored.file, stored.offset + start * bytesPerRow, target);
      else target.fill(0);
      at += length;
    }
  }

  /** Stored elements of another type from `begin` on, as float32 at `into`. */
  #readAs(type: StoredType, { file, offset }: Omit<Stored, "dtype">, begin: number, into: number, count: number): void {
    const width = bytesPerValue(type);
    this.#kernels.borrow(() => {
      const raw = this.#kernels.allocate(count * width);
      const { read } = this.#files.traffic;
      this.#files.read(file, offset + begin * width, this.#kernels.bytes(raw, count * width));
      this.#files.traffic.read = read + count * 4; // progress counts what is expected of float32
      if (isDType(type)) this.#kernels.wasm[`scale${requireFloat(type) as KernelDType}`](raw, into, count, 1);
      else this.#kernels.dequantize(type as StoredBlocks, raw, into, count);
    });
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
    const values = pursue(this.#kernels, this.#files, pursuit, table, targets, this.#onStep);
    this.#files.traffic.read = read; // the atoms are read again and again: progress counts rows
    this.#kernels.borrow(() => {
      const [from, to] = [this.#kernels.allocate(4 * columns), this.#kernels.allocate(4 * columns)];
      const bytes = columns * bytesPerElement(table.dtype);
      for (const [i, at] of rows.entries()) {
        this.#kernels.floats(from, columns).set(values.subarray(i * columns, (i + 1) * columns));
        this.#kernels.encode(table.dtype, from, to, columns);
        this.#kernels.bytes(into + at * bytes, bytes).set(this.#kernels.bytes(to, bytes));
      }
    });
  }

  /** W + scale * (B A) of whole rows, float32, into `target`. */
  adapt(term: StoredTerm, lowRank: LowRankTerm, block: Block, target: number): void {
    const { begin, length: n, columns } = block;
    const [firstRow, end] = [begin / columns, (begin + n) / columns];
    this.#kernels.wasm[`scale${this.dtypeOf(term)}`](this.locate(term, block), target, n, 1);
    for (const product of productsOf(lowRank)) {
      const { from, count } = product.rows ?? { from: 0, count: end };
      const height = product.transposed ? product.input : product.output;
      const last = Math.min(end, from + count);
      for (let row = Math.max(firstRow, from); row < last; ) {
        const matrix = Math.floor((row - from) / height);
        const begin = from + matrix * height;
        const rows = Math.min(last, begin + height) - row;
        this.#adaptRows(product, matrix, row - begin, rows, columns, target + 4 * (row - firstRow) * columns);
        row += rows;
      }
    }
    const { rounded } = lowRank;
    if (rounded) {
      this.#kernels.borrow(() => {
        const narrow = this.#kernels.allocate(2 * n);
        this.#kernels.encode(rounded, target, narrow, n);
        this.#kernels.wasm[`scale${rounded}`](narrow, target, n, 1);
      });
    }
    this.#kernels.clearPadding(target, n * 4);
  }

  /** Adds the product of one matrix to some of its rows, and scales them to their lengths. */
  #adaptRows(lowRank: LowRankTerm, matrix: number, first: number, rows: number, columns: number, target: number): void {
    const { a, input, rank, transposed, lengths } = lowRank;
    const { left, right } = this.#at;
    const above = matrix * rank; // rows of A of the matrices before
    if (this.#loaded?.lowRank !== lowRank || this.#loaded.matrix !== matrix) {
      // The factor that every row needs: A, or B transposed.
      if (transposed) this.#readSecond(lowRank, matrix, 0, lowRank.output, right);
      else this.#readFloats(a, [above * input, rank * input], right);
      this.#loaded = { lowRank, matrix };
    }
    // The rows' own factor: rows of B, or columns of A.
    if (transposed) this.#readColumns(a, input, above, rank, first, rows, left);
    else this.#readSecond(lowRank, matrix, first, rows, left);
    this.#kernels.wasm.addLowRank(target, left, right, rows, columns, rank, lowRank.scale);
    if (!lengths) return;
    this.#readFloats(lengths, [first, rows], left);
    this.#kernels.wasm.setLengths(target, left, rows, columns);
  }

  /** Elements of a stored matrix, as float32, to `target`. */
  #readFloats(stored: Stored, range: readonly [first: number, count: number], target: number): void {
    const table = { ...stored, dtype: requireFloat(stored.dtype) as KernelDType };
    readFloats(this.#kernels, this.#files, table, range, this.#at.factor, target);
  }

  /** Columns [first, first + count) of some rows of a stored matrix, as rows: [count, height] float32. */
  #readColumns(
    stored: Stored,
    width: number,
    above: number,
    height: number,
    first: number,
    count: number,
    target: number,
  ): void {
    for (let row = 0; row < height; row++) {
      this.#readFloats(stored, [(above + row) * width + first, count], this.#at.column);
      const column = this.#kernels.floats(this.#at.column, count);
      const out = this.#kernels.floats(target, count * height);
      for (let i = 0; i < count; i++) out[i * height + row] = column[i] as number;
    }
  }

  /** Rows of the second factor of a matrix, [count, rank] float32; [rank, count] where the product is transposed. */
  #readSecond(lowRank: LowRankTerm, matrix: number, first: number, count: number, target: number): void {
    const { b, rank, transposed, experts = { count: 1, first: 0 } } = lowRank;
    const width = rank * experts.count;
    if (experts.count === 1 && !transposed) {
      this.#readFloats(b, [first * rank, count * rank], target);
      return;
    }
    const atOnce = Math.max(1, Math.floor(this.#columnLength / width));
    for (let from = 0; from < count; from += atOnce) {
      const n = Math.min(atOnce, count - from);
      this.#readFloats(b, [(first + from) * width, n * width], this.#at.column);
      const rows = this.#kernels.floats(this.#at.column, n * width);
      const out = this.#kernels.floats(target, count * rank);
      for (let i = 0; i < n * rank; i++) {
        const [row, k] = [Math.floor(i / rank), i % rank];
        const value = rows[(row * rank + k) * experts.count + experts.first + matrix] as number;
        out[transposed ? k * count + from + row : (from + row) * rank + k] = value;
      }
    }
  }
}

function undoWriting(values: Float32Array, { turn, log, plus = 0 }: NonNullable<StoredTerm["undo"]>): void {
  if (turn) turnValues(values, new Float32Array(values.length), turn);
  if (!log && plus === 0) return;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    values[i] = (log ? Math.log(-value) : value) + plus;
  }
}

function isCoded(term: StoredTerm): term is Coded {
  return term.coded !== undefined;
}
