// Entry of the thread that writes states while training goes on.
import { answerQuestions } from "../../kit/index.js";
import { type StateToWrite, writeState } from "./state.js";

const ANSWERS = {
  write: ({ states, state }: { readonly states: string; readonly state: StateToWrite }) => writeState(states, state),
};
export type StateAnswers = typeof ANSWERS;

answerQuestions(ANSWERS);
