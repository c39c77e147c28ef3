// A plan from a file: a recipe, or a mergekit configuration.
import { RecipeError } from "../../core/index.js";
import { type OpenedPlan, planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../plan/recipe.js";
import { readRecipe } from "../plan/recipe-file.js";
import { readMergekit } from "./read-mergekit.js";

/**
 * Makes the plan of a recipe file or a mergekit configuration. Relative paths start from the recipe's folder; those of a
 * mergekit configuration from the working folder, as mergekit's do.
 * @param fields override those of the file
 * @returns the plan, and notes on how a mergekit configuration was understood
 * @throws RecipeError with the line with the problem, also where only the models show the error
 * @throws see `planRecipe`
 */
export async function planRecipeFile(
  file: string,
  fields: Partial<RecipeInput> = {},
): Promise<{ readonly opened: OpenedPlan; readonly notes: readonly string[] }> {
  const converted = await readMergekit(file);
  if (converted) {
    const recipe = { ...converted.recipe, ...fields } as RecipeInput;
    return { opened: await planRecipe(recipe), notes: converted.notes };
  }
  const { recipe, folder, lineOf } = await readRecipe(file);
  try {
    return { opened: await planRecipe({ ...recipe, ...fields } as RecipeInput, { folder }), notes: [] };
  } catch (error) {
    const line = error instanceof RecipeError && error.where.field ? lineOf(error.where.field) : undefined;
    if (!(error instanceof RecipeError) || line === undefined) throw error;
    throw RecipeError.at(error.where, `${file}, line ${line}: ${error.message}`);
  }
}
