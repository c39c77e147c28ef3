// A column's conversations: messages with role and content, [user, assistant] pairs, or alternating texts; also JSON.
import { z } from "zod";
import { own } from "../core/index.js";
import { valueAt } from "../settings/index.js";
import { hasResponse, keyOf, type Mapped, type Message, type Role, type Unmapped } from "./example.js";
import type { Row } from "./read/row.js";

const ROLES = ["system", "user", "assistant"] as const;

/** Role names of data sets (ShareGPT: human and gpt). */
const KNOWN_ROLES: Readonly<Record<Role, readonly string[]>> = {
  system: ["system"],
  user: ["user", "human", "prompter"],
  assistant: ["assistant", "gpt", "model", "bot", "chatbot"],
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

/** Rows whose conversation has no response are empty. */
export function mapConversation(declaration: ConversationDeclaration, clean: (text: string) => string) {
  const columns = [declaration.messages].flat();
  return {
    columns: [columns],
    map: (row: Row): Mapped | Unmapped => {
      const at = columns.find((column) => valueAt(row, column) != null) ?? "";
      const value = valueAt(row, at);
      if (value === null || value === undefined || value === "") return "empty";
      const list = typeof value === "string" ? parseList(value) : value;
      if (!Array.isArray(list)) return { problem: `${at} is not a list of messages` };
      const messages: Message[] = [];
      for (const [i, item] of list.entries()) {
        const found = messagesOf(item, messages.length, declaration);
        if (typeof found === "string") return { problem: `${at}[${i}] ${found}` };
        messages.push(...found.map(({ role, content }) => ({ role, content: clean(content) })));
      }
      if (!hasResponse(messages)) return "empty";
      return { examples: [{ messages }], key: keyOf(messages) };
    },
  };
}

function parseList(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function messagesOf(item: unknown, index: number, declaration: ConversationDeclaration): Message[] | string {
  if (typeof item === "string") return [{ role: index % 2 === 0 ? "user" : "assistant", content: item }];
  if (Array.isArray(item)) {
    const [user, assistant] = item;
    // The last question may have no answer.
    const isPair = item.length <= 2 && typeof user === "string" && (assistant == null || typeof assistant === "string");
    if (!isPair) return "is a list, but not [user, assistant]";
    return [
      { role: "user", content: user },
      ...(assistant == null ? [] : [{ role: "assistant" as const, content: assistant }]),
    ];
  }
  if (typeof item !== "object" || item === null) return "is neither a message, nor a pair of texts, nor a text";
  const { roles } = declaration;
  const isShareGpt = "from" in item && "value" in item && !("role" in item);
  const roleName = declaration.role ?? (isShareGpt ? "from" : "role");
  const contentName = declaration.content ?? (isShareGpt ? "value" : "content");
  const name = valueAt(item as Row, roleName);
  const content = valueAt(item as Row, contentName);
  if (typeof name !== "string" || (typeof content !== "string" && content !== null)) {
    return `has no ${typeof name === "string" ? contentName : roleName}; it has ${Object.keys(item).join(", ")}. Name the fields (role: NAME, content: NAME)`;
  }
  const role = own(roles, name) ?? ROLES.find((one) => KNOWN_ROLES[one].includes(name.toLowerCase()));
  if (role === undefined) return `has the unknown role ${JSON.stringify(name)}; map it (roles: {${name}: user})`;
  return [{ role, content: content ?? "" }];
}
