// A thread of a pass. It is not asked, as other threads are (`kit/ask.ts`): it shares memory, waits in it synchronously, and
// takes the next piece by itself.
import { parentPort, workerData } from "node:worker_threads";
import { type PlainError, plainError } from "../../kit/index.js";
import { runCode } from "./own-code.js";
import type { Payload, Program } from "./program.js";
import type { Shared } from "./shared.js";
import { PieceWorker } from "./thread-work.js";
import { type Arithmetic, addArithmetic } from "./value-operation.js";

/** Message of a thread: pieces that are done, and finally whether it failed. */
export interface ThreadReport {
  readonly piece?: { readonly index: number; readonly payload: Payload | undefined };
  readonly error?: PlainError;
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
  const worker = new PieceWorker(program, shared, (index, payload) => {
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
  let report: ThreadReport = {};
  try {
    while (worker.step());
  } catch (error) {
    report = { error: plainError(error) };
  } finally {
    worker.close();
  }
  parentPort?.postMessage(report);
}
