// The verbs of the library, as functions.

export { type AnalyzeOptions, type AnalyzeResult, analyze } from "./analyze.js";
export {
  type ExplainOptions,
  type ExplainResult,
  explain,
} from "./checkpoints.js";
export { type CompareResult, compare } from "./compare.js";
export { type DiffOptions, type DiffResult, diff } from "./diff.js";
export {
  type EvaluateOptions,
  type EvaluateProgress,
  type EvaluateResult,
  evaluate,
  type TaskScore,
} from "./evaluate.js";
export { type ExportOptions, type ExportResult, exportModel } from "./export.js";
export { type ExtractOptions, type ExtractResult, extract } from "./extract.js";
export { type AnswerOptions, type GeneratedAnswer, type GenerateResult, generate } from "./generate.js";
export type {
  AnalyzeInput,
  CompareInput,
  DiffInput,
  EvalInput,
  ExportInput,
  ExtractInput,
  GenerateInput,
  InspectInput,
  MeasureInput,
  MergeInput,
  NeuronsInput,
  PushInput,
  RecipeInput,
  RecipeOf,
  RevertInput,
  RunInput,
  ScoreInput,
  SoupInput,
  Source,
  SuggestInput,
  SwapInput,
  TransplantInput,
  VerifyInput,
} from "./inputs.js";
export { type InspectResult, inspect } from "./inspect.js";
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
export { type PushResult, push } from "./push.js";
export { revert } from "./revert.js";
export { type ContinuationLogprob, type NextToken, type ScoreResult, type ScoreTextsOptions, score } from "./score.js";
export { type ModelServer, type ServedRequest, type ServeOptions, serve } from "./serve.js";
export { soup } from "./soup.js";
export { type SuggestOptions, type SuggestResult, suggest } from "./suggest.js";
export { swap } from "./swap.js";
export { type TrainOptions, type TrainProgress, type TrainResult, train } from "./train.js";
export { transplant } from "./transplant.js";
export { type VerifyOptions, type VerifyResult, verify } from "./verify.js";
