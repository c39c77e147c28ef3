export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
  type RenderOptions,
  TemplateError,
  withTime,
  withVariables,
} from "./chat-template.js";
export { wallClock } from "./jinja/strftime.js";
export { loadChatTemplate } from "./load-template.js";
export { loadTokenizer, loadTokenizerParts } from "./load-tokenizer.js";
export {
  beginOf,
  cannotFit,
  encodePair,
  type PromptTokenizer,
  promptEncoder,
  tokenBeforeText,
} from "./prompt-tokens.js";
export { endOfReply, keepsBeginnings, renderWithSpans } from "./reply-spans.js";
export { keepStart } from "./run-start.js";
export { StoppedText } from "./stopped-text.js";
export { overlap } from "./text-stages.js";
export { bytesOfPart } from "./token-decoder.js";
export type { Tokenizer } from "./tokenizer.js";
export type { TokenizerPart } from "./tokenizer-json.js";
export type { TokenizerParts } from "./tokenizer-parts.js";
export type { SpecialName } from "./tokenizer-settings.js";
export { tokensBeyond } from "./tokens-beyond.js";
export { type CallingMessage, type ToolCall, withArguments } from "./tool-calls.js";
