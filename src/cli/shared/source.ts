import { type LocatedRecipe, readRecipe } from "../../merge/index.js";

/** A source as given, or the recipe in the file that it names. */
export async function sourceOrRecipe(source: string): Promise<string | LocatedRecipe> {
  if (!/\.(ya?ml|json)$/.test(source)) return source;
  const { recipe, folder } = await readRecipe(source);
  return { recipe: { ...recipe }, folder };
}
