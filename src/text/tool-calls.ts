// Tool calls in a conversation, in the form that a chat template reads.
import { type ChatMessage, TemplateError } from "./chat-template.js";
import { parseTemplate, Refusal } from "./jinja/render.js";

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
 * Renders messages whose calls have their arguments as objects, which transformers' documentation asks for. Where a
 * template fails on objects, as DeepSeek V3's, it gets their JSON text.
 */
export function withArguments<T, M extends CallingMessage>(
  messages: readonly M[],
  render: (messages: readonly M[]) => T,
): T {
  try {
    return render(messages);
  } catch (error) {
    const hasFailed = error instanceof TemplateError && error.cause !== undefined && !(error.cause instanceof Refusal);
    if (!hasFailed || !messages.some((message) => message.tool_calls)) throw error;
    return render(messages.map(withTexts));
  }
}

function withTexts<M extends CallingMessage>(message: M): M {
  if (!message.tool_calls) return message;
  const json = parseTemplate("{{ value | tojson }}");
  const calls = message.tool_calls.map(({ function: { name, arguments: value }, ...call }) => ({
    ...call,
    function: { name, arguments: typeof value === "string" ? value : json.render({ value }, new Date()) },
  }));
  return { ...message, tool_calls: calls };
}
