// The public face of merge/.

export type { Measurement } from "./measurements/measure.js";
export type { NestedRecipe, SourceRecipe } from "./methods/fields.js";
export { METHODS } from "./methods/index.js";
export type { Method } from "./methods/method.js";
export { defaultSwapLayers, ownerOfLayer, type SwapLayers, swapLayers } from "./methods/swap.js";
export { checkOutput, type ExecuteOptions, type ExecuteResult, executePlan } from "./output/execute.js";
export { type Provenance, readProvenance } from "./output/provenance.js";
export { type Ownership, type PlanSummary, summarizePlan } from "./output/summary.js";
export { type Deviation, type Verification, type VerifyOptions, verifyOutput } from "./output/verify.js";
export { outputConfig, writeCompanions } from "./plan/companions.js";
export {
  type FieldReference,
  type MethodReference,
  methodReferences,
  outputReferences,
  recipeJsonSchema,
} from "./plan/method-reference.js";
export { PLAN_FORMAT, type Plan, type PlanSource, type Step } from "./plan/plan.js";
export { type OpenedPlan, openPlan, planRecipe, planSoup, planSwap } from "./plan/planner.js";
export type { MergeRecipe, MergeRecipeInput, Recipe, RecipeInput } from "./plan/recipe.js";
export { checkRecipe, parseRecipe, readRecipe } from "./plan/recipe-file.js";
