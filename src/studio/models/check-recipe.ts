// Checks a recipe while it is edited: its problems with their lines, or its plan.

import { LayergraftError, RecipeError } from "../../kit/index.js";
import { formatProblem, loadYaml, pathOf } from "../../kit/settings/index.js";
import { presetLayers, type RecipeInput, recipeProblems } from "../../merge/index.js";
import { planMerge } from "../../verbs/index.js";
import type { Check } from "../protocol/index.js";

/** Bytes of the buffers of a merge, by default. */
const MEMORY = 256e6;

/** @param folder the folder of the recipe, from which its relative paths start */
export async function checkRecipeText(text: string, folder: string): Promise<Check> {
  const { openSettings } = await loadYaml();
  try {
    const document = openSettings(text, "the recipe");
    const problems = recipeProblems(document.value);
    if (problems.length > 0) {
      const located = problems.map((one) => {
        const field = one.path[0] ?? one.unknown ?? null;
        const line = document.lineOf(one.at ?? one.path) ?? null;
        return { line, field: field === null ? null : String(field), message: formatProblem(one) };
      });
      return { problems: located, plan: null };
    }
    try {
      return { problems: [], plan: await planOf(document.value as RecipeInput, folder) };
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      const { field } = error.where;
      const path = field === undefined ? [] : pathOf(field);
      const place = {
        line: field === undefined ? null : (document.lineOf(path) ?? null),
        field: path[0] === undefined ? null : String(path[0]),
      };
      return { problems: error.reasons.map((message) => ({ ...place, message })), plan: null };
    }
  } catch (error) {
    if (!(error instanceof RecipeError)) throw error;
    const located = error.located.length > 0 ? error.located : [{ message: error.message }];
    return { problems: located.map(({ line = null, message }) => ({ line, field: null, message })), plan: null };
  }
}

async function planOf(recipe: RecipeInput, folder: string): Promise<NonNullable<Check["plan"]>> {
  const { summary, notes, unrelated, layers } = await planMerge(recipe, { folder });
  return { ...summary, layers, memory: MEMORY, defaults: presetLayers(layers), notes: [...unrelated, ...notes] };
}
