import type { Language } from "../../kit/index.js";
import { fidelityOf } from "../answers/fidelity.js";
import { splitReasoning } from "../answers/reasoning.js";
import { asGenerate } from "./multiple-choice.js";
import type { Metric, Reading, Task, Verdict } from "./task.js";

const metric = (name: string, title: string): Metric => {
  return { name, title, of: name, by: "mean", scale: "share", isAside: true };
};

const METRICS: readonly Metric[] = [
  metric("in_language", "in the asked language"),
  metric("in_script", "in its script"),
  metric("reasoning_in_language", "reasoning in the asked language"),
  metric("reasoning_in_script", "reasoning in its script"),
];

type Judging = Pick<Task, "metrics" | "read" | "score">;

/**
 * A task whose answers are read without the reasoning before them, and measured by the language they are written in.
 * @param answersIn of all items, or `by item`; undefined where answers are in no language, such as programs
 */
export function withFidelity<T extends Judging>(task: T, answersIn: Language | "by item" | undefined): T {
  return {
    ...task,
    metrics: answersIn ? [...task.metrics, ...METRICS] : task.metrics,
    read(item, output) {
      if (typeof output !== "string") return task.read(item, output);
      const { answer, reasoning } = splitReasoning(output);
      const language = answersIn === "by item" ? asGenerate(item).answersIn : answersIn;
      return { ...task.read(item, answer), ...(language ? sharesOf(answer, reasoning, language) : {}) };
    },
    async score(item, reading, options) {
      const verdict = await task.score(item, reading, options);
      const shares = METRICS.flatMap(({ of }) => (typeof reading[of] === "number" ? [[of, reading[of]]] : []));
      return verdict && { ...verdict, ...(Object.fromEntries(shares) as Verdict) };
    },
  };
}

function sharesOf(answer: string, reasoning: string | undefined, language: Language): Reading {
  const own = fidelityOf(answer, language);
  const apart = reasoning === undefined ? undefined : fidelityOf(reasoning, language);
  const shares = {
    in_language: own.language,
    in_script: own.script,
    reasoning_in_language: apart?.language,
    reasoning_in_script: apart?.script,
  };
  return Object.fromEntries(Object.entries(shares).filter(([, share]) => share !== undefined));
}
