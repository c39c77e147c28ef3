import { parse } from "yaml";
import type { Check } from "../../protocol/index.ts";
import { type Board, boardOfRecipe, type RecipeValue } from "../../recipe/board.ts";

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

/** @param defaults numbers of layers of a swap that has none, which depend on the depth */
export function boardOfText(recipe: RecipeValue | undefined, layers: number, defaults: Defaults): Board | undefined {
  if (!recipe || layers === 0) return undefined;
  const isByCount = recipe.method === "swap" && recipe.layers === undefined;
  return boardOfRecipe(isByCount ? { ...defaults, ...recipe } : recipe, layers);
}
