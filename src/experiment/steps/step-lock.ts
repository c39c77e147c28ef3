// The lock of a step: one process at a time in a step's folder, and how the next one waits for it. Not that of the whole
// experiment, which its runner holds.

import { setTimeout as sleep } from "node:timers/promises";
import { LayergraftError, type Lock, takeLock } from "../../core/index.js";

/** Seconds between two tries. */
const PAUSE = 0.25;

export interface LockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Told once, when another process is found to run the step. */
  readonly onWait?: (() => void) | undefined;
  /** Waits some seconds; for tests. */
  readonly pause?: (seconds: number) => Promise<unknown>;
}

/**
 * Takes the place of whoever runs this step, when it ends or is gone: a job that a cluster was thought to have lost, or a
 * process that needs a moment to notice that its runner is gone. As long as it lives it is waited for, since what it
 * leaves is the result.
 * @throws {LayergraftError} code `locked` when the signal fires before
 */
export async function takeStepLock(folder: string, options: LockOptions = {}): Promise<Lock> {
  const { signal, onWait, pause = (seconds) => sleep(1000 * seconds) } = options;
  for (let tries = 0; ; tries++) {
    try {
      return await takeLock(folder);
    } catch (error) {
      const isHeld = error instanceof LayergraftError && error.code === "locked";
      if (!isHeld || signal?.aborted) throw error;
      // Most are gone in a moment.
      if (tries === 4) onWait?.();
    }
    await pause(PAUSE);
  }
}
