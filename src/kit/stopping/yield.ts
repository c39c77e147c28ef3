import { setImmediate as nextTurn } from "node:timers/promises";
import { CancelledError } from "../errors.js";

/** Lets the event loop run, which long computations block. @throws CancelledError if the signal fired */
export async function yieldToEventLoop(signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  if (signal?.aborted) throw new CancelledError("stopped before the end");
}
