// In which order examples of several sets are seen, pass after pass: a function of the seed and the sizes alone. Knows
// nothing of what the examples are.
import { Random } from "../core/index.js";
import { DataError } from "./read/data-error.js";

export interface MixtureOptions {
  readonly sets: readonly {
    readonly name: string;
    /** Examples. */
    readonly size: number;
    /** Share beside the others'. If no set has one, all examples of all sets are seen once a pass; else default 1. */
    readonly weight?: number | undefined;
  }[];
  /**
   * With weights, how long a pass is: until the first set would repeat (false, the default), so that the others are not
   * seen whole in it and go on in the next pass; or until every set was seen whole (true), the others several times.
   */
  readonly repeat?: boolean | undefined;
  readonly seed: number;
  /** Whether the order is random. Default true; else sets come one after another, each in its order. */
  readonly shuffle?: boolean | undefined;
}

/** More examples in a pass cannot be numbered. */
const MAX_PASS = 2 ** 31;

/** Numbers of examples in orders that are kept beyond two passes: a batch may hold examples of several short ones. */
const KEPT_NUMBERS = 1_000_000;

/** An endless sequence of examples. */
export class Mixture {
  /** Examples of one pass. */
  readonly size: number;
  /** Examples of each set in a pass. */
  readonly shares: readonly number[];
  readonly #sizes: readonly number[];
  /** Number of each set's first example, when all are counted through. */
  readonly #offsets: readonly number[];
  readonly #seed: number;
  readonly #shuffle: boolean;
  /** Orders of the passes that were asked for last. */
  readonly #orders = new Map<number, Uint32Array>();

  /** @throws {DataError} if a set is empty, or weights ask for a pass of more than 2^31 examples */
  constructor({ sets, repeat = false, seed, shuffle = true }: MixtureOptions) {
    const empty = sets.find(({ size }) => size === 0);
    if (empty) throw new DataError(`no example of ${empty.name} is left to train on; see its counts`);
    this.#sizes = sets.map(({ size }) => size);
    this.#offsets = this.#sizes.map((_, i) => this.#sizes.slice(0, i).reduce((sum, size) => sum + size, 0));
    this.#seed = seed;
    this.#shuffle = shuffle;
    this.shares = sharesOf(sets, repeat);
    this.size = this.shares.reduce((sum, share) => sum + share, 0);
    if (this.size > MAX_PASS) {
      throw new DataError(`a pass over these sets would have ${this.size} examples; make the weights less uneven`);
    }
  }

  /** The example at a position, counted from 0 through all passes: its number when sets are counted through. */
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

  /** Set and place in it of an example's number. */
  placeOf(number: number): { readonly set: number; readonly index: number } {
    const set = this.#offsets.findLastIndex((offset) => offset <= number);
    return { set, index: number - (this.#offsets[set] ?? 0) };
  }

  /** Each set is a sequence of its own permutations, from which a pass takes the next ones; then the pass is shuffled. */
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
          permutation = this.#permutation(size, `examples of set ${set}, cycle ${cycle}`);
        }
        order[at++] = (this.#offsets[set] ?? 0) + (permutation[place % size] ?? 0);
      }
    }
    return this.#shuffle ? shuffled(order, Random.of(this.#seed, `examples of pass ${pass}`)) : order;
  }

  #permutation(size: number, label: string): Uint32Array<ArrayBuffer> {
    const numbers = Uint32Array.from({ length: size }, (_, i) => i);
    return this.#shuffle ? shuffled(numbers, Random.of(this.#seed, label)) : numbers;
  }
}

/** How many examples of each set a pass has. */
function sharesOf(sets: MixtureOptions["sets"], repeat: boolean): number[] {
  if (sets.every(({ weight }) => weight === undefined)) return sets.map(({ size }) => size);
  const weights = sets.map(({ weight }) => weight ?? 1);
  // Examples per unit of weight before a set ends: the pass is as long as the least or the most of these allows.
  const lengths = sets.map(({ size }, i) => size / (weights[i] ?? 1));
  const length = repeat ? Math.max(...lengths) : Math.min(...lengths);
  return sets.map(({ size }, i) => {
    const share = Math.max(1, Math.round((weights[i] ?? 1) * length));
    return repeat ? share : Math.min(share, size);
  });
}

function shuffled<T extends Uint32Array>(numbers: T, random: Random): T {
  for (let i = numbers.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    const kept = numbers[i] ?? 0;
    numbers[i] = numbers[j] ?? 0;
    numbers[j] = kept;
  }
  return numbers;
}
