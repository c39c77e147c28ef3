// Entry of a worker thread. Everything it does is in work.ts.
import { parentPort, workerData } from "node:worker_threads";
import { LayergraftError } from "../core/errors.js";
import type { Program } from "./program.js";
import { type Shared, Worker } from "./work.js";

/** How a thread reports that it is through; errors travel as plain data because classes do not survive the way. */
export interface ThreadReport {
  readonly error?: {
    readonly message: string;
    readonly code: string | undefined;
    readonly where: LayergraftError["where"];
  };
}

const { program, shared } = workerData as { program: Program; shared: Shared };
const worker = new Worker(program, shared);
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
