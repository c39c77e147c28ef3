// Cached keys and values for the rows of a batch. Used rows are always the first ones and are fed in place.
// Shapes: B rows, K key and value heads, T positions, E width of a head.

import type { DecoderSpec } from "../families/index.js";
import { FEEDS, pastKey, pastValue } from "./model/decoder-graph.js";
import type { TensorValue } from "./runtime/session.js";

/**
 * Width grows by an eighth, in steps of this many: attention over unused positions costs time, growing costs copies. The
 * runtime adds this many or a divisor of it at once, so the width does not change sums.
 */
const GROWTH = 64;

const PRESENT = 1n;
// A segment that neither tokens nor padding have.
const ABSENT = -1n;

/** Results of a run for one layer: [B, K, T, E]. */
export interface NewPositions {
  readonly key: Float32Array;
  readonly value: Float32Array;
}

export class KeyValueCache {
  readonly #spec: DecoderSpec;
  readonly #keys: Float32Array[];
  readonly #values: Float32Array[];
  /** Filled positions of each row. */
  readonly #lengths: number[] = [];
  readonly #capacity: number;
  #width = 0;

  /**
   * @param rows most rows
   * @param width positions to reserve
   */
  constructor(spec: DecoderSpec, rows: number, width = 0) {
    this.#spec = spec;
    this.#capacity = rows;
    this.#keys = spec.layers.map(() => new Float32Array());
    this.#values = spec.layers.map(() => new Float32Array());
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
    for (const layer of this.#keys.keys()) {
      this.#copyRow(from.#keys[layer], from, row, this.#keys[layer], to, length);
      this.#copyRow(from.#values[layer], from, row, this.#values[layer], to, length);
    }
    this.#lengths[to] = length;
    return to;
  }

  /** Removes a row; the last row takes its number. */
  remove(row: number): void {
    const last = this.rows - 1;
    const length = this.length(last);
    for (const layer of this.#keys.keys()) {
      for (const data of [this.#keys[layer], this.#values[layer]]) {
        if (row !== last) this.#copyRow(data, this, last, data, row, this.#width);
        // Zeros, as a leftover NaN would spoil even products with a weight of zero.
        const size = this.#rowSize();
        data?.fill(0, last * size, last * size + size);
      }
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

  /** Appends the first `counts[row]` of T new positions to each row. */
  append(layers: readonly NewPositions[], time: number, counts: readonly number[]): void {
    this.reserve(Math.max(...counts.map((count, row) => this.length(row) + count)));
    const { kvHeads, headDim } = this.#spec;
    for (const [layer, { key, value }] of layers.entries()) {
      const [keys, values] = [this.#keys[layer] as Float32Array, this.#values[layer] as Float32Array];
      for (const [row, count] of counts.entries()) {
        for (let head = 0; head < kvHeads; head++) {
          const from = (row * kvHeads + head) * time * headDim;
          const to = ((row * kvHeads + head) * this.#width + this.length(row)) * headDim;
          keys.set(key.subarray(from, from + count * headDim), to);
          values.set(value.subarray(from, from + count * headDim), to);
        }
      }
    }
    for (const [row, count] of counts.entries()) this.#lengths[row] = this.length(row) + count;
  }

  /** Feeds of a cached decoder. @param rows default those that are used; further ones are empty */
  feeds(rows = this.rows): Record<string, TensorValue> {
    const { kvHeads, headDim } = this.#spec;
    const width = this.#width;
    const tensor = (data: Float32Array): TensorValue => ({
      dtype: "f32",
      shape: [rows, kvHeads, width, headDim],
      data: data.subarray(0, rows * this.#rowSize()),
    });
    const segments = new BigInt64Array(rows * width).fill(ABSENT);
    for (const [row, length] of this.#lengths.entries()) segments.fill(PRESENT, row * width, row * width + length);
    const positions = BigInt64Array.from({ length: rows * width }, (_, i) => BigInt(i % width));
    const feeds: Record<string, TensorValue> = {
      [FEEDS.pastSegments]: { dtype: "i64", shape: [rows, width], data: segments },
      [FEEDS.pastPositions]: { dtype: "i64", shape: [rows, width], data: positions },
    };
    for (const layer of this.#keys.keys()) {
      feeds[pastKey(layer)] = tensor(this.#keys[layer] as Float32Array);
      feeds[pastValue(layer)] = tensor(this.#values[layer] as Float32Array);
    }
    return feeds;
  }

  /** Elements of a row of one layer. */
  #rowSize(): number {
    return this.#spec.kvHeads * this.#width * this.#spec.headDim;
  }

  #widen(width: number): void {
    const { kvHeads, headDim } = this.#spec;
    const old = this.#width;
    this.#width = width;
    const wider = (data: Float32Array): Float32Array => {
      const grown = new Float32Array(this.#capacity * this.#rowSize());
      for (let strip = 0; strip < this.rows * kvHeads; strip++) {
        grown.set(data.subarray(strip * old * headDim, (strip + 1) * old * headDim), strip * width * headDim);
      }
      return grown;
    };
    for (const layer of this.#keys.keys()) {
      this.#keys[layer] = wider(this.#keys[layer] as Float32Array);
      this.#values[layer] = wider(this.#values[layer] as Float32Array);
    }
  }

  /** Copies the first positions of a row, head by head. */
  #copyRow(
    from: Float32Array | undefined,
    owner: KeyValueCache,
    fromRow: number,
    to: Float32Array | undefined,
    toRow: number,
    length: number,
  ): void {
    const { kvHeads, headDim } = this.#spec;
    for (let head = 0; head < kvHeads; head++) {
      const start = (fromRow * kvHeads + head) * owner.#width * headDim;
      const end = (toRow * kvHeads + head) * this.#width * headDim;
      to?.set(from?.subarray(start, start + length * headDim) ?? [], end);
    }
  }
}
