// Conversations in a value: messages with role and content, [user, assistant] pairs, or alternating texts; also JSON.
import { z } from "zod";
import { isObject, own } from "../../kit/index.js";
import { parseWritten } from "../../kit/numbers/index.js";
import { valueAt } from "../../kit/settings/index.js";
import type { ToolCall } from "../../text/index.js";
import { EMPTY, hasResponse, keyOf, type Mapped, type Message, RowProblem, type Unmapped } from "./example.js";
import { isFilled } from "./field.js";
import type { Row } from "./read/row.js";
import { callsIn } from "./tools.js";

const ROLES = ["system", "user", "assistant", "tool", "function_call"] as const;

/** Role names of data sets: ShareGPT's human and gpt, LLaMA-Factory's observation, Llama's ipython, ms-swift's tool_call. */
const KNOWN_ROLES: Readonly<Record<(typeof ROLES)[number], readonly string[]>> = {
  system: ["system"],
  user: ["user", "human", "prompter"],
  assistant: ["assistant", "gpt", "model", "bot", "chatbot"],
  tool: ["tool", "function", "observation", "ipython", "tool_response"],
  // A message of the assistant whose content is the JSON of its calls.
  function_call: ["function_call", "tool_call"],
};

export const conversationField = {
  messages: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .describe("column of the conversation, or several columns; the first that a row has is read"),
  role: z.string().optional().describe("field of a message with its role (default: role, or ShareGPT's from)"),
  content: z.string().optional().describe("field of a message with its text (default: content, or ShareGPT's value)"),
  roles: z
    .record(z.string(), z.enum(ROLES))
    .default({})
    .describe("meaning of the data set's own role names, besides the usual ones"),
};

type ConversationDeclaration = z.output<z.ZodObject<typeof conversationField>>;

/** How messages are written. */
export interface MessageLayout extends Partial<Pick<ConversationDeclaration, "role" | "content" | "roles">> {
  readonly clean: (text: string) => string;
}

/** Rows whose conversation has no response are empty. */
export function mapConversation(declaration: ConversationDeclaration, clean: (text: string) => string) {
  const columns = [declaration.messages].flat();
  return {
    columns: [columns],
    map: (row: Row): Mapped | Unmapped => {
      const at = columns.find((column) => isFilled(valueAt(row, column)));
      if (at === undefined) return "empty";
      const messages = messagesIn(valueAt(row, at), at, { ...declaration, clean });
      if (!hasResponse(messages)) return "empty";
      return { examples: [{ messages }], key: keyOf(messages) };
    },
  };
}

/** @throws RowProblem for a value that is not a conversation */
export function messagesIn(value: unknown, at: string, layout: MessageLayout): Message[] {
  const list = typeof value === "string" ? parseList(value) : value;
  if (!Array.isArray(list)) throw new RowProblem(`${at} is not a list of messages`);
  const messages: Message[] = [];
  for (const [i, item] of list.entries()) {
    for (const message of readItem(item, `${at}[${i}]`, messages.length, layout)) {
      const last = messages.at(-1);
      const isMore = message.tool_calls && message.content === "" && message.leftOut === last?.leftOut;
      // Calls one after another are made at once.
      if (isMore && last?.tool_calls) {
        messages.splice(-1, 1, { ...last, tool_calls: [...last.tool_calls, ...(message.tool_calls ?? [])] });
      } else messages.push(message);
    }
  }
  return messages;
}

function parseList(text: string): unknown {
  try {
    return parseWritten(text);
  } catch {
    return undefined;
  }
}

function readItem(item: unknown, at: string, index: number, layout: MessageLayout): Message[] {
  const say = (role: "user" | "assistant", text: string): Message => {
    const content = layout.clean(text);
    return role === "assistant" && content.trim() === "" ? { role, content, leftOut: EMPTY } : { role, content };
  };
  if (typeof item === "string") return [say(index % 2 === 0 ? "user" : "assistant", item)];
  if (Array.isArray(item)) {
    const [user, assistant] = item;
    // The last question may have no answer.
    const isPair = item.length <= 2 && typeof user === "string" && (assistant == null || typeof assistant === "string");
    if (!isPair) throw new RowProblem(`${at} is a list, but not [user, assistant]`);
    return [say("user", user), ...(assistant == null ? [] : [say("assistant", assistant)])];
  }
  if (!isObject(item)) throw new RowProblem(`${at} is neither a message, nor a pair of texts, nor a text`);
  return [readMessage(item, at, layout)];
}

type Item = Readonly<Record<string, unknown>>;

function readMessage(item: Item, at: string, { role, content, roles = {}, clean }: MessageLayout): Message {
  const isShareGpt = "from" in item && !("role" in item);
  const roleField = role ?? (isShareGpt ? "from" : "role");
  const contentField = content ?? (isShareGpt && !("content" in item) ? "value" : "content");
  const lacks = (field: string) => {
    const names = Object.keys(item).join(", ");
    return new RowProblem(`${at} has no ${field}; it has ${names}. Name the fields (role: NAME, content: NAME)`);
  };
  const name = valueAt(item, roleField);
  if (typeof name !== "string") throw lacks(roleField);
  const known = own(roles, name) ?? ROLES.find((one) => KNOWN_ROLES[one].includes(name.toLowerCase()));
  if (known === undefined) {
    throw new RowProblem(`${at} has the unknown role ${JSON.stringify(name)}; map it (roles: {${name}: user})`);
  }
  const given = valueAt(item, contentField);
  const said = readReply(item, at, known, given);
  const text = known === "function_call" ? "" : clean(textOf(given, `${at}.${contentField}`));
  const isSilent = text.trim() === "" && Object.keys(said).length === 0;
  const texts = Object.values(item).filter((value) => typeof value === "string");
  if (given === undefined && isSilent && texts.length > 1) throw lacks(contentField);
  const as = known === "function_call" ? "assistant" : known;
  const leftOut = markOf(item, at, as) ?? (as === "assistant" && isSilent ? EMPTY : undefined);
  return { role: as, content: text, ...said, ...(leftOut === undefined ? {} : { leftOut }) };
}

const REASONING = ["reasoning_content", "thinking", "reasoning"] as const;

/** What a message of the assistant says besides its content; of an answer of a tool, which call it answers. */
function readReply(item: Item, at: string, role: (typeof ROLES)[number], content: unknown) {
  if (role === "tool") {
    return Object.fromEntries(["name", "tool_call_id"].flatMap((key) => (item[key] == null ? [] : [[key, item[key]]])));
  }
  if (role !== "assistant" && role !== "function_call") return {};
  const calls: ToolCall[] =
    role === "function_call"
      ? callsIn(content, at)
      : callsIn(
          item.tool_calls ?? item.function_call,
          `${at}.${item.tool_calls == null ? "function_call" : "tool_calls"}`,
        );
  const reasoning = REASONING.map((key) => item[key]).find((text) => typeof text === "string" && text.trim() !== "");
  return {
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(typeof reasoning === "string" ? { reasoning_content: reasoning } : {}),
  };
}

function textOf(content: unknown, at: string): string {
  if (content === undefined || content === null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new RowProblem(`${at} is not a text`);
  const parts = content.map((part, i): string => {
    if (typeof part === "string") return part;
    const { type = "text", text } = Object(part) as Item;
    if (type !== "text" || typeof text !== "string")
      throw new RowProblem(`${at}[${i}] is not a part of type text, which alone are supported`);
    const mark = markOf(part, `${at}[${i}]`, "assistant");
    if (mark === undefined) return text;
    throw new RowProblem(`${at}[${i}] is ${mark}, which is supported for whole messages only`);
  });
  return parts.join("");
}

/** Fields that say whether a message is learned: of OpenAI and Mistral, ms-swift, axolotl, and sets for axolotl. */
const MARKS = ["weight", "loss", "train", "training", "train_on_turn"] as const;

/** Why a message is not learned, by its marks. */
function markOf(item: Item, at: string, role: Message["role"]): string | undefined {
  let mark: string | undefined;
  for (const name of MARKS) {
    const value = item[name];
    if (value === undefined || value === null || value === "") continue;
    // Number([]) is 0.
    const number = typeof value === "object" ? Number.NaN : Number(value);
    const isOn = number === 1;
    if (!isOn && number !== 0) {
      const shown = typeof value === "object" ? JSON.stringify(value) : value;
      throw new RowProblem(`${at} has ${name}: ${shown}; only 0 and 1 are supported`);
    }
    // The others give weights and losses to replies alone.
    if (isOn && role !== "assistant" && name.startsWith("train")) {
      throw new RowProblem(`${at} is marked ${name}: ${value}, but only replies of the assistant are learned`);
    }
    if (!isOn && role === "assistant") mark ??= `marked ${name}: ${value}`;
  }
  const details = [item.train_detail, item.training_detail].flat().filter((detail) => detail != null);
  if (details.length > 0) throw new RowProblem(`${at} has train_detail, which is not supported; split the message`);
  return mark;
}
