// layergraft/experiment: plans before and while they run.

export {
  type Experiment,
  type ExperimentPlan,
  type ExperimentReport,
  gatherReport,
  openExperiment,
  previewExperiment,
  readPlan,
  statusOf,
} from "../../experiment/index.js";
