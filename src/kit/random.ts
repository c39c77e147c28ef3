// A small random generator whose numbers depend only on a seed and a label, on every machine. Not for secrets.
import { createHash } from "node:crypto";

/**
 * xoshiro128** 1.1 by Blackman and Vigna (prng.di.unimi.it/xoshiro128starstar.c): four words of state, period 2^128 - 1.
 *
 * `Random.of(seed, label)` derives its state from SHA-256 of both, so streams with different labels are independent.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;
  #spare: number | undefined;

  /** @param state four words, not all zero (the published algorithm's s[0] to s[3]) */
  constructor(state: readonly [number, number, number, number]) {
    [this.#a, this.#b, this.#c, this.#d] = state;
    if ((this.#a | this.#b | this.#c | this.#d) === 0) throw new RangeError("the state of a generator cannot be zero");
  }

  /** The stream of a seed and a label. @param seed any whole number, or text */
  static of(seed: number | string, label: string): Random {
    const digest = createHash("sha256").update(`${seed}\0${label}`).digest();
    return new Random([0, 4, 8, 12].map((at) => digest.readInt32LE(at)) as [number, number, number, number]);
  }

  /** A whole number from 0 to 2^32 - 1. */
  next(): number {
    const scrambled = Math.imul(rotate(Math.imul(this.#b, 5), 7), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotate(this.#d, 11);
    return scrambled;
  }

  /** A number in [0, 1) with 53 random bits. */
  float(): number {
    return ((this.next() >>> 5) * 2 ** 26 + (this.next() >>> 6)) / 2 ** 53;
  }

  /** A whole number from 0 to `count` - 1, each equally likely. @param count from 1 to 2^32 */
  below(count: number): number {
    // Numbers past the last multiple of count would favor small results; they are drawn again.
    const limit = 2 ** 32 - (2 ** 32 % count);
    for (;;) {
      const value = this.next();
      if (value < limit) return value % count;
    }
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(probability: number): boolean {
    return this.float() < probability;
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError("there is nothing to pick from");
    return items[this.below(items.length)] as T;
  }

  /** Different items, in random order. @param count at most as many as there are */
  sample<T>(items: readonly T[], count: number): T[] {
    return this.shuffle([...items]).slice(0, count);
  }

  /** Puts the items in random order, in place (Fisher and Yates), and returns them. */
  shuffle<T extends { readonly length: number }>(items: T): T {
    const list: { [index: number]: unknown } = items;
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      const kept = list[i];
      list[i] = list[j];
      list[j] = kept;
    }
    return items;
  }

  /** A number of the normal distribution with mean 0 and deviation 1 (Box and Muller). */
  normal(): number {
    if (this.#spare !== undefined) {
      const spare = this.#spare;
      this.#spare = undefined;
      return spare;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.float())); // 1 - x is never 0
    const angle = 2 * Math.PI * this.float();
    this.#spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}
