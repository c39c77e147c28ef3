// Cosines and sines of rotary positions, as tables that grow with the longest text.
import { type RopeSpec, ropeCos, ropeSin } from "../model/index.js";
import type { TensorValue } from "../runtime/index.js";

/** Rows a table begins with; it doubles when a text is longer. */
const FIRST_ROWS = 256;

interface Table {
  readonly rows: number;
  readonly isLong: boolean;
  readonly feeds: Readonly<Record<string, TensorValue>>;
}

export class RopeTables {
  readonly #ropes: readonly RopeSpec[];
  readonly #tables = new Map<number, Table>();

  constructor(ropes: readonly RopeSpec[]) {
    this.#ropes = ropes;
  }

  /** Tables for positions from 0 to `length` - 1, by the names they are fed under. */
  feeds(length: number): Record<string, TensorValue> {
    const feeds: Record<string, TensorValue> = {};
    for (const [index, rope] of this.#ropes.entries()) {
      const isLong = rope.long !== undefined && length > rope.long.above;
      let table = this.#tables.get(index);
      if (!table || table.rows < length || table.isLong !== isLong) {
        let rows = Math.max(FIRST_ROWS, table?.rows ?? 0);
        while (rows < length) rows *= 2;
        table = { rows, isLong, feeds: makeTables(index, rope, isLong, rows) };
        this.#tables.set(index, table);
      }
      Object.assign(feeds, table.feeds);
    }
    // All tables have one height in the graph, and may have grown one by one.
    const rows = Math.max(...[...this.#tables.values()].map((table) => table.rows));
    return [...this.#tables.values()].every((table) => table.rows === rows) ? feeds : this.feeds(rows);
  }
}

function makeTables(index: number, rope: RopeSpec, isLong: boolean, rows: number): Record<string, TensorValue> {
  const frequencies = isLong && rope.long ? rope.long.frequencies : rope.frequencies;
  const half = frequencies.length;
  const table = (of: (angle: number) => number): TensorValue => {
    const data = new Float32Array(rows * half);
    for (let position = 0; position < rows; position++) {
      for (let i = 0; i < half; i++) {
        // Angles in float32, as they were when the models learned: at position 10,000 it is a difference of 1e-3.
        const angle = Math.fround(position * Math.fround(frequencies[i] as number));
        data[position * half + i] = rope.attentionFactor * of(angle);
      }
    }
    return { dtype: "f32", shape: [rows, half], data };
  };
  return { [ropeCos(index)]: table(Math.cos), [ropeSin(index)]: table(Math.sin) };
}
