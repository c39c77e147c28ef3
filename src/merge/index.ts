export {
  type Analysis,
  type AnalysisWithRows,
  type AnalyzeOptions,
  analyzeExperts,
  type DeltaFigures,
  type ExpertFigures,
  type Figures,
} from "./analysis/analysis.js";
export { columnName, heatmapOf, overlapOf } from "./analysis/analysis-views.js";
export { type ExplainedTensor, type Explanation, explainMerge } from "./analysis/explain.js";
export {
  findLanguageNeurons,
  type LanguageNeuron,
  type LanguageNeurons,
  type NeuronOptions,
} from "./analysis/language-neurons.js";
export { type AnalysisPage, type PageCell, type PagePairCell, pageData } from "./analysis/page-data.js";
export { type ChangedRow, mostChangedRows } from "./analysis/read-analysis.js";
export { type LayerOwners, type Suggestion, type SuggestOptions, suggestRecipes } from "./analysis/suggest.js";
export { AUTO_RULE, parseThreshold, THRESHOLD_PRESETS, type ThresholdSpec } from "./analysis/thresholds.js";
export { type AnalysisOutput, checkAnalysisOutput, writeAnalysis } from "./analysis/write-analysis.js";
export { type ExtractionOutput, extractAdapter } from "./extract/extract.js";
export type { ExtractedModule, ExtractedPart, Extraction } from "./extract/extraction.js";
export type { ExtractOptions } from "./extract/open-models.js";
export { DEFAULT_RANK, type ExtractionPlan, planExtraction } from "./extract/plan-extraction.js";
export { planRecipeFile } from "./mergekit/plan-recipe-file.js";
export { parseMergekit, readMergekit } from "./mergekit/read-mergekit.js";
export type { SourceRecipe } from "./methods/fields.js";
export { METHODS } from "./methods/index.js";
export { type Method, type MethodDefinition, STATISTICS, type StatisticsKind } from "./methods/method.js";
export { defaultSwapLayers, OUTSIDE, type SwapRecipe, swapOwners } from "./methods/swap.js";
export { checkOutput, type ExecuteOptions, type ExecuteResult, executePlan } from "./output/execute-plan.js";
export { checkPush, type PushOptions, type PushResult, pushFolder } from "./output/push.js";
export { measuredOwnership, type PlanSummary, sourceLabels, summarizePlan } from "./output/summary.js";
export { type Verification, type VerifyOptions, verifyOutput } from "./output/verify.js";
export { LAYER_COUNTS, OUTPUT_FIELDS } from "./plain.js";
export { isOnFactors } from "./plan/factor-sources.js";
export { isRecipeFile } from "./plan/inner-recipes.js";
export { type MethodReference, methodReferences, outputReferences, recipeJsonSchema } from "./plan/method-reference.js";
export type { MethodKit, OwnMethod } from "./plan/own-methods.js";
export type { OwnCode, Plan } from "./plan/plan.js";
export { type OpenedPlan, openPlan, planRecipe } from "./plan/planner.js";
export type { MergeRecipe, Recipe, RecipeInput } from "./plan/recipe.js";
export {
  LIST_FIELDS,
  mapSources,
  methodOf,
  OUTPUT_DTYPES,
  OUTPUT_FORMS,
  SOURCE_FIELDS,
  sourcesOf,
} from "./plan/recipe.js";
export { checkRecipe, parseRecipe, readRecipe, recipeProblems } from "./plan/recipe-file.js";
