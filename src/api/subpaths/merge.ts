/**
 * Recipe types and files, the types of plans and analyses, and language-specific neurons.
 * @module layergraft/merge
 */
export {
  type Analysis,
  findLanguageNeurons,
  type LanguageNeuron,
  type LanguageNeurons,
  type MethodKit,
  type MethodReference,
  methodReferences,
  type NeuronOptions,
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
