export { alignExperts } from "./alignment.js";
export { BlendCache, computeBlends } from "./blends.js";
export {
  type AnswerGrammar,
  type BatchRequest,
  checkRequest,
  type Finish,
  isShort,
  type TokenAnswer,
  withoutStops,
} from "./decoding-batch.js";
export {
  brokenModel,
  Engine,
  type GenerateOptions,
  type Generation,
  type OpenEngineOptions,
  openEngine,
} from "./engine.js";
export { measureGates } from "./gates.js";
export { answerAll, together } from "./generate.js";
export { gradients, reachable, splitRows } from "./graph/gradients.js";
export { Graph } from "./graph/graph.js";
export type { Node } from "./graph/node.js";
export {
  type Adapt,
  buildDecoder,
  type Decoder,
  FEEDS,
  pastKey,
  pastValue,
  ropeCos,
  ropeSin,
} from "./model/decoder-graph.js";
export type { Activation, DecoderSpec, RopeSpec, StoredWeight } from "./model/families/spec.js";
export { readSpec } from "./model/read-spec.js";
export { locateWeights, weightsOf } from "./model/weight-names.js";
export { type EngineSource, type ModelSource, openModelSource } from "./model-source.js";
export {
  CODE_BITS,
  fillsBlocks,
  jobsOf,
  type PlacedTensor,
  placedWeights,
  placeTensors,
  usesOf,
  type WeightUses,
} from "./placed-weights.js";
export { RopeTables } from "./rope-tables.js";
export { INSTALL_RUNTIME, loadRuntime } from "./runtime/load-runtime.js";
export { type Emitter, lowerGraph, type QuantizedWeight, type Weight } from "./runtime/lower.js";
export type { ExternalData } from "./runtime/onnx.js";
export { openSession, type Session, type TensorValue } from "./runtime/session.js";
export { sampleToken, type TokenScores } from "./sampling.js";
export type { ScoreOptions, ScoreRequest, Scores } from "./score.js";
export { loadSourceTemplate, loadSourceTokenizer, loadSourceTokenizerParts, modelTextOf } from "./source-text.js";
export { measureStatistics, type StatisticsOptions, type StatisticsSummary } from "./statistics.js";
export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
  type RenderOptions,
  requireRead,
  TemplateError,
} from "./text/chat-template.js";
export { loadChatTemplate } from "./text/load-template.js";
export { loadTokenizer } from "./text/load-tokenizer.js";
export { encodePair, type PromptTokenizer, promptEncoder, tokenBeforeText } from "./text/prompt-tokens.js";
export { renderWithSpans } from "./text/reply-spans.js";
export { StoppedText } from "./text/stopped-text.js";
export { overlap } from "./text/text-stages.js";
export { bytesOfPart } from "./text/token-decoder.js";
export type { Tokenizer } from "./text/tokenizer.js";
export type { AddedToken, Part } from "./text/tokenizer-json.js";
export type { TokenizerParts } from "./text/tokenizer-parts.js";
export type { SpecialName } from "./text/tokenizer-settings.js";
export { type CallingMessage, type ToolCall, withArguments } from "./text/tool-calls.js";
export type { AnswerBatch, ModelText, TokenModel } from "./token-model.js";
export { bindWeights, findSteps } from "./weights.js";
