// What is cached for the rows of a batch: keys and values, and states of fixed size. Used rows are always the first ones
// and are fed in place. A row is copied or removed whole, as a state cannot be cut back to fewer positions.

import type { DecoderSpec } from "../families/index.js";
import { type CachePart, cacheParts, FEEDS, feedShape } from "./model/feeds.js";
import type { TensorValue } from "./runtime/session.js";

/**
 * Width grows by an eighth, in steps of this many: attention over unused positions costs time, growing costs copies. The
 * runtime adds this many or a divisor of it at once, so the width does not change sums.
 */
const GROWTH = 64;

const PRESENT = 1n;
// A segment that neither tokens nor padding have.
const ABSENT = -1n;

export class KeyValueCache {
  readonly parts: readonly CachePart[];
  /** By part. */
  readonly #data: Float32Array[];
  /** Filled positions of each row. */
  readonly #lengths: number[] = [];
  readonly #capacity: number;
  #width = 0;

  /**
   * @param rows most rows
   * @param width positions to reserve
   */
  constructor(spec: DecoderSpec, rows: number, width = 0) {
    this.parts = cacheParts(spec);
    this.#capacity = rows;
    this.#data = this.parts.map((part) => new Float32Array(part.kind === "positions" ? 0 : rows * this.#rowSize(part)));
    this.#widen(Math.ceil(Math.max(1, width) / GROWTH) * GROWTH);
  }

  get rows(): number {
    return this.#lengths.length;
  }

  length(row: number): number {
    return this.#lengths[row] ?? 0;
  }

  /** Adds an empty row. @returns its number */
  add(): number {
    if (this.rows === this.#capacity) throw new RangeError(`the cache has room for ${this.#capacity} rows`);
    return this.#lengths.push(0) - 1;
  }

  /** Adds a copy of a row of another cache of the same decoder. */
  addCopy(from: KeyValueCache, row: number): number {
    const length = from.length(row);
    this.reserve(length);
    const to = this.add();
    for (const part of this.parts.keys()) this.#copyRow(part, from, row, to, length);
    this.#lengths[to] = length;
    return to;
  }

  /** Removes a row; the last row takes its number. */
  remove(row: number): void {
    const last = this.rows - 1;
    const length = this.length(last);
    for (const [i, part] of this.parts.entries()) {
      if (row !== last) this.#copyRow(i, this, last, row, this.#width);
      // Zeros, as a leftover NaN would spoil even products with a weight of zero.
      const size = this.#rowSize(part);
      this.#data[i]?.fill(0, last * size, last * size + size);
    }
    this.#lengths[row] = length;
    this.#lengths.pop();
  }

  /** Reserves this many positions per row. */
  reserve(positions: number): void {
    if (positions <= this.#width) return;
    const wanted = Math.max(positions, this.#width + Math.floor(this.#width / 8));
    this.#widen(Math.ceil(wanted / GROWTH) * GROWTH);
  }

  /** Appends the first `counts[row]` of T new positions to each row. @param fresh results of a pass, by part */
  append(fresh: readonly Float32Array[], time: number, counts: readonly number[]): void {
    this.reserve(Math.max(...counts.map((count, row) => this.length(row) + count)));
    for (const [i, part] of this.parts.entries()) {
      const [data, added] = [this.#data[i] as Float32Array, fresh[i] as Float32Array];
      const { kind, strips, width } = part;
      if (kind === "state") {
        data.set(added.subarray(0, counts.length * this.#rowSize(part)));
        continue;
      }
      const length = this.#lengthOf(part);
      for (const [row, count] of counts.entries()) {
        // Of a window, the last positions stay.
        const kept = kind === "window" ? Math.max(0, length - count) : this.length(row);
        const first = kind === "window" ? Math.max(0, count - length) : 0;
        for (let strip = row * strips; strip < (row + 1) * strips; strip++) {
          const to = strip * length * width;
          if (kind === "window") data.copyWithin(to, to + (length - kept) * width, to + length * width);
          const from = strip * time * width;
          data.set(added.subarray(from + first * width, from + count * width), to + kept * width);
        }
      }
    }
    for (const [row, count] of counts.entries()) this.#lengths[row] = this.length(row) + count;
  }

  /** Feeds of a cached decoder. @param rows default those that are used; further ones are empty */
  feeds(rows = this.rows): Record<string, TensorValue> {
    const width = this.#width;
    const segments = new BigInt64Array(rows * width).fill(ABSENT);
    for (const [row, length] of this.#lengths.entries()) segments.fill(PRESENT, row * width, row * width + length);
    const positions = BigInt64Array.from({ length: rows * width }, (_, i) => BigInt(i % width));
    const feeds: Record<string, TensorValue> = {
      [FEEDS.pastSegments]: { dtype: "i64", shape: [rows, width], data: segments },
      [FEEDS.pastPositions]: { dtype: "i64", shape: [rows, width], data: positions },
    };
    for (const [i, part] of this.parts.entries()) {
      const data = (this.#data[i] as Float32Array).subarray(0, rows * this.#rowSize(part));
      feeds[part.feed] = { dtype: "f32", shape: feedShape(part, rows, width).map(Number), data };
    }
    return feeds;
  }

  #lengthOf({ kind, length }: CachePart): number {
    return kind === "positions" ? this.#width : length;
  }

  /** Elements of a row. */
  #rowSize(part: CachePart): number {
    return part.strips * this.#lengthOf(part) * part.width;
  }

  #widen(width: number): void {
    const old = this.#width;
    this.#width = width;
    for (const [i, part] of this.parts.entries()) {
      if (part.kind !== "positions") continue;
      const [data, unit] = [this.#data[i] as Float32Array, part.width];
      const grown = new Float32Array(this.#capacity * this.#rowSize(part));
      for (let strip = 0; strip < this.rows * part.strips; strip++) {
        grown.set(data.subarray(strip * old * unit, (strip + 1) * old * unit), strip * width * unit);
      }
      this.#data[i] = grown;
    }
  }

  /** Copies the first positions of a row, strip by strip; states whole. */
  #copyRow(index: number, owner: KeyValueCache, fromRow: number, toRow: number, positions: number): void {
    const part = this.parts[index] as CachePart;
    const [from, to] = [owner.#data[index] as Float32Array, this.#data[index] as Float32Array];
    const { strips, width } = part;
    const length = part.kind === "positions" ? positions : part.length;
    for (let strip = 0; strip < strips; strip++) {
      const start = (fromRow * strips + strip) * owner.#lengthOf(part) * width;
      const end = (toRow * strips + strip) * this.#lengthOf(part) * width;
      to.set(from.subarray(start, start + length * width), end);
    }
  }
}
