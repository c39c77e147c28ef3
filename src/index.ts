// The library: everything a program needs to open, plan, merge, verify and analyse. Subpaths export more of each area.

export * from "./core/errors.js";
export { VERSION } from "./core/version.js";
export { type Engine, type EngineSource, openEngine } from "./engine/index.js";
export { corpusBleu, readMgsmAnswer } from "./evaluate/index.js";
export * from "./merge/analysis/index.js";
export * from "./merge/index.js";
export {
  type CheckpointComparison,
  compareCheckpoints,
  type TensorComparison,
} from "./merge/measurements/compare-checkpoints.js";
export * from "./merge/mergekit/index.js";
export { type Checkpoint, type CheckpointTensor, openCheckpoint, parameterCount } from "./weights/checkpoint/index.js";
export type { Progress } from "./weights/streaming/run-program.js";
