// Cached keys and values for the rows of a batch. Used rows are always the first ones and are fed in place.
// Shapes: B rows, K key and value heads, T positions, E width of a head.

import type { DecoderSpec, LayerSpec } from "../families/index.js";
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

const PARTS = ["key", "value"] as const;

/** Results of a run for one layer: [B, K, T, E]. */
export type NewPositions = Readonly<Record<(typeof PARTS)[number], Float32Array>>;

interface CachedLayer extends Record<(typeof PARTS)[number], Float32Array>, Pick<LayerSpec, "kvHeads" | "headDim"> {
  readonly index: number;
}

/** The layers that have keys of their own. */
export function cachedLayers({ layers }: DecoderSpec): number[] {
  return [...layers.keys()].filter((index) => layers[index]?.keysOf === undefined);
}

export class KeyValueCache {
  /** Layers that have keys of their own. */
  readonly #layers: readonly CachedLayer[];
  /** Filled positions of each row. */
  readonly #lengths: number[] = [];
  readonly #capacity: number;
  #width = 0;

  /**
   * @param rows most rows
   * @param width positions to reserve
   */
  constructor(spec: DecoderSpec, rows: number, width = 0) {
    this.#capacity = rows;
    this.#layers = cachedLayers(spec).map((index) => {
      const { kvHeads, headDim } = spec.layers[index] as LayerSpec;
      return { index, kvHeads, headDim, key: new Float32Array(), value: new Float32Array() };
    });
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
    for (const [i, layer] of this.#layers.entries()) {
      this.#copyRow(from.#layers[i] as CachedLayer, from, row, layer, to, length);
    }
    this.#lengths[to] = length;
    return to;
  }

  /** Removes a row; the last row takes its number. */
  remove(row: number): void {
    const last = this.rows - 1;
    const length = this.length(last);
    for (const layer of this.#layers) {
      if (row !== last) this.#copyRow(layer, this, last, layer, row, this.#width);
      // Zeros, as a leftover NaN would spoil even products with a weight of zero.
      const size = this.#rowSize(layer);
      for (const part of PARTS) layer[part].fill(0, last * size, last * size + size);
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

  /** Appends the first `counts[row]` of T new positions to each row. @param layers of `cachedLayers` */
  append(layers: readonly NewPositions[], time: number, counts: readonly number[]): void {
    this.reserve(Math.max(...counts.map((count, row) => this.length(row) + count)));
    for (const [i, layer] of this.#layers.entries()) {
      const { kvHeads, headDim } = layer;
      for (const [row, count] of counts.entries()) {
        for (let head = 0; head < kvHeads; head++) {
          const from = (row * kvHeads + head) * time * headDim;
          const to = ((row * kvHeads + head) * this.#width + this.length(row)) * headDim;
          for (const part of PARTS) layer[part].set(layers[i]?.[part].subarray(from, from + count * headDim) ?? [], to);
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
    for (const layer of this.#layers) {
      const shape = [rows, layer.kvHeads, width, layer.headDim];
      const tensor = (data: Float32Array): TensorValue => {
        return { dtype: "f32", shape, data: data.subarray(0, rows * this.#rowSize(layer)) };
      };
      feeds[pastKey(layer.index)] = tensor(layer.key);
      feeds[pastValue(layer.index)] = tensor(layer.value);
    }
    return feeds;
  }

  /** Elements of a row of one layer. */
  #rowSize({ kvHeads, headDim }: CachedLayer): number {
    return kvHeads * this.#width * headDim;
  }

  #widen(width: number): void {
    const old = this.#width;
    this.#width = width;
    for (const layer of this.#layers) {
      const { kvHeads, headDim } = layer;
      for (const part of PARTS) {
        const grown = new Float32Array(this.#capacity * this.#rowSize(layer));
        for (let strip = 0; strip < this.rows * kvHeads; strip++) {
          const [from, to] = [strip * old * headDim, (strip + 1) * old * headDim];
          grown.set(layer[part].subarray(from, to), strip * width * headDim);
        }
        layer[part] = grown;
      }
    }
  }

  /** Copies the first positions of a row, head by head. */
  #copyRow(
    from: CachedLayer,
    owner: KeyValueCache,
    fromRow: number,
    to: CachedLayer,
    toRow: number,
    length: number,
  ): void {
    const { kvHeads, headDim } = to;
    for (let head = 0; head < kvHeads; head++) {
      const start = (fromRow * kvHeads + head) * owner.#width * headDim;
      const end = (toRow * kvHeads + head) * this.#width * headDim;
      for (const part of PARTS) to[part].set(from[part].subarray(start, start + length * headDim), end);
    }
  }
}
