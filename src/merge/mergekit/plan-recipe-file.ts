import type { HubAccess } from "../../formats/checkpoint/index.js";
import { RecipeError } from "../../kit/index.js";
import { type OpenedPlan, planRecipe } from "../plan/planner.js";
import { findMethod, mapSources, type RecipeInput } from "../plan/recipe.js";
import { readRecipe } from "../plan/recipe-file.js";
import { readMergekit } from "./read-mergekit.js";

/**
 * Plans a recipe file or a mergekit configuration. Relative paths start from the recipe's folder, or for a mergekit
 * configuration from the working folder, as in mergekit.
 * @param fields override those of the file
 * @param hub access to the hub for sources that are not on this machine; none by default
 * @param allowCode whether to run a file that the recipe names as its method
 * @param seed seed of each method in it that makes random choices; default: those of the recipe
 * @returns the plan, and notes on the translation of a mergekit configuration
 * @throws RecipeError with the line of each problem, including problems that only the models reveal
 * @throws see `planRecipe`
 */
export async function planRecipeFile(
  file: string,
  fields: Partial<RecipeInput> = {},
  hub?: HubAccess,
  allowCode = false,
  seed?: number,
): Promise<{ readonly opened: OpenedPlan; readonly notes: readonly string[] }> {
  const converted = await readMergekit(file, hub);
  if (converted) {
    const recipe = seeded({ ...converted.recipe, ...fields } as RecipeInput, seed);
    return { opened: await planRecipe(recipe, { hub }), notes: converted.notes };
  }
  const { recipe: written, folder, lineOf } = await readRecipe(file);
  try {
    const recipe = seeded({ ...written, ...fields } as RecipeInput, seed);
    return { opened: await planRecipe(recipe, { folder, hub, allowCode }), notes: [] };
  } catch (error) {
    const line = error instanceof RecipeError && error.where.field ? lineOf(error.where.field) : undefined;
    if (!(error instanceof RecipeError) || line === undefined) throw error;
    throw RecipeError.at(error.where, `${file}, line ${line}: ${error.message}`);
  }
}

function seeded<R extends { readonly method: string }>(recipe: R, seed: number | undefined): R {
  if (seed === undefined) return recipe;
  const inner = mapSources(recipe, (source) => (typeof source === "string" ? source : seeded(source, seed)));
  return "seed" in (findMethod(recipe.method)?.schema.shape ?? {}) ? { ...inner, seed } : inner;
}
