// Entry point of a worker thread.

import { parentPort, workerData } from "node:worker_threads";
import { LayergraftError } from "../../core/index.js";
import type { Payload, Program } from "./program.js";
import { type Shared, Worker } from "./thread-work.js";

/**
 * Message of a thread: payloads of pieces, and finally whether it failed. Errors are plain data because messages do not
 * keep classes.
 */
export interface ThreadReport {
  readonly piece?: { readonly index: number; readonly payload: Payload };
  readonly error?: {
    readonly message: string;
    readonly code: string | undefined;
    readonly where: LayergraftError["where"];
  };
}

const { program, shared } = workerData as { program: Program; shared: Shared };
const worker = new Worker(program, shared, (index, payload) => {
  const report: ThreadReport = { piece: { index, payload } };
  const arrays = "experts" in payload ? payload.experts.map(({ rows }) => rows) : [payload];
  parentPort?.postMessage(
    report,
    arrays.map(({ buffer }) => buffer as ArrayBuffer),
  );
});
const report: { error?: ThreadReport["error"] } = {};
try {
  while (worker.step());
} catch (error) {
  const where = error instanceof LayergraftError ? error.where : {};
  const { message, code } = error as NodeJS.ErrnoException;
  report.error = { message, code, where };
} finally {
  worker.close();
}
parentPort?.postMessage(report);
