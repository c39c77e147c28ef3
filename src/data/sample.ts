// A random sample of a stream whose length is not known: the k items with the smallest random keys. As a key depends on
// the item alone, the sample does not depend on the order of the stream, and changes little when items are added.

interface Item<T> {
  readonly key: number;
  /** Order of arrival; of equal keys the first stays. */
  readonly order: number;
  readonly value: T;
}

/** Keeps the items of least keys; a heap with the largest of them on top. */
export class Sample<T> {
  readonly #most: number;
  readonly #heap: Item<T>[] = [];
  #arrived = 0;

  /** @param most how many are kept; Infinity for all */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** Whether an item with this key would be kept if it came now. */
  wants(key: number): boolean {
    return this.#heap.length < this.#most || (this.#most > 0 && key < (this.#heap[0]?.key ?? 0));
  }

  /** Adds an item. @returns whether another, or the item itself, had to go */
  add(key: number, value: T): boolean {
    const item = { key, order: this.#arrived++, value };
    if (this.#heap.length < this.#most) {
      this.#heap.push(item);
      if (this.#most !== Number.POSITIVE_INFINITY) this.#rise(this.#heap.length - 1);
      return false;
    }
    const top = this.#heap[0];
    if (top && key < top.key) {
      this.#heap[0] = item;
      this.#sink();
    }
    return true;
  }

  /** What was kept, in the order of arrival. */
  values(): T[] {
    return this.#heap.toSorted((a, b) => a.order - b.order).map(({ value }) => value);
  }

  #isAbove(i: number, j: number): boolean {
    const [a, b] = [this.#heap[i], this.#heap[j]];
    return a !== undefined && b !== undefined && (a.key > b.key || (a.key === b.key && a.order > b.order));
  }

  #swap(i: number, j: number): void {
    const [a, b] = [this.#heap[i], this.#heap[j]];
    if (a && b) [this.#heap[i], this.#heap[j]] = [b, a];
  }

  #rise(from: number): void {
    for (let i = from; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!this.#isAbove(i, parent)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  #sink(): void {
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      let above = i;
      if (this.#isAbove(left, above)) above = left;
      if (this.#isAbove(right, above)) above = right;
      if (above === i) return;
      this.#swap(i, above);
      i = above;
    }
  }
}
