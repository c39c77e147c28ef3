// layergraft/engine: models as tokens in and tokens out, tokenizers and chat templates.

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
