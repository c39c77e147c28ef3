// The public face of analysis/.
export {
  type Analysis,
  type AnalysisWithRows,
  type AnalyzeOptions,
  analyzeExperts,
  type DeltaFigures,
  type Figures,
  type LocatedRecipe,
  type PairFigures,
  type TensorAnalysis,
} from "./analysis.js";
export { type Suggestion, type SuggestOptions, suggestRecipes } from "./suggest.js";
export { AUTO_RULE, parseThreshold, THRESHOLD_PRESETS, type ThresholdSpec } from "./thresholds.js";
export { heatmapOf, type PageData, pageData } from "./views.js";
