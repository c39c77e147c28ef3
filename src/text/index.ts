// Text: tokenizers and chat templates of checkpoints.
export type { TokenizerJson } from "./json.js";
export { loadEndIds, loadTokenizer } from "./load.js";
export { loadChatTemplate } from "./load-template.js";
export {
  encodeReplies,
  type MaskedTokens,
  type RenderedReplies,
  type ReplySpan,
  renderWithSpans,
} from "./replies.js";
export type { TokenizerSettings } from "./settings.js";
export { TextStream } from "./stream.js";
export {
  type ChatMessage,
  type ChatTemplate,
  makeChatTemplate,
  type RenderOptions,
  TemplateError,
} from "./template.js";
export { type DecodeOptions, type IncrementalDecoder, makeTokenizer, type Tokenizer } from "./tokenizer.js";
