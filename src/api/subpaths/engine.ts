/**
 * Models at the level of tokens, tokenizers and chat templates.
 * @module layergraft/engine
 */
export {
  type ChatTemplate,
  Engine,
  type EngineSource,
  type GenerateOptions as TokenGenerateOptions,
  type Generation,
  loadChatTemplate,
  loadTokenizer,
  openEngine,
  type Tokenizer,
} from "../../engine/index.js";
