// The door of experiment/: what other rooms use.

export {
  type Downloads,
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
export type { Expansion } from "./plan/expand-plan.js";
export { parsePlan, readPlan } from "./plan/plan-file.js";
export type { ExpertModel, MergeModel } from "./plan/plan-models.js";
export type { ExperimentInput, ExperimentPlan } from "./plan/plan-schema.js";
export { planFields, planJsonSchema } from "./plan/plan-schema.js";
export { TUNE_METHODS, TUNE_SEARCHES, TUNED, type TuneSettings, tunePlan } from "./plan/tune-plan.js";
export { adviceOnFailures, outlookLines, statusLines } from "./report/dry-run-and-status.js";
export { writeReport } from "./report/files.js";
export { gatherReport } from "./report/gather.js";
export { leadsOf } from "./report/leads.js";
export { experimentPage } from "./report/page.js";
export { downloadsOn, noteOf, progressOf } from "./report/progress.js";
export { findRecipe, RECIPES, REPORT, recipeIn, recipeText } from "./report/recipes.js";
export type {
  ExperimentReport,
  Flips,
  Lead,
  Overview,
  OverviewBar,
  ReportHeatmap,
  ReportRecipe,
  ReportTable,
} from "./report/report-data.js";
export { Sheet } from "./report/score-sheet.js";
export { overviewLines } from "./report/terminal.js";
export { refuseProblems } from "./run/check.js";
export type { Counts, RunEvent, RunSummary } from "./run/run-experiment.js";
export { Store } from "./run/store.js";
export { EVALUATION } from "./steps/run-evaluation.js";
