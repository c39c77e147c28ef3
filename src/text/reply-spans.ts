// The parts of a rendered conversation that a model learns to write.
import { isObject } from "../kit/index.js";
import { type ChatTemplate, type RenderOptions, TemplateError } from "./chat-template.js";
import type { Tokenizer } from "./tokenizer.js";
import type { CallingMessage } from "./tool-calls.js";

/** A reply in a rendered text, in UTF-16 units. */
export interface ReplySpan {
  /** Where the prompt ends that asks for it. */
  readonly start: number;
  /** End of the mark that ends the turn, such as `<|im_end|>`, or of the content where there is none. */
  readonly end: number;
}

export interface RenderedReplies {
  readonly text: string;
  readonly replies: readonly ReplySpan[];
}

export interface SpanOptions<M extends CallingMessage> {
  /** Variables of the template, such as `tools`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** The messages whose spans are found. Default: those of the assistant. */
  readonly isReply?: ((message: M) => boolean) | undefined;
}

/**
 * Renders a conversation and finds replies in it. A reply is what the model has to write after the prompt that asks for
 * it: the messages before, with the start of a reply.
 *
 * A template must render the beginning of a conversation as the beginning of its text, so that a model is prompted with
 * what it was trained on. Templates that cut thoughts from earlier replies do not.
 * @throws TemplateError if the template renders beginnings differently, changes a reply or does not render all of it, or
 *   refuses the messages
 */
export function renderWithSpans<M extends CallingMessage>(
  template: ChatTemplate,
  messages: readonly M[],
  { variables = {}, isReply = ({ role }) => role === "assistant" }: SpanOptions<M> = {},
): RenderedReplies {
  // One time for all renderings, so that they differ only in the messages.
  const fixed: RenderOptions = { now: new Date(), variables };
  const text = template.render(messages, fixed);
  requireTools(text, template, messages, fixed);
  const replies = messages.flatMap((message, index): ReplySpan[] => {
    if (!isReply(message)) return [];
    const whole = template.render(messages.slice(0, index + 1), fixed);
    if (!text.startsWith(whole)) {
      throw new TemplateError(
        `the chat template renders the first ${index + 1} messages differently when more follow, so the model would ` +
          "be trained on other text than it is prompted with; train on replies alone (loss_on: responses), or on all of " +
          "the text, without replies that are not learned",
      );
    }
    const before = messages.slice(0, index);
    const own = startOfOwn(template, before, message, { whole, fixed });
    const start = endOfPrompt(template, before, { whole, own, fixed });
    const end = whole.trimEnd().length;
    // A prompt can begin the reply, as with <think>.
    requireAll(message, text.slice(Math.min(own, start), end));
    return [{ start, end }];
  });
  return { text, replies };
}

/**
 * Whether a template renders beginnings of a conversation as the beginning of its text.
 * @param lengths of the beginnings, in messages
 * @throws TemplateError if the template refuses the messages
 */
export function keepsBeginnings<M extends CallingMessage>(
  template: ChatTemplate,
  messages: readonly M[],
  lengths: readonly number[],
  variables: SpanOptions<M>["variables"] = {},
): boolean {
  const fixed: RenderOptions = { now: new Date(), variables };
  const text = template.render(messages, fixed);
  return lengths.every((length) => text.startsWith(template.render(messages.slice(0, length), fixed)));
}

/**
 * The special token that a template writes after a reply; undefined where it writes none. A model that was trained with it
 * ends its replies so, whatever its other files say.
 */
export function endOfReply(
  template: ChatTemplate,
  tokenizer: Pick<Tokenizer, "encode" | "decode">,
): number | undefined {
  const reply = { role: "assistant", content: "reply" };
  let rendered: RenderedReplies;
  try {
    rendered = renderWithSpans(template, [{ role: "user", content: "question" }, reply]);
  } catch (error) {
    if (error instanceof TemplateError) return undefined;
    throw error;
  }
  const [{ start, end } = { start: 0, end: 0 }] = rendered.replies;
  return tokenizer
    .encode(rendered.text.slice(rendered.text.indexOf(reply.content, start) + reply.content.length, end))
    .find((id) => tokenizer.decode([id]) !== "" && tokenizer.decode([id], { skipSpecialTokens: true }) === "");
}

interface Rendering {
  /** The text up to the last message. */
  readonly whole: string;
  readonly fixed: RenderOptions;
}

/** Where the prompt for the last message ends. @param own where that message begins to differ from any other */
function endOfPrompt(
  template: ChatTemplate,
  before: readonly CallingMessage[],
  { whole, own, fixed }: Rendering & { readonly own: number },
): number {
  const asking = { ...fixed, addGenerationPrompt: true };
  // Characters that a prompt and a reply begin with by chance, such as < of <think> and <answer>, are the reply's.
  const within = (prompt: string) =>
    whole.startsWith(prompt) ? prompt.length : Math.min(own, commonLength(whole, prompt));
  if (before.length > 0) return within(template.render(before, asking));
  // Nothing asks for the first message, which begins as any reply does.
  const question = [{ role: "user", content: "?" }];
  const head = template.render(question, asking).slice(template.render(question, fixed).length);
  const at = whole.indexOf(head.trimEnd());
  return at < 0 ? own : within(whole.slice(0, at) + head);
}

/** Where the last message begins to differ from a message of its role that says something else. */
function startOfOwn(
  template: ChatTemplate,
  before: readonly CallingMessage[],
  { role, content, reasoning_content: reasoning = "" }: CallingMessage,
  { whole, fixed }: Rendering,
): number {
  const isFirst = (letter: string) => [content, reasoning].some((text) => text.trimStart().startsWith(letter));
  const other = { role, content: ["x", "y", "z"].find((letter) => !isFirst(letter)) ?? "" };
  return commonLength(whole, template.render([...before, other], fixed));
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

/** @throws TemplateError if a reply lacks a part of the message */
function requireAll(message: CallingMessage, reply: string): void {
  const { content, reasoning_content: reasoning = "", tool_calls: calls = [] } = message;
  const parts: [what: string, text: string][] = [
    ["the reply", content],
    ["the reasoning", reasoning],
  ];
  for (const { function: called } of calls) {
    const names = isObject(called.arguments) ? Object.keys(called.arguments) : [];
    for (const name of [called.name, ...names]) parts.push([`the call of ${called.name} with`, name]);
  }
  const missing = parts.find(([, text]) => !reply.includes(text.trim()));
  if (!missing) return;
  const [what, text] = missing;
  throw new TemplateError(
    `the chat template does not render ${what} ${shortened(text)} as it is, but as ${shortened(reply)}; use a template that does`,
  );
}

const shortened = (text: string) => JSON.stringify(text.slice(0, 40));

/** @throws TemplateError if the text has no trace of tools, of their calls or of their answers */
function requireTools(
  text: string,
  template: ChatTemplate,
  messages: readonly CallingMessage[],
  fixed: RenderOptions,
): void {
  const { tools, ...variables } = fixed.variables ?? {};
  const mustDiffer = (what: string, without: readonly CallingMessage[], options = fixed) => {
    if (isText(text, () => template.render(without, options)))
      throw new TemplateError(`the chat template does not render ${what}; use a template that does, or leave them out`);
  };
  if (tools) mustDiffer("the tools", messages, { ...fixed, variables });
  if (messages.some(({ tool_calls: calls }) => calls)) {
    mustDiffer(
      "calls of tools",
      messages.map(({ tool_calls: _, ...message }) => message),
    );
  }
  if (messages.some(({ role }) => role === "tool")) {
    mustDiffer(
      "answers of tools",
      messages.map((message) => (message.role === "tool" ? { ...message, content: `${message.content}?` } : message)),
    );
  }
}

function isText(text: string, render: () => string): boolean {
  try {
    return render() === text;
  } catch {
    return false;
  }
}
