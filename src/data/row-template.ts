import { RecipeError } from "../core/index.js";
import { type ChatTemplate, renderWithSpans } from "../engine/index.js";
import { fillTemplate, parseTemplate } from "../settings/index.js";
import type { Example } from "./example.js";

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
  readonly isResponse: boolean;
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
  readonly write: (example: Example) => Part[];
}

export interface Part {
  readonly spans: readonly Span[];
  /** Whether a response ends it, which the end-of-text token follows. */
  readonly endsWithResponse: boolean;
}

/**
 * @throws RecipeError if the text of a turn lacks {prompt} or {response}
 */
export function compileTemplate(template: PromptTemplate, loss: LossOn = "responses"): Writer {
  if (template !== "plain" && "chat" in template) {
    const { chat } = template;
    const write = (example: Example): Part[] => {
      const spans =
        loss === "all" ? [{ text: chat.render(example.messages), isResponse: true }] : chatSpans(chat, example);
      return [{ spans, endsWithResponse: example.messages.at(-1)?.role === "assistant" }];
    };
    return { hasOwnMarks: true, write };
  }
  const writeTurn = template === "plain" ? plainTurn : compileTurn(template.turn);
  const write = (example: Example): Part[] =>
    turnsOf(example).map((turn) => ({ spans: writeTurn(turn), endsWithResponse: turn.response !== undefined }));
  return { hasOwnMarks: false, write };
}

/** A response and the messages before it. The last turn may have none. */
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
    const message = `the template ${JSON.stringify(text)} must have {prompt}, and {response} once after it`;
    throw RecipeError.at({ field: "template" }, message);
  }
  const placesSystem = parts.some(isName("system"));
  return ({ system, prompt, response }) => {
    // Plain text has no prompt, and is learned as it is.
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

/** The text of a chat template; the mark that ends a turn belongs to its response. */
function chatSpans(template: ChatTemplate, { messages }: Example): Span[] {
  const { text, replies } = renderWithSpans(template, messages);
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
