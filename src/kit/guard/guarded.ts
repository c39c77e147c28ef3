// Runs regular expressions of models in a separate process, bounded in time and memory.
// Not in a thread: V8 aborts the whole process when a thread with resourceLimits allocates too much at once.
// Calls are synchronous: a thread communicates with the process while the caller waits.
import { createRequire } from "node:module";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { errorOf, type PlainError } from "../ask.js";

/** Time limit of a call in seconds; correct ones take milliseconds. */
export const GUARD_SECONDS = 10;

/** Heap limit of the process in MiB. */
export const GUARD_MEBIBYTES = 512;

/** A call that exceeded a limit. The message is a predicate, such as "took longer than 10 s". */
export class GuardError extends Error {
  override readonly name = "GuardError";

  static ofMemory(): GuardError {
    return new GuardError(`took more than ${GUARD_MEBIBYTES} MiB of memory`);
  }
}

/** A call of a function of a module in `imports` of package.json. */
export interface GuardedCall {
  readonly module: string;
  readonly name: string;
  readonly args: readonly unknown[];
  readonly seconds: number;
}

export type GuardedOutcome = { readonly value: unknown } | { readonly error: PlainError };

interface Guard {
  readonly port: MessagePort;
  readonly signal: Int32Array;
}

let guard: Guard | undefined;

function startGuard(): Guard {
  const { port1, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(createRequire(import.meta.url).resolve("#guard-thread"), {
    workerData: { port: port2, signal },
    transferList: [port2],
    execArgv: [],
  });
  thread.unref();
  port1.unref();
  return { port: port1, signal };
}

/**
 * Calls functions of a module in the guarded process. Arguments and results are copied, so they are plain data.
 * @param module a name in `imports` of package.json
 */
export function guarded<M extends Readonly<Record<string, (...args: never[]) => unknown>>>(module: string) {
  return <N extends keyof M & string>(name: N, args: Parameters<M[N]>, seconds = GUARD_SECONDS): ReturnType<M[N]> =>
    run({ module, name, args, seconds }) as ReturnType<M[N]>;
}

export const guardedPatterns = guarded<typeof import("./patterns.js")>("#guarded-patterns");

/** @throws GuardError beyond the limits; errors of the function as errors of the same name */
function run(call: GuardedCall): unknown {
  guard ??= startGuard();
  const { port, signal } = guard;
  Atomics.store(signal, 0, 0);
  port.postMessage(call);
  // In slices, so that time in which the process or the machine was suspended does not count.
  for (let left = call.seconds + 30; left > 0 && Atomics.load(signal, 0) === 0; left--) {
    Atomics.wait(signal, 0, 0, 1000);
  }
  const outcome = receiveMessageOnPort(port)?.message as GuardedOutcome | undefined;
  if (outcome === undefined) {
    guard = undefined;
    throw new Error("the process for regular expressions does not start");
  }
  if ("value" in outcome) return outcome.value;
  const error = errorOf(outcome.error);
  throw error.name === "GuardError" ? new GuardError(error.message) : error;
}
