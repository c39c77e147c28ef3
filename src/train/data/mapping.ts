// From rows to examples: prompt and response, a conversation, or a translation pair.
import { z } from "zod";
import { isObject } from "../../kit/index.js";
import { valueAt } from "../../kit/settings/index.js";
import { conversationField, mapConversation, messagesIn } from "./conversation.js";
import { hasResponse, keyOf, type Mapped, type Message, RowProblem, type Unmapped } from "./example.js";
import { compileField, type Field, fieldSchema } from "./field.js";
import type { Row } from "./read/row.js";
import { toolsIn } from "./tools.js";
import { mapTranslation, translationFields } from "./translation.js";

const trim = z.boolean().default(true).describe("trim white space around texts");
const system = fieldSchema.optional().describe("a system message before the others, unless they begin with one");
const tools = z.string().min(1).optional().describe("column of the tools that the chat template shows to the model");

const pairSchema = z.strictObject({
  prompt: fieldSchema
    .optional()
    .describe("what the model reads, a text or messages; without it, the response is learned as plain text"),
  response: fieldSchema.describe("what the model learns to answer, a text or messages"),
  input: fieldSchema.optional().describe("appended to the prompt where it is not empty, as in Alpaca and Dolly"),
  join: z.string().default("\n\n").describe("text between the prompt and the input"),
  system,
  tools,
  trim,
});

const textSchema = z.strictObject({
  text: fieldSchema.describe("plain text; the loss covers all of it"),
  system,
  trim,
});

const conversationSchema = z.strictObject({ ...conversationField, system, tools, trim });

const translationSchema = z.strictObject({ translation: z.strictObject(translationFields), system, trim });

export const mappingSchema = z.union([pairSchema, textSchema, conversationSchema, translationSchema], {
  error: "must have a response, text, messages, or a translation",
});

export type MappingDeclaration = z.output<typeof mappingSchema>;

export interface Mapping {
  /** The columns that it reads, each as a list of alternatives. */
  readonly columns: readonly (readonly string[])[];
  readonly map: (row: Row) => Mapped | Unmapped;
}

export function compileMapping(declaration: MappingDeclaration): Mapping {
  const systemField = declaration.system === undefined ? undefined : compileField(declaration.system);
  const toolsColumn = "tools" in declaration ? declaration.tools : undefined;
  const clean = (text: string) => (declaration.trim ? text.trim() : text);
  const inner =
    "translation" in declaration
      ? mapTranslation(declaration.translation, clean)
      : "messages" in declaration
        ? mapConversation(declaration, clean)
        : mapPair("text" in declaration ? { response: declaration.text, join: "" } : declaration, clean);
  const map = (row: Row): Mapped | Unmapped => {
    const mapped = inner.map(row);
    if (mapped === "empty" || "problem" in mapped) return mapped;
    const head = clean(systemField?.textOf(row) ?? "");
    const given = toolsColumn === undefined ? undefined : toolsIn(valueAt(row, toolsColumn), toolsColumn);
    const examples = mapped.examples.map(({ messages }) => ({
      messages:
        head === "" || messages[0]?.role === "system"
          ? messages
          : [{ role: "system" as const, content: head }, ...messages],
      ...(given ? { tools: given } : {}),
    }));
    return { examples, key: mapped.key };
  };
  return {
    columns: [
      ...inner.columns,
      ...(systemField?.columns ?? []).map((column) => [column]),
      ...(toolsColumn === undefined ? [] : [[toolsColumn]]),
    ],
    map: (row) => {
      try {
        return map(row);
      } catch (error) {
        if (error instanceof RowProblem) return { problem: error.message };
        throw error;
      }
    },
  };
}

function mapPair(
  declaration: Omit<z.output<typeof pairSchema>, "system" | "tools" | "trim">,
  clean: (text: string) => string,
): Mapping {
  const prompt = declaration.prompt === undefined ? undefined : compileField(declaration.prompt);
  const input = declaration.input === undefined ? undefined : compileField(declaration.input);
  const response = compileField(declaration.response);
  /** The messages of a column that holds a list of them, as TRL's prompts and completions do, or its text as one. */
  const read = (field: Field, row: Row, role: "user" | "assistant"): Message[] => {
    const value = field.column === undefined ? undefined : valueAt(row, field.column);
    if (field.column !== undefined && Array.isArray(value) && value.length > 0 && value.every(isObject)) {
      return messagesIn(value, field.column, { clean });
    }
    const content = clean(field.textOf(row) ?? "");
    return content.trim() === "" ? [] : [{ role, content }];
  };
  const question = (row: Row): Message[] => {
    const asked = prompt ? read(prompt, row, "user") : [];
    const more = clean(input?.textOf(row) ?? "");
    if (more.trim() === "") return asked;
    const [last = { role: "user" as const, content: "" }] = asked.splice(-1);
    return [...asked, { ...last, content: last.content === "" ? more : last.content + declaration.join + more }];
  };
  return {
    columns: [prompt, input, response].flatMap((field) => field?.columns ?? []).map((column) => [column]),
    map: (row) => {
      const asked = question(row);
      const answer = read(response, row, "assistant");
      if ((prompt && asked.length === 0) || !hasResponse(answer)) return "empty";
      const before = asked.map((message) =>
        message.role === "assistant" ? { ...message, leftOut: message.leftOut ?? "in the prompt" } : message,
      );
      const messages = [...before, ...answer];
      return { examples: [{ messages }], key: keyOf(messages) };
    },
  };
}
