import { RecipeError } from "../../kit/index.js";
import { fillTemplate, parseTemplate } from "../../kit/settings/index.js";
import { type ChatTemplate, keepsBeginnings, renderWithSpans, TemplateError, withArguments } from "../../text/index.js";
import type { Example, Message } from "./example.js";

/**
 * How conversations are written:
 * - `"plain"`: an empty line after the system message and each user message, and the end-of-text token after each
 *   response. A base model knows these marks.
 * - the text of a turn, with `{prompt}` and `{response}`, and optionally `{system}`. Text after `{response}` belongs to the
 *   response.
 * - the chat template of the model.
 */
export type PromptTemplate = "plain" | { readonly turn: string } | { readonly chat: ChatTemplate };

export interface Span {
  readonly text: string;
  readonly isLearned: boolean;
}

/** Which text is learned. */
export type LossOn = "responses" | "all";

export interface Writer {
  /** Whether the template marks where a text begins and a response ends, as chat templates do. */
  readonly hasOwnMarks: boolean;
  /**
   * The text of an example, in parts that are encoded separately.
   * @throws TemplateError if the chat template refuses it, or hides where its responses are
   */
  readonly write: (example: Example) => RowPart[];
}

export interface RowPart {
  readonly spans: readonly Span[];
  /** Whether the end-of-text token that may follow is learned; undefined if no response ends it. */
  readonly end: boolean | undefined;
}

/**
 * @throws RecipeError if the text of a turn lacks {prompt} or {response}
 */
export function compileTemplate(template: PromptTemplate, loss: LossOn = "responses"): Writer {
  if (template !== "plain" && "chat" in template) {
    const { chat } = template;
    const write = (example: Example): RowPart[] => {
      const last = example.messages.at(-1);
      const end = last?.role === "assistant" ? last.leftOut === undefined : undefined;
      return [{ spans: chatSpans(chat, example, loss), end }];
    };
    return { hasOwnMarks: true, write };
  }
  const writeTurn = template === "plain" ? plainTurn : compileTurn(template.turn);
  const write = (example: Example): RowPart[] =>
    turnsOf(example).map((turn) => {
      const [before, response] = writeTurn(turn);
      const spans = [
        { text: before, isLearned: loss === "all" },
        { text: response ?? "", isLearned: turn.isLearned },
      ];
      return {
        spans: spans.filter(({ text }) => text !== ""),
        end: response === undefined ? undefined : turn.isLearned,
      };
    });
  return { hasOwnMarks: false, write };
}

/** A response and the messages before it. The last turn may have none. */
interface Turn {
  readonly system: string | undefined;
  readonly prompt: string | undefined;
  readonly response: string | undefined;
  readonly isLearned: boolean;
}

/** @throws TemplateError for tools, their calls and answers, and reasoning */
function turnsOf({ messages, tools }: Example): Turn[] {
  const special = tools ? "tools" : messages.map(specialOf).find((found) => found !== undefined);
  if (special !== undefined) {
    throw new TemplateError(`only a chat template has a place for ${special}; use a model with one (template: chat)`);
  }
  const turns: Turn[] = [];
  let system: string[] = [];
  let prompt: string[] = [];
  const turn = (response?: string, isLearned = false) => {
    const joined = (texts: string[]) => (texts.length > 0 ? texts.join("\n\n") : undefined);
    turns.push({ system: joined(system), prompt: joined(prompt), response, isLearned });
    system = [];
    prompt = [];
  };
  for (const { role, content, leftOut } of messages) {
    if (role === "assistant") turn(content, leftOut === undefined);
    else (role === "system" ? system : prompt).push(content);
  }
  if (prompt.length > 0 || system.length > 0) turn();
  return turns;
}

function specialOf({ role, tool_calls: calls, reasoning_content: reasoning }: Message): string | undefined {
  if (role === "tool") return "answers of tools";
  return calls ? "calls of tools" : reasoning === undefined ? undefined : "reasoning";
}

/** The text before a response, and the response with what belongs to it. */
type WrittenTurn = readonly [before: string, response: string | undefined];

function plainTurn({ system, prompt, response }: Turn): WrittenTurn {
  return [[system, prompt].map((text) => (text === undefined ? "" : `${text}\n\n`)).join(""), response];
}

function compileTurn(text: string): (turn: Turn) => WrittenTurn {
  const parts = parseTemplate(text);
  const isName = (name: string) => (part: (typeof parts)[number]) => typeof part !== "string" && part.name === name;
  const at = parts.findIndex(isName("response"));
  if (at < 0 || !parts.slice(0, at).some(isName("prompt")) || parts.filter(isName("response")).length > 1) {
    const message = `the template ${JSON.stringify(text)} must have {prompt}, and {response} once after it`;
    throw RecipeError.at({ field: "template" }, message);
  }
  const placesSystem = parts.some(isName("system"));
  return ({ system, prompt, response }) => {
    // Plain text has no prompt, and is learned as it is.
    if (prompt === undefined && response !== undefined) return [system ? `${system}\n\n` : "", response];
    const values = new Map([
      ["system", system ?? ""],
      ["prompt", prompt ?? ""],
    ]);
    const head = system !== undefined && !placesSystem ? `${system}\n\n` : "";
    const fill = (some: typeof parts) => fillTemplate(some, (name) => values.get(name) ?? `{${name}}`);
    const before = head + fill(parts.slice(0, at));
    return [before, response === undefined ? undefined : response + fill(parts.slice(at + 1))];
  };
}

/**
 * The examples that a chat template needs for one. Where it renders the beginning of the conversation differently when more
 * follows, as templates that cut thoughts from earlier replies, there is one for each reply that is learned, up to it: what the
 * model is prompted with.
 */
export function splitReplies(
  template: PromptTemplate,
  example: Example,
  loss: LossOn = "responses",
): readonly Example[] {
  const { messages, tools } = example;
  const isLearned = ({ role, leftOut }: Message) => role === "assistant" && leftOut === undefined;
  const learned = messages.flatMap((message, i) => (isLearned(message) ? [i] : []));
  if (template === "plain" || !("chat" in template) || loss === "all" || learned[0] === messages.length - 1)
    return [example];
  const lengths = learned.map((at) => at + 1);
  try {
    const variables = tools ? { tools } : {};
    if (withArguments(messages, (written) => keepsBeginnings(template.chat, written, lengths, variables)))
      return [example];
  } catch (error) {
    // Encoding it says why.
    if (error instanceof TemplateError) return [example];
    throw error;
  }
  return learned.map((at) => ({
    ...example,
    messages: messages
      .slice(0, at + 1)
      .map((message, i) =>
        i < at && isLearned(message) ? { ...message, leftOut: "learned in another example" } : message,
      ),
  }));
}

/** The text of a chat template; the mark that ends a turn belongs to its response. */
function chatSpans(template: ChatTemplate, { messages, tools }: Example, loss: LossOn): Span[] {
  const isAll = loss === "all";
  const options = {
    variables: tools ? { tools } : {},
    // What differs from the text around it.
    isReply: ({ role, leftOut }: Message) => role === "assistant" && (leftOut === undefined) !== isAll,
  };
  const { text, replies } = withArguments(messages, (written) => renderWithSpans(template, written, options));
  const spans: Span[] = [];
  let at = 0;
  for (const { start, end } of replies) {
    spans.push({ text: text.slice(at, start), isLearned: isAll });
    spans.push({ text: text.slice(start, end), isLearned: !isAll });
    at = end;
  }
  spans.push({ text: text.slice(at), isLearned: isAll });
  return spans.filter((span) => span.text !== "");
}
