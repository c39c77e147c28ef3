/**
 * Recipe types and files, and the types of plans and analyses.
 * @module layergraft/merge
 */
export {
  type Analysis,
  type MethodKit,
  type MethodReference,
  methodReferences,
  type OwnMethod,
  type Plan,
  parseRecipe,
  parseThreshold,
  readMergekit,
  readRecipe,
  recipeJsonSchema,
  type ThresholdSpec,
} from "../../merge/index.js";
export type { RecipeOf } from "../inputs.js";
