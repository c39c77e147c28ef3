// Translation pairs as instructions, in both directions: English to the language, and back.
import { createHash } from "node:crypto";
import { z } from "zod";
import { fillTemplate, parseTemplate, type TemplatePart } from "../../kit/settings/index.js";
import type { Example, Mapped, Unmapped } from "./example.js";
import { compileField, fieldSchema } from "./field.js";
import type { Row } from "./read/row.js";

/** The paper (arXiv 2410.01335) does not print its own. */
const DEFAULT_INSTRUCTION = "Translate the following text from {source} to {target}.\n\n{text}";

const instruction = z
  .string()
  .refine((text) => parseTemplate(text).some((part) => typeof part !== "string" && part.name === "text"), {
    error: "must have {text} in it, where the text to translate goes",
  })
  .describe("text of the prompt; {source} and {target} are the languages, {text} is the text");

export const translationFields = {
  english: fieldSchema.describe("the English text"),
  other: fieldSchema.describe("the text in the other language"),
  language: z.string().min(1).describe("name of the other language, as written in instructions"),
  directions: z
    .enum(["both", "to-english", "from-english", "either"])
    .default("both")
    .describe("both: two examples per pair; either: one, its direction by a hash of the pair"),
  instructions: z
    .array(instruction)
    .min(1)
    .default([DEFAULT_INSTRUCTION])
    .describe("of several, a hash of the pair chooses one"),
};

export type TranslationDeclaration = z.output<z.ZodObject<typeof translationFields>>;

/** A pair with an empty side is empty. */
export function mapTranslation(declaration: TranslationDeclaration, clean: (text: string) => string) {
  const { language, directions } = declaration;
  const [english, other] = [compileField(declaration.english), compileField(declaration.other)];
  const templates = declaration.instructions.map(parseTemplate);
  const example = (template: readonly TemplatePart[], toEnglish: boolean, texts: readonly [string, string]) => {
    const [from, to] = toEnglish ? [texts[1], texts[0]] : texts;
    const names = new Map([
      ["source", toEnglish ? language : "English"],
      ["target", toEnglish ? "English" : language],
      ["text", from],
    ]);
    const content = fillTemplate(template, (name) => names.get(name) ?? `{${name}}`);
    return {
      messages: [
        { role: "user", content },
        { role: "assistant", content: to },
      ],
    } as Example;
  };
  return {
    columns: [...english.columns, ...other.columns].map((column) => [column]),
    map: (row: Row): Mapped | Unmapped => {
      const texts = [clean(english.textOf(row) ?? ""), clean(other.textOf(row) ?? "")] as const;
      if (texts.some((text) => text.trim() === "")) return "empty";
      const key = JSON.stringify(texts);
      const digest = createHash("sha256").update(key).digest();
      const template = (i: number) => templates[(digest[i] ?? 0) % templates.length] ?? [];
      const isToEnglish = directions === "to-english" || (directions === "either" && (digest[2] ?? 0) % 2 === 0);
      const examples =
        directions === "both"
          ? [example(template(0), false, texts), example(template(1), true, texts)]
          : [example(template(isToEnglish ? 1 : 0), isToEnglish, texts)];
      return { examples, key };
    },
  };
}
