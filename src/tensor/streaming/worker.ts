import { parentPort, workerData } from "node:worker_threads";
import { isOutOfMemory, LayergraftError } from "../../kit/index.js";
import { runCode } from "./own-code.js";
import type { Payload, Program } from "./program.js";
import type { Shared } from "./shared.js";
import { Worker } from "./thread-work.js";
import { type Arithmetic, addArithmetic } from "./value-operation.js";

/**
 * Message of a thread: pieces that are done, and finally whether it failed. Errors are plain data because messages do not
 * keep classes.
 */
export interface ThreadReport {
  readonly piece?: { readonly index: number; readonly payload: Payload | undefined };
  readonly error?: {
    readonly message: string;
    readonly code: string | undefined;
    readonly where: LayergraftError["where"];
  };
}

/** The arrays of a payload, which are moved and not copied. */
function arraysOf(payload: Payload): readonly (Float32Array | Float64Array | Uint32Array)[] {
  if ("experts" in payload) return payload.experts.map(({ rows }) => rows);
  return "rank" in payload ? [payload.left, payload.right, payload.gains] : [payload];
}

/** Does the work of this thread, with the arithmetic of methods. */
export async function runThread(arithmetic: readonly Arithmetic[]): Promise<void> {
  addArithmetic(arithmetic);
  const { program, shared, code } = workerData as { program: Program; shared: Shared; code: readonly string[] };
  for (const text of code) await runCode(text);
  const worker = new Worker(program, shared, (index, payload) => {
    const report: ThreadReport = { piece: { index, payload } };
    if (payload === undefined) {
      // Only memory that waits for the piece needs to know.
      if (shared.window) parentPort?.postMessage(report);
      return;
    }
    parentPort?.postMessage(
      report,
      arraysOf(payload).map(({ buffer }) => buffer as ArrayBuffer),
    );
  });
  const report: { error?: ThreadReport["error"] } = {};
  try {
    while (worker.step());
  } catch (error) {
    const where = error instanceof LayergraftError ? error.where : {};
    const { message, code } = error as NodeJS.ErrnoException;
    report.error = { message, code: isOutOfMemory(error) ? "memory" : code, where };
  } finally {
    worker.close();
  }
  parentPort?.postMessage(report);
}
