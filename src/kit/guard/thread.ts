// Entry of the thread between the waiting caller and the guarded process, which it starts, times and ends.
import { type MessagePort, workerData } from "node:worker_threads";
import { Answerer, plainError } from "../ask.js";
import { startGuarded } from "./child.js";
import { GUARD_MEBIBYTES, GuardError, type GuardedCall, type GuardedOutcome } from "./guarded.js";
import type { GuardAnswers } from "./process.js";

const TICK_MS = 20;

type Guard = Answerer<GuardAnswers, "begun">;

const { port, signal } = workerData as { port: MessagePort; signal: Int32Array };
let guard: Guard | undefined;

function startGuard(): Guard {
  return new Answerer(startGuarded("#guard-process", GUARD_MEBIBYTES), (code) =>
    code === 1 ? new Error("the guarded process does not start") : GuardError.ofMemory(),
  );
}

async function outcomeOf(call: GuardedCall): Promise<GuardedOutcome> {
  if (!guard || guard.hasEnded) guard = startGuard();
  const current = guard;
  let timer: NodeJS.Timeout | undefined;
  // Counts ticks, as a suspended process gets only one for all of that time.
  const onEvent = () => {
    let left = (1000 * call.seconds) / TICK_MS;
    timer = setInterval(() => {
      if (--left <= 0) current.end(new GuardError(`took longer than ${call.seconds} s`));
    }, TICK_MS);
  };
  try {
    return { value: await current.ask("call", call, { onEvent }) };
  } catch (error) {
    return { error: plainError(error) };
  } finally {
    clearInterval(timer);
  }
}

port.on("message", async (call: GuardedCall) => {
  port.postMessage(await outcomeOf(call));
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
