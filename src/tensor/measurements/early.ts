// Measurements that begin before what they need is known, in the pass that finds it, as a sample promises the result. They are
// made again where the promise is broken.
import type { Measured, MeasuredResult } from "../expressions/expression.js";

interface Waiting {
  readonly id: string;
  /** Ids of the results that it needs. */
  readonly needs: readonly string[];
}

export class EarlyMeasurements<One extends Waiting> {
  #waiting: readonly One[];
  readonly #begun: One[] = [];
  /** What the present pass promises, by id. */
  readonly #promised = new Map<string, readonly number[]>();
  /** Results that are known, and those that measurements began with. */
  readonly results: Map<string, MeasuredResult>;

  constructor(waiting: readonly One[], known: Measured) {
    this.#waiting = waiting;
    this.results = new Map(known);
  }

  /**
   * Takes the promise of a measurement, which makes one at most.
   * @param numbers what its result will begin with, if its sample does not mislead
   */
  promise(id: string, numbers: readonly number[]): void {
    this.#promised.set(id, numbers);
  }

  /** Takes the measurements that can be made in the pass whose promises were given, and ends these. */
  begin(): One[] {
    const ready = this.#waiting.filter(({ needs }) => needs.every((id) => this.#promised.has(id)));
    this.#waiting = this.#waiting.filter((one) => !ready.includes(one));
    for (const id of ready.flatMap(({ needs }) => needs)) this.results.set(id, this.#promised.get(id) ?? []);
    this.#promised.clear();
    this.#begun.push(...ready);
    return ready;
  }

  /** Ids of the measurements that began with what was not found. */
  misled(found: Measured): string[] {
    const isKept = (id: string) => {
      const [promised, result] = [this.results.get(id) as readonly number[], found.get(id) ?? []];
      return promised.every((number, i) => Object.is(number, result[i]));
    };
    return this.#begun.flatMap(({ id, needs }) => (needs.every(isKept) ? [] : [id]));
  }
}
