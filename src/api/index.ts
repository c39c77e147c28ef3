// The public API: exports of `import ... from "layergraft"`.

export { type PlanInput, type TuneInput, type TuneOptions, type TuneResult, tune } from "../experiment/index.js";
export {
  type ExperimentProgress,
  type ExperimentResult,
  type RunExperimentOptions,
  runExperiment,
} from "../experiment/report/index.js";
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
} from "../merge/output/index.js";
export type { ChatMessage } from "../text/index.js";
export * from "../verbs/index.js";
