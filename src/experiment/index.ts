export type { MergeModel } from "./expand/plan-models.js";
export {
  type Experiment,
  type ExperimentStatus,
  type OpenOptions,
  openExperiment,
  previewExperiment,
  refuseProblems,
  runOpened,
  statusOf,
} from "./experiment.js";
export type { PlanInput, TuneInput } from "./inputs.js";
export { parsePlan, readPlan } from "./plan/plan-file.js";
export { type ExperimentInput, type ExperimentPlan, planFields, planJsonSchema } from "./plan/plan-schema.js";
export type { Counts, RunEvent, RunSummary } from "./run/run-experiment.js";
export { Store } from "./run/store.js";
export { type FinishedEvaluation, finishedEvaluations } from "./steps/finished-evaluations.js";
export { EVALUATION } from "./steps/run-evaluation.js";
export { type TuneOptions, type TuneResult, tune } from "./verbs/tune.js";
