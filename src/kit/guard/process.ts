// Entry of the guarded process, which runs one call after another.
import { answerQuestions, type Controls } from "../ask.js";
import { endWithParent } from "./child.js";
import { GuardError, type GuardedCall } from "./guarded.js";

/** Most characters and entries of a result: more than any text that a model reads. */
const MAX_RESULT = 32_000_000;

function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  let size = 1;
  for (const inner of Object.values(value)) size += sizeOf(inner);
  return size;
}

const ANSWERS = {
  async call({ module, name, args }: GuardedCall, { onEvent }: Controls<"begun">): Promise<unknown> {
    const functions = (await import(module)) as Record<string, (...args: readonly unknown[]) => unknown>;
    // The time limit starts here.
    onEvent("begun");
    const value = functions[name]?.(...args);
    if (sizeOf(value) > MAX_RESULT) throw GuardError.ofMemory();
    return value;
  },
};
export type GuardAnswers = typeof ANSWERS;

answerQuestions(ANSWERS);
endWithParent();
