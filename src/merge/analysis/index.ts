export {
  type Analysis,
  type AnalysisWithRows,
  type AnalyzeOptions,
  analyzeExperts,
  type DeltaFigures,
  type Figures,
} from "./analysis.js";
export { changedRowsOf, columnName, heatmapOf, overlapOf } from "./analysis-views.js";
export { alikeSentences, concludeSuggestions } from "./conclusion.js";
export { type ExplainedTensor, type Explanation, explainMerge } from "./explain.js";
export {
  findLanguageNeurons,
  type LanguageNeuron,
  type LanguageNeurons,
  type NeuronOptions,
} from "./language-neurons.js";
export { type AnalysisPage, pageData } from "./page-data.js";
export { mostChangedRows } from "./read-analysis.js";
export { type LayerRouting, type MergeRouting, mergeRouting, type Routing, routingSentences } from "./routing.js";
export { type Suggestion, type SuggestOptions, suggestRecipes } from "./suggest.js";
export { AUTO_RULE, parseThreshold, THRESHOLD_PRESETS, type ThresholdSpec } from "./thresholds.js";
export { type TrainingSign, type TrainingSigns, trainingSentences } from "./training-signs.js";
export { type AnalysisOutput, checkAnalysisOutput, writeAnalysis } from "./write-analysis.js";
