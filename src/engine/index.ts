export { alignExperts, routeMerge } from "./alignment.js";
export { computeBlends } from "./blends.js";
export {
  type AnswerGrammar,
  type BatchRequest,
  checkRequest,
  type Finish,
  type TokenAnswer,
} from "./decoding-batch.js";
export {
  brokenModel,
  Engine,
  type GenerateOptions,
  type Generation,
  type OpenEngineOptions,
  openEngine,
  requireNumbers,
} from "./engine.js";
export { measureGates } from "./gates.js";
export { answerAll, together } from "./generate.js";
export {
  describeField,
  NO_GENERATION_CONFIG,
  readGenerationConfig,
} from "./generation-config.js";
export { answerSchema } from "./grammar/answer-schema.js";
export { editLogits, isEdited, type LogitEdits, type LogitSettings, withEdits } from "./logit-settings.js";
export { type EngineSource, isHere, type ModelSource, openModelSource, sourceOf } from "./model-source.js";
export {
  fillsBlocks,
  jobsOf,
  type PlacedTensor,
  placedWeights,
  placeTensors,
  usesOf,
  type WeightUses,
} from "./placed-weights.js";
export { sharedLength } from "./prefill.js";
export { RopeTables } from "./rope-tables.js";
export { sampleToken, type TokenScores } from "./sampling.js";
export { contextKeys, type ScoreEachOptions, type ScoreRequest, type Scores } from "./score.js";
export {
  loadSourceTemplate,
  loadSourceTokenizer,
  loadSourceTokenizerParts,
  modelTextOf,
  requireTemplate,
} from "./source-text.js";
export { measureStatistics, type StatisticsOptions, type StatisticsSummary } from "./statistics.js";

export type { AnswerBatch, ModelText, TokenModel } from "./token-model.js";
export { bindWeights, findSteps } from "./weights.js";
