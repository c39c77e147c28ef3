// The public face of merge/.
export { checkOutput, type ExecuteOptions, type ExecuteResult, executePlan } from "./execute.js";
export { defaultSwapLayers, ownerOfLayer, type SwapLayers, swapLayers } from "./methods/swap.js";
export { type Measurement, PLAN_FORMAT, type Plan, type PlanSource, type Step } from "./plan.js";
export { type OpenedPlan, openPlan, planRecipe, planSoup, planSwap } from "./planner.js";
export { type Provenance, readProvenance } from "./provenance.js";
export type { MergeRecipe, Recipe, RecipeInput, SoupRecipe, SourceRecipe, SwapRecipe } from "./recipe.js";
export { checkRecipe, parseRecipe, readRecipe } from "./recipe-file.js";
export { type Ownership, type PlanSummary, summarizePlan } from "./summary.js";
export { type Deviation, type Verification, type VerifyOptions, verifyOutput } from "./verify.js";
