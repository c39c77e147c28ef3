// The parts of a rendered conversation that a model learns to write.
import { type ChatMessage, type ChatTemplate, type RenderOptions, TemplateError } from "./chat-template.js";

/** A reply in a rendered text, in UTF-16 units. */
export interface ReplySpan {
  /** Start of its content. */
  readonly start: number;
  /** End of the mark that ends the turn, such as `<|im_end|>`, or of the content where there is none. */
  readonly end: number;
}

export interface RenderedReplies {
  readonly text: string;
  readonly replies: readonly ReplySpan[];
}

/**
 * Renders a conversation and finds the assistant's replies in it.
 *
 * A reply is found by rendering the conversation a second time with other words in its place: what differs is its
 * content. A template must render the beginning of a conversation as the beginning of its text, so that a model is
 * prompted with what it was trained on. Templates that cut thoughts from earlier replies do not.
 * @throws TemplateError if the template renders beginnings differently, changes more of a reply than the white space
 *   around it, or refuses the messages
 */
export function renderWithSpans(template: ChatTemplate, messages: readonly ChatMessage[]): RenderedReplies {
  // One time for all renderings, so that they differ only in the reply.
  const fixed: RenderOptions = { now: new Date() };
  const text = template.render(messages, fixed);
  const replies = messages.flatMap((message, index): ReplySpan[] => {
    if (message.role !== "assistant") return [];
    const before = index === 0 ? "" : template.render(messages.slice(0, index), fixed);
    const whole = template.render(messages.slice(0, index + 1), fixed);
    if (!text.startsWith(before) || !text.startsWith(whole)) {
      throw new TemplateError(
        `the chat template renders the first ${index + 1} messages differently when more follow, so the model would ` +
          "be trained on other text than it is prompted with; use another template, or train on all tokens (loss_on: all)",
      );
    }
    const { start, end } = contentSpan(template, messages.slice(0, index), message, { whole, fixed });
    if (start < before.length) {
      throw new TemplateError(`the chat template puts reply ${index} before the messages that it answers`);
    }
    return [{ start, end: end + whole.slice(end).trimEnd().length }];
  });
  return { text, replies };
}

/** Start and end of a message's content in the text that ends with that message. */
function contentSpan(
  template: ChatTemplate,
  before: readonly ChatMessage[],
  message: ChatMessage,
  { whole, fixed }: { whole: string; fixed: RenderOptions },
): { start: number; end: number } {
  const { content } = message;
  const bare = content.trim();
  // Must differ from the content in its first and its last letter, whether or not white space is trimmed.
  const letter = (...used: (string | undefined)[]) => ["q", "z", "x"].find((one) => !used.includes(one)) ?? "q";
  const substitute = `${letter(content[0], bare[0])}uiet ${letter(content.at(-1), bare.at(-1))}`;
  const other = template.render([...before, { ...message, content: substitute }], fixed);
  let start = 0;
  while (start < whole.length && whole[start] === other[start]) start++;
  let after = 0;
  const room = Math.min(whole.length, other.length) - start;
  while (after < room && whole.at(-1 - after) === other.at(-1 - after)) after++;
  const end = whole.length - after;
  const found = whole.slice(start, end);
  if (![content, bare, content.trimStart(), content.trimEnd()].includes(found)) {
    throw new TemplateError(
      `the chat template renders the reply ${JSON.stringify(content.slice(0, 40))} as ` +
        `${JSON.stringify(found.slice(0, 40))}, so its tokens cannot be found; use a template that keeps replies as they are`,
    );
  }
  return { start, end };
}
