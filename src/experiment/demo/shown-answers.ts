// What the demo shows while it runs: one of the problems, and what the models answer.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { openEngine } from "../../engine/index.js";
import type { RunEvent } from "../run/run-experiment.js";
import type { Store } from "../run/store.js";
import { NAMES } from "./demo-plan.js";
import { samplesFile, TASKS } from "./demo-report.js";
import { ASK_TO_SOLVE } from "./world/world-files.js";

/** The first of the problems that every model is asked. */
export interface ShownProblem {
  readonly swahili: string;
  readonly english: string;
  readonly gold: number;
  /** What a model is asked. */
  readonly prompt: string;
}

/** A model's answer to it. */
export interface ShownAnswer {
  /** The model, by its name in the plan; of an only pair, without the names of its experts. */
  readonly model: string;
  /** How much of its training the base has had. */
  readonly trained?: number;
  readonly text: string;
  readonly isRight: boolean;
  /** Share of all problems that the model solves, once it is evaluated. */
  readonly score?: number;
}

export async function shownProblem(out: string): Promise<ShownProblem> {
  const text = await readFile(join(out, "data", "problems.jsonl"), "utf8");
  const { sw, en, answer } = JSON.parse(text.slice(0, text.indexOf("\n"))) as Record<string, string | number>;
  return { swahili: `${sw}`, english: `${en}`, gold: Number(answer), prompt: `${sw} ${ASK_TO_SOLVE}` };
}

/** Asks a checkpoint of the base. */
export async function answerOf(folder: string, { prompt, gold }: ShownProblem): Promise<ShownAnswer> {
  const engine = await openEngine(folder, { threads: 1 });
  try {
    const [answer] = await engine.generate([await engine.encode(prompt)], { maxNewTokens: 40, stop: ["\n"] });
    const text = answer?.text.trim() ?? "";
    return { model: "base", text, isRight: Number(/\d+(?=\D*$)/.exec(text)?.[0]) === gold };
  } finally {
    await engine.close();
  }
}

/**
 * The answer of a model whose evaluation on the Swahili problems has just ended; undefined for other events.
 * @param pairs pairs of experts in the demo
 */
export function evaluatedAnswer(event: RunEvent, store: Store, pairs: number): ShownAnswer | undefined {
  const model = new RegExp(`^evaluate (.*) on ${TASKS.sw}$`).exec(event.label)?.[1];
  if (event.event !== "done" || event.score === undefined || model === undefined) return undefined;
  // Read at once, so that answers are shown in the order of the events.
  const text = readFileSync(samplesFile(store.stepFolder(event.key)), "utf8");
  const { output, verdict } = JSON.parse(text.slice(0, text.indexOf("\n")));
  return {
    model: pairs === 1 ? shortName(model) : model,
    ...{ text: String(output ?? "").trim(), isRight: verdict?.exact === 1, score: event.score },
  };
}

/** `layer swap, bottom 2, top 0` of `layer swap, math-1 x swahili-1, bottom 2, top 0` */
function shortName(model: string): string {
  const expert = `(?:${NAMES.math}|${NAMES.language})-1`;
  const short = model.replace(new RegExp(`, ${expert}(?: x ${expert})*`), "");
  const names = { [`${NAMES.math}-1`]: "math expert", [`${NAMES.language}-1`]: "Swahili expert" };
  return names[short] ?? short.replace(/-1$/, "");
}
