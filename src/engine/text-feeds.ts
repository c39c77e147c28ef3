// What a decoder is fed with to read whole texts.
import { FEEDS } from "./model/index.js";
import type { RopeTables } from "./rope-tables.js";
import type { TensorValue } from "./runtime/index.js";

export function integers(shape: readonly number[], values: readonly number[]): TensorValue {
  return { dtype: "i64", shape, data: BigInt64Array.from(values, BigInt) };
}

/** Feeds of texts one after the other, each of which attends to itself. */
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
