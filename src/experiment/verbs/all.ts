// Every verb: those of models and results, and those of experiments.
import { usageError } from "../../kit/index.js";
import { type ListedVerb, listed, VERBS as OF_MODELS, type Verb } from "../../verbs/list/index.js";

export type { ListedVerb };

export const VERBS: readonly ListedVerb[] = [
  ...OF_MODELS,
  ...listed("Experiment", {
    tune: ["search the best merge of two experts by your own task", async () => (await import("./tune.js")).tuneVerb],
  }),
];

/** @throws LayergraftError code `usage` if there is no such verb */
export async function loadVerb(name: string): Promise<Verb> {
  const found = VERBS.find((verb) => verb.name === name);
  if (!found) throw usageError(`${name} is not a verb. Choose one of ${VERBS.map((one) => one.name).join(", ")}.`);
  return found.load();
}

/** In the order of the list. */
export const loadVerbs = (): Promise<Verb[]> => Promise.all(VERBS.map(({ load }) => load()));
