/**
 * Recipe types and files, the types of plans and analyses, and language-specific neurons.
 * @module layergraft/merge
 */
export {
  type Analysis,
  findLanguageNeurons,
  type LanguageNeuron,
  type LanguageNeurons,
  type NeuronOptions,
  parseThreshold,
  type ThresholdSpec,
} from "../../merge/analysis/index.js";
export {
  type MethodKit,
  type MethodReference,
  methodReferences,
  type OwnMethod,
  type Plan,
  parseRecipe,
  readRecipe,
  recipeJsonSchema,
} from "../../merge/index.js";
export { readMergekit } from "../../merge/mergekit/index.js";
export type { RecipeOf } from "../../verbs/index.js";
