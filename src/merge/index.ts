export { changeOf, comparedChanges, whereChanged } from "./compared-changes.js";
export { hasDefaultLayers, LAYER_COUNTS, presetLayers } from "./layer-owner.js";
export { METHODS } from "./methods/index.js";
export { type SourceRecipe, sourceField } from "./methods/method.js";
export { STATISTICS, type StatisticsKind } from "./methods/source-fields.js";
export { type SwapRecipe, swapInWords, swapOwners } from "./methods/swap.js";
export { PLAN_FORMAT, type PlanSource, PROVENANCE_FILE, type Step } from "./model-plan.js";
export { isOnFactors } from "./plan/factor-sources.js";
export { openPlan } from "./plan/open-plan.js";
export { withDType } from "./plan/output-dtypes.js";
export { type OpenedPlan, planRecipe, planRecipeFile, planVersions, toWrite } from "./plan/planner.js";
export { isRecipeFile } from "./recipe/inner-recipes.js";
export {
  type MethodReference,
  methodReferences,
  outputReferences,
  recipeJsonSchema,
} from "./recipe/method-reference.js";
export type { MethodKit, OwnMethod } from "./recipe/own-methods.js";
export {
  mapSources,
  methodOf,
  OUTPUT_DTYPES,
  outputSchema,
  type Plan,
  type RecipeInput,
  sourceFieldsOf,
  sourcesOf,
} from "./recipe/recipe.js";
export { checkRecipe, parseRecipe, readRecipe, recipeProblems } from "./recipe/recipe-file.js";
