// The lock of a step's folder. Another process that runs the step is waited for, as its result is what is wanted.

import { setTimeout as sleep } from "node:timers/promises";
import { LayergraftError, type Lock, takeLock } from "../../core/index.js";

/** Seconds between two attempts. */
const RETRY_DELAY = 0.25;

export interface LockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called once, if another process runs the step. */
  readonly onWait?: (() => void) | undefined;
  /** For tests. */
  readonly pause?: (seconds: number) => Promise<unknown>;
}

/**
 * Takes the lock of a step once its holder ends or is gone: a job that Slurm no longer knows, or a process that has yet
 * to notice that its runner is gone.
 * @throws LayergraftError code `locked` if the signal fires first
 */
export async function takeStepLock(folder: string, options: LockOptions = {}): Promise<Lock> {
  const { signal, onWait, pause = (seconds) => sleep(1000 * seconds) } = options;
  for (let attempt = 0; ; attempt++) {
    try {
      return await takeLock(folder);
    } catch (error) {
      const isHeld = error instanceof LayergraftError && error.code === "locked";
      if (!isHeld || signal?.aborted) throw error;
      // Most holders end within a second.
      if (attempt === 4) onWait?.();
    }
    await pause(RETRY_DELAY);
  }
}
