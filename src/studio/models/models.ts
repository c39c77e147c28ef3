// What the page asks about models, answered in a thread: reading a model or a tokenizer may take seconds.
import { join } from "node:path";
import { LayergraftError, RecipeError } from "../../kit/index.js";
import { inspect, planMerge } from "../../verbs/index.js";
import type { Check, Input, Model, Output } from "../protocol/index.js";
import { checkRecipeText } from "./check-recipe.js";
import { fingerprintsOf } from "./fingerprints.js";

type Project = { readonly folder: string };

export const MODELS = {
  async card({ folder, source, base }: Project & Input<"inspect">): Promise<Model> {
    const { allTensors: _, warnings: _warnings, ...found } = await inspect({ source }, { folder });
    const problems = base === null || base === source ? [] : await problemsWith(source, base, folder);
    return { ...found, problems };
  },
  fingerprints: ({ folder, sources }: Project & Input<"fingerprints">): Promise<Output<"fingerprints">> =>
    fingerprintsOf(sources, folder),
  check: ({ folder, text }: Project & Input<"recipe.check">): Promise<Check> =>
    checkRecipeText(text, join(folder, "recipes")),
};

/** Why an expert and a base cannot be merged, as the plan of a merge that computes with both says it. */
async function problemsWith(expert: string, base: string, folder: string): Promise<readonly string[]> {
  try {
    return (await planMerge({ method: "revert", expert, base, rows_below: 1 }, { folder })).unrelated;
  } catch (error) {
    if (error instanceof RecipeError || !(error instanceof Error)) throw error;
    return error instanceof LayergraftError ? error.reasons : [error.message];
  }
}
