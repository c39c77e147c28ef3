// Texts that are read together where they need not be told apart.
import { groupBy } from "../kit/index.js";
import type { RopeTables } from "./rope-tables.js";

/** Tokens that are read together. */
export const PACK_TOKENS = 1024;

/** Neighbours together, as many as have `most` in sum; one that has more is alone. */
export function grouped<T>(all: readonly T[], sizeOf: (one: T) => number, most: number): T[][] {
  const groups: T[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const one of all) {
    size += sizeOf(one);
    if (size > most) {
      groups.push([]);
      size = sizeOf(one);
    }
    groups.at(-1)?.push(one);
  }
  return groups;
}

/** Texts in packs. Those of one pack have the same frequencies, which may depend on the length of each. */
export function packed<Text extends readonly number[]>(texts: readonly Text[], ropes: RopeTables): Text[][] {
  const alike = [...groupBy(texts, ({ length }) => ropes.keyOf(length)).values()];
  return alike.flatMap((some) => grouped(some, (text) => text.length, PACK_TOKENS));
}
