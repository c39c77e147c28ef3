export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
  type RenderOptions,
  TemplateError,
} from "./chat-template.js";
export { loadTokenizer } from "./load.js";
export { loadChatTemplate } from "./load-template.js";
export { encodePair, type PromptTokenizer, promptEncoder, type TextPair } from "./prompt-tokens.js";
export { renderWithSpans } from "./replies.js";
export type { DecodeOptions, IncrementalDecoder, Tokenizer } from "./tokenizer.js";
