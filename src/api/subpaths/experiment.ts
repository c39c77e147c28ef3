/**
 * Experiment plans and the state of their runs.
 * @module layergraft/experiment
 */
export {
  type Experiment,
  type ExperimentPlan,
  openExperiment,
  previewExperiment,
  readPlan,
  statusOf,
} from "../../experiment/index.js";
export {
  type ExperimentReport,
  gatherReport,
  type MatrixReport,
  type PlanReport,
} from "../../experiment/report/index.js";
