// Answers Ctrl-C while ONNX Runtime blocks the main thread, where Node.js cannot call listeners.
import { Worker } from "node:worker_threads";
import { END_SIGNALS } from "../../kit/stopping/index.js";

/** Milliseconds that the main thread has to answer. */
const GRACE = 200;
/** Milliseconds after which it is said what a thread that has answered waits for. */
export const PROMPT = 700;

/** Whether the main thread has answered a signal, and whether it has been said what is waited for. */
export const [ANSWERED, SAID] = [1, 2];

/**
 * The thread. It hears signals through Node.js's own binding, as `process.on` hears none there; where a version has no such binding,
 * it does nothing. libuv tells every thread that listens.
 */
export const WATCHER = `
const { workerData, parentPort } = require("node:worker_threads");
const { writeSync } = require("node:fs");
const { constants } = require("node:os");
const { answered, text, grace, prompt, ANSWERED, SAID, names } = workerData;
process.noDeprecation = true;
let [isFirst, asked] = [true, 0];
const say = (state) => {
  if (Atomics.compareExchange(answered, 0, state, SAID) === state) try { writeSync(2, text); } catch {}
};
try {
  const { Signal } = process.binding("signal_wrap");
  for (const name of names) {
    const signal = new Signal();
    signal.onsignal = () => {
      if (name !== "SIGHUP") asked++;
      if (isFirst) for (const [state, after] of [[0, grace], [ANSWERED, prompt]]) setTimeout(say, after, state);
      // What is on the disk is whole at any moment.
      if (asked > 1) setTimeout(() => process.kill(process.pid, "SIGKILL"), grace);
      isFirst = false;
    };
    signal.start(constants.signals[name]);
  }
} catch {}
parentPort.postMessage("listens");
`;

/** A line that says what an interrupt waits for. */
export function stoppingAfter(what: string): string {
  // After a bar, or the text of an answer.
  const start = process.stderr.isTTY ? "\n" : "";
  return `${start}stopping after ${what}; press Ctrl-C again to end at once\n`;
}

/**
 * Watches for interrupts in a thread. If the main thread does not answer the first one at once, or the process is still there after a
 * moment, it prints what is waited for; after a second Ctrl-C or SIGTERM, it ends the process. Where no thread can be started, interrupts wait for the main thread.
 * @param waitsFor such as "this step"
 * @returns `ANSWERED` once the main thread has answered, for it to set; `SAID` once a thread has said what is waited for
 */
export function watchInterrupts(waitsFor: string): Int32Array {
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const text = stoppingAfter(waitsFor);
  try {
    const workerData = { answered, text, grace: GRACE, prompt: PROMPT, ANSWERED, SAID, names: END_SIGNALS };
    const watcher = new Worker(WATCHER, { eval: true, execArgv: [], workerData });
    // Such as no memory for a thread.
    watcher.on("error", () => undefined).unref();
  } catch {
    // Node.js's permission model may allow no threads.
  }
  return answered;
}
