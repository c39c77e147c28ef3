/**
 * Models at the level of tokens, tokenizers, chat templates, and statistics of models on texts.
 * @module layergraft/engine
 */

export {
  Engine,
  type EngineSource,
  type Finish,
  type GenerateOptions as TokenGenerateOptions,
  type Generation,
  measureStatistics,
  openEngine,
  type StatisticsOptions,
  type StatisticsSummary,
} from "../../engine/index.js";
export { type ChatTemplate, loadChatTemplate, loadTokenizer, type Tokenizer } from "../../text/index.js";
