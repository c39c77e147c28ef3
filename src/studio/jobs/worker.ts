// Entry point of the thread that does a job.
import { parentPort, workerData } from "node:worker_threads";
import { CancelledError, isAnySystemError, LayergraftError, systemMessage } from "../../core/index.js";
import type { JobInput, JobKind } from "../protocol.js";
import { type JobPlace, KINDS, type Progress } from "./kinds.js";

/** What a job's thread is given. */
export interface JobData {
  readonly kind: JobKind;
  readonly input: JobInput;
  readonly place: JobPlace;
}

/** What it sends: errors are plain data, because messages do not keep classes. */
export type JobMessage =
  | { readonly type: "progress"; readonly progress: Progress }
  | { readonly type: "text"; readonly stream: string; readonly text: string }
  | { readonly type: "done"; readonly result: unknown }
  | { readonly type: "cancelled" }
  | {
      readonly type: "failed";
      readonly message: string;
      readonly option?: string | undefined;
      readonly isBug: boolean;
    };

const { kind, input, place } = workerData as JobData;
const send = (message: JobMessage) => parentPort?.postMessage(message);
const controller = new AbortController();
// The only message to it.
parentPort?.once("message", () => controller.abort());
try {
  const work = KINDS[kind] as (typeof KINDS)[JobKind];
  const result = await work(input as never, place, {
    signal: controller.signal,
    onProgress: ({ phase, done, total, unit, parts }) =>
      send({ type: "progress", progress: { phase, done, total, unit, ...(parts ? { parts } : {}) } }),
    onText: (stream, text) => send({ type: "text", stream, text }),
  });
  send({ type: "done", result });
} catch (error) {
  if (error instanceof CancelledError) send({ type: "cancelled" });
  else if (isAnySystemError(error)) send({ type: "failed", message: systemMessage(error), isBug: false });
  else {
    const isBug = !(error instanceof LayergraftError);
    const option = isBug ? undefined : error.where.option;
    send({ type: "failed", message: error instanceof Error ? error.message : String(error), option, isBug });
  }
}
parentPort?.removeAllListeners();
