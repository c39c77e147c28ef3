// How long to wait for the bytes of an answer: silence and a trickle are the same problem.

/** Bytes that pay for a second of waiting. Every connection over which one would fetch a model is far faster. */
const BYTES_PER_SECOND = 1000;

/** Bytes of an attempt that count as progress. A server that sends fewer each time would never be given up. */
export const LEAST_PROGRESS = 10 * BYTES_PER_SECOND;

/**
 * Waits for bytes as long as they come at a useful rate. Time in which nobody waits does not count.
 * @param most milliseconds to wait without a byte
 * @param onSlow called when too few bytes came
 */
export function paceOf(most: number, onSlow: () => void) {
  let [left, since] = [most, 0];
  let timer: NodeJS.Timeout | undefined;
  const stop = () => clearTimeout(timer);
  return {
    stop,
    wait: (): void => {
      since = performance.now();
      stop();
      timer = setTimeout(onSlow, left);
    },
    /** Bytes came, which give back some of the time. */
    came: (bytes: number): void => {
      stop();
      const waited = performance.now() - since;
      left = Math.min(most, Math.max(0, left - waited) + (1000 * bytes) / BYTES_PER_SECOND);
    },
  };
}
