// The door of experiment/: what other rooms use.

export { demoPage } from "./demo/demo-page.js";
export { demoAnswer, demoRows, leads, mainRows, otherMerge, QUICK_WARNING } from "./demo/demo-report.js";
export { swapLayersOf } from "./demo/reported-swap.js";
export { type DemoResult, runDemo } from "./demo/run-demo.js";
export { type ShownAnswer, type ShownProblem, shownProblem } from "./demo/shown-answers.js";
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
export type { ExperimentInput, ExperimentPlan } from "./plan/plan-schema.js";
export { planFields, planJsonSchema } from "./plan/plan-schema.js";
export { TUNE_METHODS, TUNE_SEARCHES, TUNED, type TuneSettings, tunePlan } from "./plan/tune-plan.js";
export { adviceOnFailures, outlookLines, statusLines } from "./report/dry-run-and-status.js";
export { writeReport } from "./report/files.js";
export { gatherReport } from "./report/gather.js";
export { downloadsOn, noteOf, progressOf } from "./report/progress.js";
export { findRecipe, RECIPES, REPORT } from "./report/recipes.js";
export type {
  ExperimentReport,
  Flips,
  Overview,
  ReportHeatmap,
  ReportRecipe,
  ReportTable,
} from "./report/report-data.js";
export { overviewLines } from "./report/terminal.js";
export { refuseProblems } from "./run/check.js";
export type { Counts, RunEvent, RunSummary } from "./run/run-experiment.js";
