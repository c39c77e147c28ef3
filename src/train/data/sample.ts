// The k items with the smallest random keys. A key depends on the item alone: order does not matter.
import TinyQueue from "tinyqueue";

interface Item<T> {
  readonly key: number;
  /** Order of arrival; of equal keys, the first stays. */
  readonly order: number;
  readonly value: T;
}

export class Sample<T> {
  readonly #limit: number;
  /** The item to drop next is first. */
  readonly #kept = new TinyQueue<Item<T>>([], (a, b) => b.key - a.key || b.order - a.order);
  #arrived = 0;

  /** @param limit how many items are kept; Infinity for all */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#kept.length;
  }

  /** Whether an item with this key would be kept if it came now. */
  accepts(key: number): boolean {
    return this.size < this.#limit || (this.#limit > 0 && key < (this.#kept.peek()?.key ?? 0));
  }

  /** Adds an item. @returns whether an item, this or another, was dropped */
  add(key: number, value: T): boolean {
    this.#kept.push({ key, order: this.#arrived++, value });
    return this.size > this.#limit && this.#kept.pop() !== undefined;
  }

  /** The kept items, in order of arrival. */
  values(): T[] {
    return this.#kept.data.toSorted((a, b) => a.order - b.order).map(({ value }) => value);
  }
}
