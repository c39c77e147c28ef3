// Result folders: writing and reading. The public face of the folder.
export { ResultFolder, SERVER_LOG, samplesFile } from "./folder.js";
export { type JudgedSample, readResults, readVerdicts } from "./read-results.js";
export type {
  EvaluationSettings,
  FaultCounts,
  Results,
  RunRecord,
  Sample,
  SamplePrompt,
  StoredMetric,
  TaskResult,
} from "./result-types.js";
export { FORMAT } from "./result-types.js";
