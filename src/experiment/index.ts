// The public face of experiment/.
export {
  type Experiment,
  type ExperimentStatus,
  type OpenOptions,
  type Outlook,
  openExperiment,
  previewExperiment,
  type RunExperimentOptions,
  runOpened,
  type StepStatus,
  statusOf,
} from "./experiment.js";
export type { Expansion } from "./plan/expand.js";
export { checkPlan, parsePlan, readPlan } from "./plan/plan-file.js";
export type { ExperimentInput, ExperimentPlan } from "./plan/plan-schema.js";
export type {
  ExperimentReport,
  Flips,
  Overview,
  ReportHeatmap,
  ReportTable,
} from "./report/data.js";
export { gatherReport } from "./report/gather.js";
export { refuseFaults } from "./run/check.js";
export type { Counts, RunEvent, RunSummary } from "./run/run-experiment.js";
