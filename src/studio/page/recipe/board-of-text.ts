import { parse } from "yaml";
import type { Check } from "../../protocol/index.js";
import { type Board, boardOfRecipe, type RecipeValue } from "../../recipe/board.js";

export type Defaults = NonNullable<Check["plan"]>["defaults"] | undefined;

/** The recipe of a text; undefined while it is none. */
export function recipeOfText(text: string): RecipeValue | undefined {
  try {
    const value: unknown = parse(text, { maxAliasCount: 0 });
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RecipeValue) : undefined;
  } catch {
    return undefined;
  }
}

export function boardOfText(recipe: RecipeValue | undefined, layers: number, defaults: Defaults): Board | undefined {
  return recipe && layers > 0 ? boardOfRecipe(recipe, layers, defaults) : undefined;
}
