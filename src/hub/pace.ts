// How long to wait for the bytes of an answer: silence and a trickle are the same problem.

/** Bytes that pay for a second of waiting. Every connection over which one would fetch a model is far faster. */
const BYTES_PER_SECOND = 1000;

/** Bytes of an attempt that count as progress. A server that sends fewer each time would never be given up. */
export const LEAST_PROGRESS = 10 * BYTES_PER_SECOND;

/** Waits for bytes as long as they come at a useful rate. Time in which nobody waits does not count. */
export class Pace {
  readonly #most: number;
  readonly #onSlow: () => void;
  #left: number;
  #since = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param most milliseconds to wait without a byte
   * @param onSlow called when too few bytes came
   */
  constructor(most: number, onSlow: () => void) {
    this.#most = most;
    this.#left = most;
    this.#onSlow = onSlow;
  }

  wait(): void {
    this.#since = performance.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onSlow, this.#left);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Bytes came, which give back some of the time. */
  came(bytes: number): void {
    this.stop();
    const waited = performance.now() - this.#since;
    this.#left = Math.min(this.#most, Math.max(0, this.#left - waited) + (1000 * bytes) / BYTES_PER_SECOND);
  }
}
