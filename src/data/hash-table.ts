// A table from 64-bit hashes to small numbers: 10 bytes an entry and half as much again to spare, where a Map of texts
// takes over a hundred. Two texts are taken for the same if their hashes are; among 30 million that happens once in
// 40,000 data sets (n^2 / 2^65).

/** Open addressing with linear probing; entries are never removed. */
export class HashTable {
  #high: Uint32Array;
  #low: Uint32Array;
  /** 0 for a free place, else the value plus one. */
  #values: Uint16Array;
  #size = 0;

  constructor() {
    [this.#high, this.#low, this.#values] = places(1 << 10);
  }

  get size(): number {
    return this.#size;
  }

  /** The value of a hash, or undefined. @param high, low its halves, as unsigned 32-bit numbers */
  get(high: number, low: number): number | undefined {
    const value = this.#values[this.#placeOf(high, low)] ?? 0;
    return value === 0 ? undefined : value - 1;
  }

  /** Adds a hash unless it is there. @param value from 0 to 65,534 @returns whether it was new */
  add(high: number, low: number, value = 0): boolean {
    const place = this.#placeOf(high, low);
    if (this.#values[place] !== 0) return false;
    this.#high[place] = high;
    this.#low[place] = low;
    this.#values[place] = value + 1;
    if (++this.#size > this.#values.length * 0.7) this.#grow();
    return true;
  }

  /** Where the hash is, or would be. */
  #placeOf(high: number, low: number): number {
    const mask = this.#values.length - 1;
    let place = (low ^ Math.imul(high, 0x9e3779b1)) & mask;
    while (this.#values[place] !== 0 && (this.#high[place] !== high || this.#low[place] !== low)) {
      place = (place + 1) & mask;
    }
    return place;
  }

  #grow(): void {
    const [high, low, values] = [this.#high, this.#low, this.#values];
    [this.#high, this.#low, this.#values] = places(values.length * 2);
    for (let i = 0; i < values.length; i++) {
      const value = values[i] ?? 0;
      if (value === 0) continue;
      const place = this.#placeOf(high[i] ?? 0, low[i] ?? 0);
      this.#high[place] = high[i] ?? 0;
      this.#low[place] = low[i] ?? 0;
      this.#values[place] = value;
    }
  }
}

function places(count: number): [Uint32Array, Uint32Array, Uint16Array] {
  return [new Uint32Array(count), new Uint32Array(count), new Uint16Array(count)];
}
