// The verbs of the library, as functions.

export { type AnalyzeOptions, type AnalyzeResult, analyze } from "./analyze.js";
export {
  type DiffOptions,
  type DiffResult,
  diff,
  type ExplainOptions,
  type ExplainResult,
  explain,
  type InspectResult,
  inspect,
  type VerifyOptions,
  type VerifyResult,
  verify,
} from "./checkpoints.js";
export {
  type EvaluateOptions,
  type EvaluateProgress,
  type EvaluateResult,
  evaluate,
  type TaskScore,
} from "./evaluate.js";
export { type ExportOptions, type ExportResult, exportModel } from "./export.js";
export { type ExtractOptions, type ExtractResult, extract } from "./extract.js";
export type {
  AnalyzeInput,
  EvalInput,
  ExtractInput,
  MeasureInput,
  MergeInput,
  NeuronsInput,
  RecipeInput,
  RecipeOf,
  RevertInput,
  RunInput,
  SoupInput,
  Source,
  SuggestInput,
  SwapInput,
  TransplantInput,
} from "./inputs.js";
export { type MeasureOptions, type MeasureResult, measure } from "./measure.js";
export { type MergeOptions, type MergeResult, type MergeWorkOptions, merge } from "./merge.js";
export {
  type Answer,
  type GenerateOptions,
  Model,
  type ModelInput,
  type OpenModelOptions,
  openModel,
  type ScoreOptions,
  type TextScore,
} from "./model.js";
export { type NeuronsResult, neurons } from "./neurons.js";
export { MergePlan, openPlan, type PlanMergeOptions, planMerge } from "./plan-merge.js";
export { type PushOptions, push } from "./push.js";
export { revert } from "./revert.js";
export { type ModelServer, type ServedRequest, type ServeOptions, serve } from "./serve.js";
export { soup } from "./soup.js";
export { type SuggestOptions, type SuggestResult, suggest } from "./suggest.js";
export { swap } from "./swap.js";
export { type TrainOptions, type TrainProgress, type TrainResult, train } from "./train.js";
export { transplant } from "./transplant.js";
