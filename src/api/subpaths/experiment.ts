/**
 * Experiment plans and the state of their runs.
 * @module layergraft/experiment
 */
export {
  type Experiment,
  type ExperimentInput,
  type ExperimentPlan,
  type ExperimentReport,
  gatherReport,
  openExperiment,
  previewExperiment,
  readPlan,
  statusOf,
} from "../../experiment/index.js";
