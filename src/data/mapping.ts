// From rows to examples: prompt and response, a conversation, or a translation pair.
import { z } from "zod";
import { conversationField, mapConversation } from "./conversation.js";
import { keyOf, type Mapped, type Message, type Unmapped } from "./example.js";
import { compileField, fieldSchema } from "./field.js";
import type { Row } from "./read/row.js";
import { mapTranslation, translationFields } from "./translation.js";

const trim = z.boolean().default(true).describe("trim white space around texts");
const system = fieldSchema.optional().describe("a system message before the others");

const pairSchema = z.strictObject({
  prompt: fieldSchema.optional().describe("what the model reads; without it, the response is learned as plain text"),
  response: fieldSchema.describe("what the model learns to answer"),
  input: fieldSchema.optional().describe("appended to the prompt where it is not empty, as in Alpaca and Dolly"),
  join: z.string().default("\n\n").describe("text between the prompt and the input"),
  system,
  trim,
});

const textSchema = z.strictObject({
  text: fieldSchema.describe("plain text; the loss covers all of it"),
  system,
  trim,
});

const conversationSchema = z.strictObject({ ...conversationField, system, trim });

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
  const clean = (text: string) => (declaration.trim ? text.trim() : text);
  const inner =
    "translation" in declaration
      ? mapTranslation(declaration.translation, clean)
      : "messages" in declaration
        ? mapConversation(declaration, clean)
        : mapPair("text" in declaration ? { response: declaration.text, join: "" } : declaration, clean);
  if (!systemField) return inner;
  return {
    columns: [...inner.columns, ...systemField.columns.map((column) => [column])],
    map: (row) => {
      const mapped = inner.map(row);
      const text = clean(systemField.textOf(row) ?? "");
      if (!("examples" in Object(mapped)) || text === "") return mapped;
      const { examples, key } = mapped as Mapped;
      const head: Message = { role: "system", content: text };
      return { examples: examples.map(({ messages }) => ({ messages: [head, ...messages] })), key };
    },
  };
}

function mapPair(
  declaration: Omit<z.output<typeof pairSchema>, "system" | "trim">,
  clean: (text: string) => string,
): Mapping {
  const prompt = declaration.prompt === undefined ? undefined : compileField(declaration.prompt);
  const input = declaration.input === undefined ? undefined : compileField(declaration.input);
  const response = compileField(declaration.response);
  return {
    columns: [prompt, input, response].flatMap((field) => field?.columns ?? []).map((column) => [column]),
    map: (row) => {
      const answer = clean(response.textOf(row) ?? "");
      if (answer.trim() === "") return "empty";
      const messages: Message[] = [{ role: "assistant", content: answer }];
      if (prompt) {
        const texts = [prompt.textOf(row), input?.textOf(row)].map((text) => clean(text ?? ""));
        const question = texts.filter((text) => text.trim() !== "").join(declaration.join);
        if (question === "") return "empty";
        messages.unshift({ role: "user", content: question });
      }
      return { examples: [{ messages }], key: keyOf(messages) };
    },
  };
}
