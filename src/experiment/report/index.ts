export { adviceOnFailures, outlookLines, programLines, statusLines } from "./dry-run-and-status.js";
export { writeReport } from "./files.js";
export { gatherReport, ofPlan } from "./gather.js";
export { candidateOf, rowFinding } from "./overview.js";
export { barFigure, exampleText, experimentPage, flipsFigure, inWords } from "./page.js";
export { downloadsOn, noteOf, progressOf } from "./progress.js";
export { findRecipe, RECIPES, REPORT, recipeIn, recipeText } from "./recipes.js";
export type {
  ExperimentReport,
  MatrixReport,
  Overview,
  OverviewBar,
  PlanReport,
  ReportHeatmap,
} from "./report-data.js";
export {
  type ExperimentProgress,
  type ExperimentResult,
  type RunExperimentOptions,
  reportExperiment,
  runExperiment,
} from "./run-experiment.js";
export { Sheet } from "./score-sheet.js";
export { overviewLines } from "./tables.js";
export { highestText } from "./variants.js";
