// Entry of the thread between the waiting caller and the guarded process, which it starts, times and ends.
import type { ChildProcess } from "node:child_process";
import { type MessagePort, workerData } from "node:worker_threads";
import { startGuarded } from "./child.js";
import type { GuardedCall, GuardedOutcome } from "./guarded.js";

const TICK_MS = 20;

const { port, signal, mebibytes } = workerData as { port: MessagePort; signal: Int32Array; mebibytes: number };
let running: ChildProcess | undefined;
let seconds = 0;
let timer: NodeJS.Timeout | undefined;

function answer(outcome: GuardedOutcome): void {
  clearInterval(timer);
  port.postMessage(outcome);
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
}

function start(): ChildProcess {
  const child = startGuarded("#guard-process", mebibytes);
  child.on("message", (message: "begun" | GuardedOutcome) => {
    if (message === "begun") time(child);
    else answer(message);
  });
  const failed = (outcome: GuardedOutcome) => {
    if (running !== child) return;
    running = undefined;
    answer(outcome);
  };
  child.on("error", ({ message }) => failed({ broken: `the guarded process failed: ${message}` }));
  child.on("exit", (code) =>
    failed(code === 1 ? { broken: "the guarded process does not start" } : { exceeded: "memory" }),
  );
  return child;
}

/** Ends a process that takes too long. Counts ticks, as a suspended process gets only one for all of that time. */
function time(child: ChildProcess): void {
  let left = (1000 * seconds) / TICK_MS;
  timer = setInterval(() => {
    if (--left > 0) return;
    running = undefined;
    child.kill("SIGKILL");
    answer({ exceeded: "time" });
  }, TICK_MS);
}

port.on("message", (call: GuardedCall) => {
  seconds = call.seconds;
  running ??= start();
  running.send(call);
});
