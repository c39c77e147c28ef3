export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
  type RenderOptions,
  requireRead,
} from "./chat-template.js";
export { loadChatTemplate } from "./load-template.js";
export { loadTokenizer, loadTokenizerParts } from "./load-tokenizer.js";
export { promptEncoder } from "./prompt-tokens.js";
export { endOfReply } from "./reply-spans.js";
export { StoppedText } from "./stopped-text.js";
export type { IncrementalDecoder, Tokenizer } from "./tokenizer.js";
export type { AddedToken, Part } from "./tokenizer-json.js";
export type { TokenizerParts } from "./tokenizer-parts.js";
export type { SpecialName } from "./tokenizer-settings.js";
