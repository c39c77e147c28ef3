// The public API: exports of `import ... from "layergraft"`.

export type { CallOptions, Progress } from "../kit/index.js";
export {
  CancelledError,
  CheckpointError,
  DiskFullError,
  type ErrorWhere,
  FormatError,
  LayergraftError,
  MismatchError,
  OutputError,
  RecipeError,
  VERSION,
} from "../kit/index.js";
export type { Suggestion } from "../merge/analysis/index.js";
export type { ExtractedModule, ExtractedPart, Extraction } from "../merge/extract/index.js";
export type {
  ExecuteOptions as WriteOptions,
  ExecuteResult as WriteResult,
  NonFinite,
  PushResult,
} from "../merge/output/index.js";
export type { ChatMessage } from "../text/index.js";
export { type AnalyzeOptions, analyze, type SuggestOptions, suggest } from "./analyze.js";
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
export {
  type ExperimentProgress,
  type ExperimentResult,
  type RunExperimentOptions,
  runExperiment,
} from "./experiment.js";
export { type ExportOptions, type ExportResult, exportModel } from "./export.js";
export { type ExtractOptions, extract } from "./extract.js";
export type { PlanInput, RecipeInput, RunInput, Source } from "./inputs.js";
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
export { MergePlan, openPlan, type PlanMergeOptions, planMerge } from "./plan-merge.js";
export { type PushOptions, push } from "./push.js";
export { type ModelServer, type ServedRequest, type ServeOptions, serve } from "./serve.js";
export { type TrainOptions, type TrainProgress, type TrainResult, train } from "./train.js";
