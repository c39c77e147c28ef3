// Decodes rows of quantised tensors: reads codes and their scales piece by piece, see `CodedForm`.

import { CODE_BITS, type Code, codeValues, type Kernels } from "../../kernels/index.js";
import { bytesPerElement, FormatError, isDType, isFloatDType } from "../../kit/index.js";
import { type Buffers, bytesOfBuffers, reserveBuffers } from "./buffers.js";
import type { Inputs } from "./files.js";
import type { CodedTerm, Stored, StoredTerm } from "./program.js";

/** Sizes of the buffers of a term. */
export interface CodedSizes {
  /** Bytes of codes. */
  readonly codes: number;
  readonly scales: number;
  readonly columns: number;
}

export const NO_CODES: CodedSizes = { codes: 0, scales: 0, columns: 0 };

export const largerSizes = (a: CodedSizes, b: CodedSizes): CodedSizes => ({
  codes: Math.max(a.codes, b.codes),
  scales: Math.max(a.scales, b.scales),
  columns: Math.max(a.columns, b.columns),
});

export type Coded = StoredTerm & { readonly coded: CodedTerm };

const VALUES = 256;
// Codes that lie column by column are read in strips of many rows, as each column is a read of its own.
const STRIP_ELEMENTS = 2 ** 21;
/** Rows whose codes and scales fill whole bytes in every format. */
const STRIP_UNIT = 32;

/** Rows that are read at once where columns lie together. */
const stripRows = ({ rows, columns }: CodedTerm) =>
  Math.min(rows, Math.max(1, Math.floor(STRIP_ELEMENTS / columns / STRIP_UNIT)) * STRIP_UNIT);

/** @param blockRows rows of a block */
export function codedSizes({ dtype, coded }: Coded, blockRows: number): CodedSizes {
  const { rows, columns, lines, block, stride = columns } = coded;
  const count = lines === 1 ? Math.min(rows, blockRows) : stripRows(coded);
  const scales = (Math.ceil(count / block[0]) + 1) * Math.ceil(columns / block[1]);
  return { codes: Math.ceil(count * stride * (CODE_BITS[dtype as Code] / 8)), scales, columns };
}

const buffersOf = ({ codes, scales, columns }: CodedSizes) => ({
  codes,
  scales: scales * 4,
  zeros: scales * 4,
  places: columns * 4,
  scalePlaces: columns * 4,
  values: VALUES * 4,
});

export const codedBytes = (sizes: CodedSizes) => (sizes.codes === 0 ? 0 : bytesOfBuffers(buffersOf(sizes)));

/** Rows [from, to) of one matrix of a term, in memory. */
interface Strip {
  readonly matrix: number;
  readonly from: number;
  readonly to: number;
}

export class CodedRows {
  readonly #kernels: Kernels;
  readonly #files: Inputs;
  readonly #at: Buffers<ReturnType<typeof buffersOf>>;
  #strip: Strip | undefined;

  constructor(kernels: Kernels, files: Inputs, sizes: CodedSizes) {
    this.#kernels = kernels;
    this.#files = files;
    this.#at = reserveBuffers(kernels, buffersOf(sizes));
  }

  /**
   * Rows of a term as float32.
   * @param first counted through all matrices
   * @param soon row up to which the next calls ask for more
   */
  decode(term: Coded, first: number, count: number, soon: number, target: number): void {
    const { rows, columns, lines, block, order, byColumn, first: skipped = 0, stride = columns } = term.coded;
    const bits = CODE_BITS[term.dtype as Code];
    const { codes, scales, zeros, places, scalePlaces, values } = this.#at;
    for (let at = 0; at < count; at++) {
      const matrix = Math.floor((skipped + first + at) / rows);
      const row = skipped + first + at - matrix * rows;
      const { from } = this.#load(term, matrix, row, row + soon - first - at);
      const place = (order ? ((row - from) & ~7) + (order[row & 7] as number) : row - from) * (stride / lines);
      const scaleRow = Math.floor(row / block[0]) - Math.floor(from / block[0]);
      this.#kernels.wasm.decodeCodes(
        ...[bits, codes, place, places, values, scales, zeros],
        scaleRow * (byColumn ? 1 : Math.ceil(columns / block[1])),
        ...[scalePlaces, columns, target + at * columns * 4],
      );
    }
  }

  /** Forgets the rows of another range. */
  clear(): void {
    this.#strip = undefined;
  }

  /** The strip with a row. */
  #load(term: Coded, matrix: number, row: number, soon: number): Strip {
    const held = this.#strip;
    if (held && held.matrix === matrix && row >= held.from && row < held.to) return held;
    const { coded, dtype, file, offset } = term;
    const { rows, columns, lines, stride = columns } = coded;
    const most = stripRows(coded);
    const from = lines === 1 ? row : Math.floor(row / most) * most;
    const to = Math.min(rows, lines === 1 ? soon : from + most);
    const across = stride / lines;
    const bytes = across * (CODE_BITS[dtype as Code] / 8);
    const stored = { file, offset: offset + matrix * rows * lines * bytes };
    this.#readLines(stored, lines, rows * bytes, [from * bytes, to * bytes], this.#at.codes);
    if (!held) this.#kernels.floats(this.#at.values, VALUES).set(codeValues(dtype as Code));
    const places = this.#kernels.integers(this.#at.places, columns);
    for (let c = 0; c < columns; c++) {
      places[c] = Math.floor(c / across) * (to - from) * across + (c % across);
    }
    this.#strip = { matrix, from, to };
    this.#loadScales(term, this.#strip);
    return this.#strip;
  }

  #loadScales(term: Coded, { matrix, from, to }: Strip): void {
    const { rows, columns, block, byColumn, groups, second, isDivided, zeros, zero, sameZeros, isReordered } =
      term.coded;
    const [height, width] = [Math.ceil(rows / block[0]), Math.ceil(columns / block[1])];
    const first = Math.floor(from / block[0]);
    const count = Math.ceil(to / block[0]) - first;
    const scales = this.#floats(term.coded.scales, { matrix, height, width, first, count, byColumn });
    if (second) {
      const one = { matrix: 0, height: 1, width: 1, first: 0, count: 1, byColumn };
      const [factor = 1] = this.#floats(second, one);
      for (let i = 0; i < scales.length; i++) {
        const scale = scales[i] as number;
        scales[i] = isDivided ? scale / factor : scale * factor;
      }
    }
    this.#kernels.floats(this.#at.scales, scales.length).set(scales);
    const places = this.#kernels.integers(this.#at.scalePlaces, columns);
    if (groups) this.#files.read(groups.file, groups.offset, this.#kernels.bytes(this.#at.scalePlaces, columns * 4));
    const isOrdered = !groups || places.every((group) => group === 0);
    if (groups && isReordered && isOrdered && width > 1) {
      throw new FormatError("g_idx is 0 for every column, but the configuration says desc_act; one of them is wrong");
    }
    for (let c = 0; c < columns; c++) {
      const group = isOrdered ? Math.floor(c / block[1]) : (places[c] as number);
      if (group < 0 || group >= width) {
        throw new FormatError(`g_idx gives column ${c} the group ${group} of ${width}; the file is damaged`);
      }
      places[c] = group * (byColumn ? count : 1);
    }
    this.#kernels.floats(this.#at.zeros, scales.length).fill(sameZeros ? 0 : zero);
    if (zeros) this.#addZeros(zeros, term, { height, width, first, count });
    if (!sameZeros) return;
    // Memory may have grown since.
    const own = this.#kernels.floats(this.#at.zeros, scales.length);
    const wrong = own.find((one) => one !== own[0] || !sameZeros.includes(one));
    if (wrong !== undefined) {
      const wanted = `all ${sameZeros.join(" or all ")}`;
      throw new FormatError(
        `the configuration says that codes are symmetric, whose stored zeros are ${wanted}, but one is ${wrong}; correct its sym or zero_point`,
      );
    }
    own.fill(zero);
  }

  /** Stored numbers of the blocks of a strip. */
  #floats(
    stored: Stored,
    grid: { matrix: number; height: number; width: number; first: number; count: number; byColumn: boolean },
  ): Float32Array {
    const { matrix, height, width, first, count, byColumn } = grid;
    const { dtype, file } = stored;
    if (!isDType(dtype)) throw new TypeError(`scales are not stored as ${dtype}`);
    const size = bytesPerElement(dtype);
    const offset = stored.offset + matrix * height * width * size;
    const [lines, step] = byColumn ? [width, 1] : [1, width];
    const range = [first * step * size, (first + count) * step * size] as const;
    return this.#kernels.borrow(() => {
      const raw = this.#kernels.allocate(count * width * size);
      this.#readLines({ file, offset }, lines, height * step * size, range, raw);
      if (isFloatDType(dtype) && dtype !== "F64") {
        const into = this.#kernels.allocate(count * width * 4);
        this.#kernels.wasm[`scale${dtype}`](raw, into, count * width, 1);
        return this.#kernels.floats(into, count * width).slice();
      }
      const values = dtype === "F8_E4M3" ? codeValues("FP8") : POWERS;
      return Float32Array.from(this.#kernels.bytes(raw, count * width), (byte) => values[byte] as number);
    });
  }

  /** Adds zeros that are packed as the codes are: along rows, in words of 32 bits. */
  #addZeros(
    { file, offset }: Stored,
    { dtype, coded: { byColumn, order } }: Coded,
    { height, width, first, count }: { height: number; width: number; first: number; count: number },
  ): void {
    const bits = CODE_BITS[dtype as Code];
    const inWord = 32 / bits;
    // Row by row, a word has rows of one column of blocks.
    const start = byColumn ? first : Math.floor(first / inWord) * inWord;
    const rows = byColumn ? count : Math.ceil((first + count) / inWord) * inWord - start;
    const [lines, step] = byColumn ? [width, bits / 8] : [1, (width * bits) / 8];
    this.#kernels.borrow(() => {
      const raw = this.#kernels.allocate((rows * width * bits) / 8);
      this.#readLines({ file, offset }, lines, height * step, [start * step, (start + rows) * step], raw);
      const bytes = this.#kernels.bytes(raw, Math.ceil((rows * width * bits) / 8));
      const into = this.#kernels.floats(this.#at.zeros, count * width);
      const inByte = 8 / bits;
      const codeAt = (i: number) =>
        ((bytes[Math.floor(i / inByte)] as number) >> ((i % inByte) * bits)) & (2 ** bits - 1);
      for (let j = 0; j < width; j++) {
        for (let i = 0; i < count; i++) {
          const row = first - start + i;
          const place = byColumn
            ? j * count + (order ? (row & ~7) + (order[row & 7] as number) : row)
            : (Math.floor(row / inWord) * width + j) * inWord + (row % inWord);
          const at = byColumn ? j * count + i : i * width + j;
          into[at] = (into[at] as number) + codeAt(place);
        }
      }
    });
  }

  /** The same range of each of several lines, one after the other. */
  #readLines(
    { file, offset }: Pick<Stored, "file" | "offset">,
    lines: number,
    length: number,
    [begin, end]: readonly [number, number],
    into: number,
  ): void {
    const bytes = this.#kernels.bytes(into, lines * (end - begin));
    if (end - begin === length) this.#files.read(file, offset, bytes);
    else {
      for (let line = 0; line < lines; line++) {
        const target = bytes.subarray(line * (end - begin), (line + 1) * (end - begin));
        this.#files.read(file, offset + line * length + begin, target);
      }
    }
    this.#kernels.clearPadding(into, bytes.length);
  }
}

/** Scales that are only an exponent (E8M0): the last is not a number. */
const POWERS = Float32Array.from({ length: 256 }, (_, bits) => (bits === 255 ? Number.NaN : 2 ** (bits - 127)));
