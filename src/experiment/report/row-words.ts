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
    // Of a control, a nested recipe may be of the other expert; of one that swaps a model with itself, the name says all.
    const isControl = first.merge.controlOf !== undefined;
    const isNested = typeof words.task === "object" || typeof words.language === "object";
    if (isControl && (isNested || words.task === words.language)) return "";
    const nameOf = (field: "task" | "language") => {
      const word = typeof words[field] === "string" ? words[field] : field;
      if (word === "task" || word === "language") return `the ${word} expert`;
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
