// What a merge of a main table is, in words for readers who know neither the plan nor the methods.
import { checkRecipe, METHODS, methodOf, type SwapRecipe, swapInWords } from "../../merge/index.js";
import type { MergeModel } from "../expand/plan-models.js";

/**
 * Of a layer swap, whose each layer is; of others, the method.
 * @param layers of the base; undefined if they are not known
 * @returns empty where models have several configurations, and where a merge's name says it
 */
export function mergeInWords(models: readonly MergeModel[], layers: number | undefined): string {
  const [first] = models;
  if (!first || typeof first.source === "string") return "";
  if (models.some(({ configuration }) => configuration.label !== first.configuration.label)) return "";
  const { name, recipe: written, suggest } = first.merge;
  const recipe = checkRecipe(first.source);
  if (recipe.method === "swap" && layers !== undefined) {
    const words = Object(written ?? suggest) as Readonly<Record<string, unknown>>;
    const nameOf = (field: "task" | "language") => {
      const word = words[field];
      if (typeof word !== "string" || word === field) return `the ${field} expert`;
      return word === "base" ? "the base" : word;
    };
    return swapInWords(recipe as SwapRecipe, nameOf, layers);
  }
  if (recipe.method === "soup") {
    const weighting = methodOf(recipe).weighting?.(recipe) ?? "equally";
    return `mean of all parameters${weighting === "equally" ? "" : `, weighted ${weighting}`}`;
  }
  const { title = recipe.method } = METHODS.find((method) => method.name === recipe.method) ?? {};
  return name.toLowerCase().includes(title.toLowerCase()) ? "" : title;
}
