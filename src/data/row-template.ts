// Conversations as text, with marked responses.
import { RecipeError } from "../core/index.js";
import { type ChatTemplate, renderWithSpans } from "../engine/index.js";
import { fillTemplate, parseTemplate } from "../settings/index.js";
import type { Example } from "./example.js";

/**
 * A way to write conversations:
 * - `"plain"`: the system message and each user message followed by an empty line, each response by the end-of-text
 *   token. Nothing else, so that a base model meets no marks it does not know.
 * - a text with `{prompt}` and `{response}`, and `{system}` if it wants to place that itself: written once a turn. What
 *   follows `{response}` belongs to the response.
 * - the model's chat template.
 */
export type PromptTemplate = "plain" | { readonly turn: string } | { readonly chat: ChatTemplate };

/** A piece of a text that is learned, or is not. */
export interface Span {
  readonly text: string;
  /** Whether it is a response, and one that is learned. */
  readonly isResponse: boolean;
}

/** Which text is learned: that of all responses, of a conversation's last one, or all of it. */
export type LossOn = "responses" | "last response" | "all";

/** Writes conversations. */
export interface Writer {
  /** Whether the template says itself where a text begins and a response ends (a chat template does). */
  readonly hasOwnMarks: boolean;
  /**
   * The text of an example, in parts. Spans of one part are encoded together; where a response ends a part, the
   * end-of-text token goes, if it is wanted.
   * @throws {TemplateError} if the chat template refuses it, or hides where its responses are
   */
  readonly write: (example: Example) => Part[];
}

export interface Part {
  readonly spans: readonly Span[];
  /** Whether a response ends it, and one that is learned. */
  readonly end: "learned response" | "response" | "other";
}

/**
 * Prepares a template.
 * @throws {RecipeError} if a turn's text lacks {prompt} or {response}
 */
export function compileTemplate(template: PromptTemplate, loss: LossOn = "responses"): Writer {
  if (template !== "plain" && "chat" in template) {
    const { chat } = template;
    const write = (example: Example): Part[] => {
      const spans =
        loss === "all"
          ? [{ text: chat.render(example.messages), isResponse: true }]
          : chatSpans(chat, example, loss === "last response" ? "last" : "all");
      return [{ spans, end: example.messages.at(-1)?.role === "assistant" ? "learned response" : "other" }];
    };
    return { hasOwnMarks: true, write };
  }
  const writeTurn = template === "plain" ? plainTurn : compileTurn(template.turn);
  const write = (example: Example): Part[] => {
    const turns = turnsOf(example);
    const last = turns.findLastIndex(({ response }) => response !== undefined);
    return turns.map((turn, i) => {
      const spans = writeTurn(turn);
      if (turn.response === undefined) return { spans, end: "other" };
      if (loss !== "last response" || i === last) return { spans, end: "learned response" };
      return { spans: spans.map(({ text }) => ({ text, isResponse: false })), end: "response" };
    });
  };
  return { hasOwnMarks: false, write };
}

/** What is said before a response, and the response; the last turn may have none. */
interface Turn {
  readonly system: string | undefined;
  readonly prompt: string | undefined;
  readonly response: string | undefined;
}

function turnsOf({ messages }: Example): Turn[] {
  const turns: Turn[] = [];
  let system: string[] = [];
  let prompt: string[] = [];
  const turn = (response?: string) => {
    const joined = (texts: string[]) => (texts.length > 0 ? texts.join("\n\n") : undefined);
    turns.push({ system: joined(system), prompt: joined(prompt), response });
    system = [];
    prompt = [];
  };
  for (const { role, content } of messages) {
    if (role === "assistant") turn(content);
    else (role === "system" ? system : prompt).push(content);
  }
  if (prompt.length > 0 || system.length > 0) turn();
  return turns;
}

function spans(before: string, response: string | undefined): Span[] {
  const all: Span[] = [{ text: before, isResponse: false }];
  if (response !== undefined) all.push({ text: response, isResponse: true });
  return all.filter(({ text }) => text !== "");
}

function plainTurn({ system, prompt, response }: Turn): Span[] {
  const before = [system, prompt].map((text) => (text === undefined ? "" : `${text}\n\n`)).join("");
  return spans(before, response);
}

function compileTurn(text: string): (turn: Turn) => Span[] {
  const parts = parseTemplate(text);
  const isName = (name: string) => (part: (typeof parts)[number]) => typeof part !== "string" && part.name === name;
  const at = parts.findIndex(isName("response"));
  if (at < 0 || !parts.slice(0, at).some(isName("prompt")) || parts.filter(isName("response")).length > 1) {
    throw new RecipeError(
      `the template ${JSON.stringify(text)} must have {prompt} and, after it, {response} once`,
      [],
      { field: "template" },
    );
  }
  const placesSystem = parts.some(isName("system"));
  return ({ system, prompt, response }) => {
    // A text without a prompt has no turn to be put in: it is learned as it is.
    if (prompt === undefined && response !== undefined) return spans(system ? `${system}\n\n` : "", response);
    const values = new Map([
      ["system", system ?? ""],
      ["prompt", prompt ?? ""],
    ]);
    const head = system !== undefined && !placesSystem ? `${system}\n\n` : "";
    const fill = (some: typeof parts) => fillTemplate(some, (name) => values.get(name) ?? `{${name}}`);
    const before = head + fill(parts.slice(0, at));
    return spans(before, response === undefined ? undefined : response + fill(parts.slice(at + 1)));
  };
}

/** Spans of a conversation in a chat template's text: a response, and the mark that ends its turn. */
function chatSpans(template: ChatTemplate, { messages }: Example, which: "all" | "last"): Span[] {
  const { text, replies } = renderWithSpans(template, messages, { which });
  const result: Span[] = [];
  let at = 0;
  for (const { start, end } of replies) {
    result.push({ text: text.slice(at, start), isResponse: false });
    result.push({ text: text.slice(start, end), isResponse: true });
    at = end;
  }
  result.push({ text: text.slice(at), isResponse: false });
  return result.filter((span) => span.text !== "");
}
