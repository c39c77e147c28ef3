/**
 * Models at the level of tokens, tokenizers, chat templates, and statistics of models on texts.
 * @module layergraft/engine
 */
export {
  type ChatTemplate,
  Engine,
  type EngineSource,
  type Finish,
  type GenerateOptions as TokenGenerateOptions,
  type Generation,
  loadChatTemplate,
  loadTokenizer,
  measureStatistics,
  openEngine,
  type StatisticsOptions,
  type StatisticsSummary,
  type Tokenizer,
} from "../../engine/index.js";
