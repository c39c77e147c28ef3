export {
  type Experiment,
  type ExperimentStatus,
  type OpenOptions,
  type Outlook,
  openExperiment,
  previewExperiment,
  type RunExperimentOptions,
  runOpened,
  statusOf,
  statusOfVariant,
} from "./experiment.js";
export type { Selection } from "./plan/choose-checkpoints.js";
export { identityOf, lineField } from "./plan/configurations.js";
export type { Expansion } from "./plan/expand-plan.js";
export { freeId } from "./plan/matrix.js";
export { parsePlan, readPlan } from "./plan/plan-file.js";
export { type ExpertModel, inLanguages, type MergeModel, type Model, tasksOfAverage } from "./plan/plan-models.js";
export {
  decidingTask,
  describeRunner,
  type ExperimentInput,
  type ExperimentPlan,
  type Json,
  languagesOf,
  type Merge,
  planFields,
  planJsonSchema,
} from "./plan/plan-schema.js";
export type { Role } from "./plan/plan-values.js";
export type { PublishedScore } from "./plan/published.js";
export { type Ranked, rankConfigurations, type SearchOutcome } from "./plan/search-configurations.js";
export { familyInRound, mergeInRound, repeatedIn } from "./plan/settle.js";
export type { EvaluatedModel } from "./plan/step-list.js";
export { describeTraining } from "./plan/training-runs.js";
export { TUNE_METHODS, TUNE_SEARCHES, TUNED, type TuneSettings, tunePlan } from "./plan/tune-plan.js";
export { type PlanProgram, refuseProblems } from "./run/check.js";
export type { Counts, RunEvent, RunSummary } from "./run/run-experiment.js";
export { Store } from "./run/store.js";
export { fieldsAt, pointOf } from "./search/space.js";
export type { Facts, Results, TaskFacts } from "./steps/facts.js";
export type { FetchOptions } from "./steps/facts-reader.js";
export type { EvaluationResult, ItemResult, Overlap } from "./steps/result.js";
export { EVALUATION } from "./steps/run-evaluation.js";
export { KINDS, type Location, type ModelSource, type StepKind, type TaskRequest } from "./steps/step.js";
export type { StepState } from "./steps/step-state.js";
export { withFolders } from "./steps/step-state.js";
