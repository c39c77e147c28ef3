// Entry of the guarded process, which runs one call after another.
import { endWithParent } from "./child.js";
import type { GuardedCall, GuardedOutcome } from "./guarded.js";

/** Most characters and entries of a result: more than any text that a model reads. */
const MAX_RESULT = 32_000_000;

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
    // The time limit starts here.
    process.send?.("begun");
    const value = functions[name]?.(...args);
    return sizeOf(value) > MAX_RESULT ? { exceeded: "memory" } : { value };
  } catch (error) {
    const { name, message } = error as Error;
    return { thrown: { name, message } };
  }
}

process.on("message", (call: GuardedCall) => {
  void outcomeOf(call).then((outcome) => process.send?.(outcome));
});
endWithParent();
