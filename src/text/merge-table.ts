// Which pairs of tokens merge, in which order, and to what.

/** Pairs of tokens by their ids. Sorted, as keys of a hash table could be chosen to be slow. */
export class MergeTable {
  /** The first pair of each first token. */
  readonly #starts: Int32Array;
  readonly #seconds: Int32Array;
  readonly #ranks: Int32Array;
  readonly #ids: Int32Array;

  /**
   * @param pairs first token, second token and the token that they become, of one merge after another in the order of their
   *   ranks. A pair that is listed twice has the later rank.
   * @param highestId of a token
   */
  constructor(pairs: Int32Array, highestId: number) {
    const all = Int32Array.from({ length: pairs.length / 3 }, (_, rank) => rank);
    const firstOf = (rank: number) => pairs[3 * rank] as number;
    const secondOf = (rank: number) => pairs[3 * rank + 1] as number;
    const ordered = sortedBy(sortedBy(all, secondOf, highestId).items, firstOf, highestId);
    this.#starts = ordered.starts;
    this.#ranks = ordered.items;
    this.#seconds = this.#ranks.map(secondOf);
    this.#ids = this.#ranks.map((rank) => pairs[3 * rank + 2] as number);
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

/** Sorts by keys from 0; equal ones keep their order. @returns also where the items of each key start, and the end */
function sortedBy(items: Int32Array, keyOf: (item: number) => number, highest: number) {
  const starts = new Int32Array(highest + 2);
  for (const item of items) (starts[keyOf(item) + 1] as number)++;
  for (let key = 1; key < starts.length; key++) (starts[key] as number) += starts[key - 1] as number;
  const next = starts.slice();
  const sorted = new Int32Array(items.length);
  for (const item of items) {
    const key = keyOf(item);
    sorted[next[key] as number] = item;
    (next[key] as number)++;
  }
  return { items: sorted, starts };
}
