import { Random } from "../../kit/index.js";
import { DataError } from "./read/row.js";

export interface MixtureOptions {
  readonly sets: readonly {
    readonly name: string;
    readonly size: number;
    /** Relative to the other sets, default 1. If no set has one, a pass has all examples of all sets once. */
    readonly weight?: number | undefined;
  }[];
  /**
   * With weights, a pass ends before any set repeats (false, the default; the next pass continues the others), or when
   * every set was seen whole (true; small sets repeat).
   */
  readonly repeat?: boolean | undefined;
  readonly seed: number;
  /** Random order. Default true; otherwise set after set, each in its order. */
  readonly shuffle?: boolean | undefined;
}

const MAX_PASS = 2 ** 31;

/** Numbers in the orders of passes that are kept, beyond two passes: a batch may have examples of several short ones. */
const KEPT_NUMBERS = 1_000_000;

/** An endless sequence of examples. */
export class Mixture {
  readonly size: number;
  /** Examples of each set in a pass. */
  readonly shares: readonly number[];
  readonly #sizes: readonly number[];
  /** Number of the first example of each set. */
  readonly #offsets: readonly number[];
  readonly #seed: number;
  readonly #shuffle: boolean;
  /** Orders of the latest passes. */
  readonly #orders = new Map<number, Uint32Array>();

  /** @throws DataError if a set is empty, or a pass has more than 2^31 examples */
  constructor({ sets, repeat = false, seed, shuffle = true }: MixtureOptions) {
    const empty = sets.find(({ size }) => size === 0);
    if (empty) throw new DataError(`no example of ${empty.name} is left to train on. Check its filters and columns.`);
    this.#sizes = sets.map(({ size }) => size);
    this.#offsets = this.#sizes.map((_, i) => this.#sizes.slice(0, i).reduce((sum, size) => sum + size, 0));
    this.#seed = seed;
    this.#shuffle = shuffle;
    this.shares = sharesOf(sets, repeat);
    this.size = this.shares.reduce((sum, share) => sum + share, 0);
    if (this.size > MAX_PASS) {
      throw new DataError(`a pass over these sets would have ${this.size} examples. Make the weights less uneven.`);
    }
  }

  /** The number of the example at a position, which counts through all passes. */
  at(position: number): number {
    const pass = Math.floor(position / this.size);
    let order = this.#orders.get(pass);
    if (!order) {
      order = this.#orderOf(pass);
      this.#orders.set(pass, order);
      const [oldest] = this.#orders.keys();
      if (this.#orders.size > 2 && this.#orders.size * this.size > KEPT_NUMBERS && oldest !== undefined) {
        this.#orders.delete(oldest);
      }
    }
    return order[position % this.size] ?? 0;
  }

  /** Set, and index in it, of the number of an example. */
  placeOf(number: number): { readonly set: number; readonly index: number } {
    const set = this.#offsets.findLastIndex((offset) => offset <= number);
    return { set, index: number - (this.#offsets[set] ?? 0) };
  }

  /** A pass has the next examples of each set, which repeats in new permutations, and is then shuffled. */
  #orderOf(pass: number): Uint32Array {
    const order = new Uint32Array(this.size);
    let at = 0;
    for (const [set, share] of this.shares.entries()) {
      const size = this.#sizes[set] ?? 1;
      let cycle = -1;
      let permutation = new Uint32Array();
      for (let place = pass * share; place < (pass + 1) * share; place++) {
        if (Math.floor(place / size) !== cycle) {
          cycle = Math.floor(place / size);
          permutation = Uint32Array.from({ length: size }, (_, i) => i);
          if (this.#shuffle) Random.of(this.#seed, `examples of set ${set}, cycle ${cycle}`).shuffle(permutation);
        }
        order[at++] = (this.#offsets[set] ?? 0) + (permutation[place % size] ?? 0);
      }
    }
    return this.#shuffle ? Random.of(this.#seed, `examples of pass ${pass}`).shuffle(order) : order;
  }
}

/** How many examples of each set a pass has. */
function sharesOf(sets: MixtureOptions["sets"], repeat: boolean): number[] {
  if (sets.every(({ weight }) => weight === undefined)) return sets.map(({ size }) => size);
  const weights = sets.map(({ weight }) => weight ?? 1);
  // Examples per unit of weight until a set ends.
  const lengths = sets.map(({ size }, i) => size / (weights[i] ?? 1));
  const length = repeat ? Math.max(...lengths) : Math.min(...lengths);
  return sets.map(({ size }, i) => {
    const share = Math.max(1, Math.round((weights[i] ?? 1) * length));
    return repeat ? share : Math.min(share, size);
  });
}
