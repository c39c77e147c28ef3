export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
} from "./chat-template.js";
export { loadChatTemplate } from "./load-template.js";
export { loadTokenizer } from "./load-tokenizer.js";
export { promptEncoder } from "./prompt-tokens.js";
export { StoppedText } from "./stopped-text.js";
export type { IncrementalDecoder, Tokenizer } from "./tokenizer.js";
