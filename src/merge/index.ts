// The public face of merge/.

export type { Measurement } from "../delta/measure.js";
export { outputConfig, writeCompanions } from "./companions.js";
export { checkOutput, type ExecuteOptions, type ExecuteResult, executePlan } from "./execute.js";
export type { NestedRecipe, SourceRecipe } from "./fields.js";
export type { Method } from "./method.js";
export { METHODS } from "./methods/index.js";
export { defaultSwapLayers, ownerOfLayer, type SwapLayers, swapLayers } from "./methods/swap.js";
export { PLAN_FORMAT, type Plan, type PlanSource, type Step } from "./plan.js";
export { type OpenedPlan, openPlan, planRecipe, planSoup, planSwap } from "./planner.js";
export { type Provenance, readProvenance } from "./provenance.js";
export type { MergeRecipe, MergeRecipeInput, Recipe, RecipeInput } from "./recipe.js";
export { checkRecipe, parseRecipe, readRecipe } from "./recipe-file.js";
export {
  type FieldReference,
  type MethodReference,
  methodReferences,
  outputReferences,
  recipeJsonSchema,
} from "./reference.js";
export { type Ownership, type PlanSummary, summarizePlan } from "./summary.js";
export { type Deviation, type Verification, type VerifyOptions, verifyOutput } from "./verify.js";
