// Tables of cosines and sines of rotary positions, which grow with the longest text.

import { frequenciesAt, type RopeSpec } from "../families/index.js";
import { FEEDS, ropeCos, ropeSin } from "./model/feeds.js";
import type { TensorValue } from "./runtime/session.js";

/** Initial rows of a table, which doubles for longer texts. */
const FIRST_ROWS = 256;

type Feeds = Readonly<Record<string, TensorValue>>;

export class RopeTables {
  readonly #ropes: readonly RopeSpec[];
  /** The last one by rotation, and whether it is for long texts. */
  readonly #tables = new Map<string, { readonly frequencies: string; readonly feeds: Feeds }>();
  #rows = FIRST_ROWS;

  constructor(ropes: readonly RopeSpec[]) {
    this.#ropes = ropes;
  }

  /** Equal for lengths of texts that have the same frequencies. */
  keyOf(length: number): string {
    const varying = this.#ropes.filter(({ long, dynamic }) => long !== undefined || dynamic !== undefined);
    return varying.map((rope) => frequenciesAt(rope, length).join()).join(";");
  }

  /**
   * Tables for positions from 0 to `length` - 1, by feed name; all have the same height.
   * @param least least height of the tables; only `length` chooses the frequencies
   */
  feeds(length: number, least = length): Record<string, TensorValue> {
    const height = Math.max(length, least);
    if (height > this.#rows) {
      while (this.#rows < height) this.#rows *= 2;
      this.#tables.clear();
    }
    const feeds: Record<string, TensorValue> = {};
    for (const [index, rope] of this.#ropes.entries()) {
      const frequencies = frequenciesAt(rope, length);
      const [key, values] = [`${index} ${frequencies === rope.long?.frequencies}`, frequencies.join()];
      const kept = this.#tables.get(key);
      const made = kept?.frequencies === values ? kept.feeds : makeTables(index, rope, frequencies, this.#rows);
      this.#tables.set(key, { frequencies: values, feeds: made });
      Object.assign(feeds, made);
    }
    return feeds;
  }
}

function makeTables(index: number, rope: RopeSpec, frequencies: Float64Array, rows: number): Feeds {
  const half = frequencies.length;
  const table = (of: (angle: number) => number): TensorValue => {
    const data = new Float32Array(rows * half);
    for (let position = 0; position < rows; position++) {
      for (let i = 0; i < half; i++) {
        // Angles in float32, as in training: at position 10,000 the difference is 1e-3.
        const angle = Math.fround(position * Math.fround(frequencies[i] as number));
        data[position * half + i] = rope.attentionFactor * of(angle);
      }
    }
    return { dtype: "f32", shape: [rows, half], data };
  };
  return { [ropeCos(index)]: table(Math.cos), [ropeSin(index)]: table(Math.sin) };
}

export function integers(shape: readonly number[], values: readonly number[]): TensorValue {
  return { dtype: "i64", shape, data: BigInt64Array.from(values, BigInt) };
}

/** Feeds of texts one after the other, each of which attends to itself. All have the frequencies of the longest. */
export function feedsOf(texts: readonly (readonly number[])[], ropes: RopeTables): Record<string, TensorValue> {
  const ids = texts.flat();
  const shape = [1, ids.length];
  const longest = texts.reduce((most, text) => Math.max(most, text.length), 0);
  const positions = texts.flatMap((text) => [...text.keys()]);
  const segments = texts.flatMap((text, i) => text.map(() => i));
  return {
    [FEEDS.ids]: integers(shape, ids),
    [FEEDS.positions]: integers(shape, positions),
    [FEEDS.segments]: integers(shape, segments),
    ...ropes.feeds(longest, ids.length),
  };
}
