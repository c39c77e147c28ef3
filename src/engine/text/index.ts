export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
} from "./chat-template.js";
export { loadTokenizer } from "./load.js";
export { loadChatTemplate } from "./load-template.js";
export { promptEncoder } from "./prompt-tokens.js";
export type { IncrementalDecoder, Tokenizer } from "./tokenizer.js";
