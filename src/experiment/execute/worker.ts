// The process of a local worker: runs the steps that its runner sends.
import { messageOf } from "../../kit/index.js";
import { ModelPool } from "../steps/model-pool.js";
import { runStepFolder } from "../steps/run-step.js";
import type { WorkerMessage, WorkerOrder } from "./local.js";

const controller = new AbortController();
const models = new ModelPool();

function send(message: WorkerMessage): void {
  // A killed runner does not receive it; the result is in the step's folder.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

/** Finishes what is being written, such as a checkpoint, and exits. */
function stop(): void {
  controller.abort();
  if (!isBusy) process.exit(0);
}
process.on("SIGTERM", stop);
// The runner is gone.
process.on("disconnect", stop);
// On Ctrl-C the runner stops its workers.
process.on("SIGINT", () => undefined);

let isBusy = false;

process.on("message", (order: WorkerOrder) => {
  isBusy = true;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  runStepFolder(order.folder, {
    models,
    signal: controller.signal,
    onProgress: (share, what) => send({ kind: "progress", share, what }),
  }).then(
    () => {
      isBusy = false;
      send({ kind: "done", seconds: seconds() });
      if (controller.signal.aborted) process.exit(0);
    },
    (error: unknown) => {
      isBusy = false;
      // A stopped step has not failed: the runner sees the process exit.
      if (controller.signal.aborted) process.exit(0);
      send({ kind: "failed", reason: messageOf(error), seconds: seconds() });
    },
  );
});
