// Which pairs of tokens merge, in which order, and to what.

/** First tokens, second tokens, and the tokens that they become. */
export interface MergedPairs {
  readonly firsts: Int32Array;
  readonly seconds: Int32Array;
  readonly ids: Int32Array;
}

/** Pairs of tokens by their ids. Sorted, as keys of a hash table could be chosen to be slow. */
export class MergeTable {
  /** The first pair of each first token. */
  readonly #starts: Int32Array;
  readonly #seconds: Int32Array;
  readonly #ranks: Int32Array;
  readonly #ids: Int32Array;

  /**
   * Merges in the order of their ranks. A pair that is listed twice has the later rank.
   * @param highestId of a token
   */
  constructor({ firsts, seconds, ids }: MergedPairs, highestId: number) {
    const bySecond = sortedBy(seconds, highestId).items;
    const { starts, items } = sortedBy(firsts, highestId, bySecond);
    this.#starts = starts;
    this.#ranks = items;
    this.#seconds = new Int32Array(items.length);
    this.#ids = new Int32Array(items.length);
    for (let i = 0; i < items.length; i++) {
      this.#seconds[i] = seconds[items[i] as number] as number;
      this.#ids[i] = ids[items[i] as number] as number;
    }
  }

  /** The place of a pair, for `rankAt` and `idAt`; -1 if it does not merge. */
  find(first: number, second: number): number {
    let from = this.#starts[first] ?? 0;
    let to = this.#starts[first + 1] ?? 0;
    // The last of equal pairs.
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#seconds[middle] as number) <= second) from = middle + 1;
      else to = middle;
    }
    const place = from - 1;
    return place >= (this.#starts[first] ?? 0) && this.#seconds[place] === second ? place : -1;
  }

  rankAt(place: number): number {
    return this.#ranks[place] as number;
  }

  idAt(place: number): number {
    return this.#ids[place] as number;
  }
}

/** The merges of a file, which are read when a word is first merged. */
export class LaterMerges {
  /** @throws CheckpointError if they are not valid */
  readonly read: () => MergeTable;

  constructor(read: () => MergeTable) {
    this.read = read;
  }
}

/**
 * Sorts items by their keys, which are numbers from 0. Equal ones keep their order.
 * @param items places of keys. Default: all, in their order
 * @returns also where the items of each key start, and the end
 */
function sortedBy(keys: Int32Array, highest: number, items?: Int32Array) {
  const starts = new Int32Array(highest + 2);
  for (let i = 0; i < keys.length; i++) (starts[(keys[i] as number) + 1] as number)++;
  for (let key = 1; key < starts.length; key++) (starts[key] as number) += starts[key - 1] as number;
  const next = starts.slice();
  const sorted = new Int32Array(keys.length);
  for (let i = 0; i < keys.length; i++) {
    const item = items ? (items[i] as number) : i;
    const key = keys[item] as number;
    sorted[next[key] as number] = item;
    (next[key] as number)++;
  }
  return { items: sorted, starts };
}
