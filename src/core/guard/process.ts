// Entry of the guarded process: calls one function after the other.
import { Worker } from "node:worker_threads";
import type { GuardedCall, GuardedOutcome } from "./index.js";

/** Characters and entries of a result, which the caller has to hold: more than any text that a model reads. */
const MOST_RESULT = 32_000_000;

function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  let size = 1;
  for (const inner of Object.values(value)) size += sizeOf(inner);
  return size;
}

async function outcomeOf({ module, name, args }: GuardedCall): Promise<GuardedOutcome> {
  try {
    const functions = (await import(module)) as Record<string, (...args: readonly unknown[]) => unknown>;
    // From here on it is timed.
    process.send?.("begun");
    const value = functions[name]?.(...args);
    return sizeOf(value) > MOST_RESULT ? { exceeded: "memory" } : { value };
  } catch (error) {
    const { name, message } = error as Error;
    return { thrown: { name, message } };
  }
}

process.on("message", (call: GuardedCall) => {
  void outcomeOf(call).then((outcome) => process.send?.(outcome));
});
// Ctrl-C reaches the whole group; the caller decides.
process.on("SIGINT", () => {});
process.on("disconnect", () => process.exit());
// A call that runs keeps "disconnect" waiting, so a thread sees whether the caller was killed.
const watch = `setInterval(() => process.ppid === ${process.ppid} || process.kill(process.pid, "SIGKILL"), 500)`;
new Worker(watch, { eval: true, execArgv: [] }).unref();
