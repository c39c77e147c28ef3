// Entry of the thread that writes states while training goes on.
import { parentPort } from "node:worker_threads";
import { isAnySystemError, LayergraftError, systemMessage } from "../../kit/index.js";
import type { StateOrder, StateReply } from "./background-states.js";
import { writeState } from "./state.js";

const problemOf = (error: unknown): NonNullable<StateReply["problem"]> => {
  if (error instanceof LayergraftError) return { code: error.code, message: error.message, where: error.where };
  const message = isAnySystemError(error) ? systemMessage(error) : String(error);
  return { code: "output", message, where: {} };
};

parentPort?.on("message", async ({ states, state }: StateOrder) => {
  const reply: StateReply = await writeState(states, state).then(
    () => ({}),
    (error: unknown) => ({ problem: problemOf(error) }),
  );
  parentPort?.postMessage(reply);
});
