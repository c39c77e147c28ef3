// The public face of engine/.
export { BlendCache, computeBlends } from "./blends.js";
export {
  type ContinuationRequest,
  type ContinuationScore,
  Engine,
  type GenerateOptions,
  type Generation,
  type OpenEngineOptions,
  openEngine,
} from "./engine.js";
export { type EngineSource, type ModelSource, openModelSource } from "./model-source.js";
export { RopeTables } from "./rope-tables.js";
export type { SamplingOptions } from "./sampling.js";
export type { ScoreOptions } from "./score.js";
export { loadSourceTemplate, loadSourceTokenizer } from "./source-text.js";
export { type BoundWeights, bindWeights } from "./weights.js";
