// The process of a local worker: runs the steps that its runner sends.
import { answerQuestions, type Controls, messageOf } from "../../kit/index.js";
import { ModelPool } from "../steps/model-pool.js";
import { runStepFolder } from "../steps/run-step.js";
import type { Outcome } from "./executor.js";
import type { WorkerProgress } from "./local.js";

const models = new ModelPool();
let isBusy = false;
let isStopping = false;

const ANSWERS = {
  /** A failed step is an answer, too. */
  async run(folder: string, { signal, onEvent }: Controls<WorkerProgress>): Promise<Outcome> {
    isBusy = true;
    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    try {
      await runStepFolder(folder, { models, signal, onProgress: (share, what) => onEvent({ share, what }) });
      // Once the answer is sent. Without a runner, the result is in the step's folder.
      if (isStopping) setImmediate(() => process.exit(0));
      return { outcome: "done", seconds: seconds() };
    } catch (error) {
      // A stopped step has not failed: the runner sees the process exit.
      if (isStopping) process.exit(0);
      return { outcome: "failed", reason: messageOf(error), seconds: seconds() };
    } finally {
      isBusy = false;
    }
  },
};
export type WorkerAnswers = typeof ANSWERS;

const cancel = answerQuestions(ANSWERS);

/** Finishes what is being written, such as a checkpoint, and exits. */
function stop(): void {
  isStopping = true;
  cancel();
  if (!isBusy) process.exit(0);
}
process.on("SIGTERM", stop);
process.on("SIGHUP", stop);
// The runner is gone.
process.on("disconnect", stop);
// On Ctrl-C the runner stops its workers.
process.on("SIGINT", () => undefined);
