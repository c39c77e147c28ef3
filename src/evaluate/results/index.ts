// Result folders: writing and reading. The public face of the folder.
export { ResultFolder, SERVER_LOG, samplesFile } from "./folder.js";
export { type JudgedSample, readResults, readVerdicts } from "./read.js";
export type {
  EvaluationSettings,
  FaultCounts,
  Results,
  RunRecord,
  Sample,
  SamplePrompt,
  StoredMetric,
  TaskResult,
} from "./types.js";
export { FORMAT } from "./types.js";
