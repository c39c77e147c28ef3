// A worker's process: takes orders over the channel that it was forked with, runs each step, and says how it ended. What
// steps do is steps/run-step.ts's; who forks it, local.ts.
import { AnswererPool } from "../steps/answer.js";
import { runStepFolder } from "../steps/run-step.js";
import type { WorkerMessage, WorkerOrder } from "./local.js";

const controller = new AbortController();
const answerers = new AnswererPool();

function say(message: WorkerMessage): void {
  // A runner that was killed hears nothing; what it would have been told stands in the step's folder.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

process.on("SIGTERM", () => {
  controller.abort();
  if (!isBusy) process.exit(0);
});
// Ctrl-C is for the runner, which asks its workers to stop.
process.on("SIGINT", () => undefined);
// The runner is gone: what is being written is of use, what would come after is not.
process.on("disconnect", () => {
  controller.abort();
  if (!isBusy) process.exit(0);
});

let isBusy = false;

process.on("message", (order: WorkerOrder) => {
  isBusy = true;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  runStepFolder(order.folder, {
    answerers,
    signal: controller.signal,
    onProgress: (share, what) => say({ say: "progress", share, what }),
  }).then(
    () => {
      isBusy = false;
      say({ say: "done", seconds: seconds() });
      if (controller.signal.aborted) process.exit(0);
    },
    (error: unknown) => {
      isBusy = false;
      // A step that was stopped is no failure: the runner sees the process leave.
      if (controller.signal.aborted) process.exit(0);
      say({ say: "failed", reason: error instanceof Error ? error.message : String(error), seconds: seconds() });
    },
  );
});
