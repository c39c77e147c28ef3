// Tool calls in a conversation, in the form that a chat template reads.
import { isObject } from "../../core/index.js";
import { type ChatMessage, TemplateError } from "./chat-template.js";

/** A call of a function. Chat templates read it from `tool_calls` of a message of the assistant. */
export interface ToolCall {
  readonly type: "function";
  readonly id?: string | undefined;
  /** Arguments are an object by name, or its JSON text. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/** A message that may call functions, or have thoughts before its content. */
export interface CallingMessage extends ChatMessage {
  readonly reasoning_content?: string | undefined;
  readonly tool_calls?: readonly ToolCall[] | undefined;
}

/**
 * Renders messages with the arguments of their calls as objects, which transformers' documentation asks for. Some
 * templates, such as DeepSeek V3's, fail on objects and need JSON text.
 */
export function withArguments<T, M extends CallingMessage>(
  messages: readonly M[],
  render: (messages: readonly M[]) => T,
): T {
  if (!messages.some((message) => message.tool_calls)) return render(messages);
  try {
    return render(messages.map((message) => mapArguments(message, parsed)));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    try {
      return render(messages.map((message) => mapArguments(message, written)));
    } catch {
      throw error;
    }
  }
}

function mapArguments<M extends CallingMessage>(message: M, change: (given: unknown) => unknown): M {
  if (!message.tool_calls) return message;
  const calls = message.tool_calls.map((call) => ({
    ...call,
    function: { ...call.function, arguments: change(call.function.arguments) },
  }));
  return { ...message, tool_calls: calls };
}

function parsed(given: unknown): unknown {
  if (typeof given !== "string") return given ?? {};
  try {
    const value: unknown = JSON.parse(given || "{}");
    return isObject(value) ? value : given;
  } catch {
    return given;
  }
}

/** JSON with spaces as Python writes it, which models have learned. Line breaks occur between values alone. */
function written(given: unknown): unknown {
  if (typeof given === "string") return given;
  const lines = JSON.stringify(given ?? {}, null, 1);
  return lines
    .replace(/([[{])\n */g, "$1")
    .replace(/\n *(?=[\]}])/g, "")
    .replace(/\n */g, " ");
}
