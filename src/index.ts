// The library: everything a program needs to open, plan, merge, verify and analyse. Subpaths export more of each area.
export * from "./analysis/index.js";
export { type Checkpoint, type CheckpointTensor, openCheckpoint, parameterCount } from "./checkpoint/index.js";
export * from "./core/errors.js";
export { VERSION } from "./core/version.js";
export { type CheckpointComparison, compareCheckpoints, type TensorComparison } from "./delta/compare.js";
export { type Engine, type EngineSource, openEngine } from "./engine/index.js";
export { corpusBleu, readMgsmAnswer } from "./evaluate/index.js";
export * from "./merge/index.js";
export * from "./mergekit/index.js";
export type { Progress } from "./streaming/run.js";
