import { z } from "zod";
import { isObject } from "../../kit/index.js";
import {
  type Checked,
  checkSchema,
  type JsonSchema,
  type Problem,
  parseSettings,
  publishedSchema,
  readSettings,
  type SchemaField,
  type SettingsKind,
  schemaFields,
  templateSchema as template,
} from "../../kit/settings/index.js";
import { BLEU_TOKENIZERS, missingTokenizer } from "../metrics/bleu-tokenizers.js";

const common = {
  task: z
    .string()
    .regex(/^[a-z][a-z0-9_-]*$/i, "must be a name of letters, digits, - and _")
    .describe("name of the task in results"),
  version: z.int().min(1).default(1).describe("version of the prompts; raise it when they change"),
  title: z.string().optional().describe("heading in reports (default: the name)"),
  data: z.string().min(1).describe("JSON Lines file; a relative path is from the declaration or the data folder"),
  description: z.string().default("").describe("text before the first shot or question"),
  prompt: template.describe("template of the question"),
  group: template.optional().describe("template of a group's name; each group also gets a score of its own"),
  id: template.optional().describe("template of an item's id (default: the number of its row)"),
  shots: z.int().min(0).max(100).default(0).describe("solved examples before each question"),
  shots_from: z
    .string()
    .optional()
    .describe("file with the solved examples (default: the first other rows of the data)"),
  separator: z.string().default("\n\n").describe("text after each solved example"),
  special_tokens: z.boolean().default(true).describe("whether the prompt begins with the tokenizer's special tokens"),
};

const generate = z.strictObject({
  ...common,
  answer: z.literal("generate").describe("generate: the model writes the answer; choose: it chooses"),
  gold: template.describe("generate: template of the right answer"),
  chat: z
    .boolean()
    .default(false)
    .describe(
      "generate: whether to ask through the model's chat template, which it must have; solved examples are turns",
    ),
  shot_answer: template
    .optional()
    .describe("generate: template of a solved example's answer (default: a space and `gold`)"),
  stop: z
    .array(z.string().min(1))
    .optional()
    .describe("generate: texts that end an answer (default: a line break; none with `chat`)"),
  max_new_tokens: z.int().min(1).max(100_000).default(128).describe("generate: maximum tokens of an answer"),
  read: z
    .union([z.enum(["text", "line", "number"]), z.strictObject({ pattern: z.string().min(1) })], {
      error: "must be text, line, number (the last one), or { pattern: REGULAR EXPRESSION }",
    })
    .default("line")
    .describe(
      "generate: part of the text that is the answer: all of it, its first line, its last number, or the last match of `{ pattern }` (its first group)",
    ),
  language: z.string().default("en").describe("generate: language in which numbers are read"),
  answers_in: template
    .optional()
    .describe("generate: template of the answers' language, such as sw; measures how much of each is written in it"),
  score: z
    .array(z.enum(["exact", "bleu", "chrf++"]))
    .min(1)
    .default(["exact"])
    .describe("generate: metrics"),
  tokenize: z
    .enum(BLEU_TOKENIZERS, { error: ({ input }) => missingTokenizer(String(input)) })
    .optional()
    .describe("generate: tokenizer of BLEU (default: 13a)"),
});

const choose = z.strictObject({
  ...common,
  answer: z.literal("choose").describe("generate: the model writes the answer; choose: it chooses"),
  choices: z
    .union([z.array(template).min(2), template])
    .describe("choose: field that lists the choices, or a list of templates"),
  labels: z.array(z.string()).min(2).optional().describe("choose: labels of the choices (default: A, B, ...)"),
  correct: template.describe("choose: template of the right choice: its label, its text, or its index from 0"),
});

export type GenerateDeclaration = z.output<typeof generate>;
export type ChooseDeclaration = z.output<typeof choose>;
export type Declaration = GenerateDeclaration | ChooseDeclaration;

const declaration = z.discriminatedUnion("answer", [generate, choose]);

/** The schema of declarations, as JSON Schema (draft 2020-12). */
export function taskJsonSchema(): JsonSchema {
  return publishedSchema("layergraft task", declaration);
}

export function taskFields(): SchemaField[] {
  return schemaFields(declaration, { closed: ["read"] });
}

/**
 * Reads the declaration of a task.
 * @throws RecipeError with every problem and its line
 */
export async function readDeclaration(file: string): Promise<Declaration> {
  return (await readSettings(file, KIND)).value;
}

/** Parses the text of a declaration; `file` is for messages. */
export function parseDeclaration(text: string, file = "the declaration"): Declaration {
  return parseSettings(text, file, KIND);
}

const KIND: SettingsKind<Declaration> = { kind: "declaration of a task", check };

/** Checks by the kind of task; where it is not said, by the one that the other fields are of. */
function check(value: unknown): Checked<Declaration> {
  const { answer = undefined, ...fields } = isObject(value) ? value : {};
  if (answer === "generate") return withKinds(checkSchema(generate, value));
  if (answer === "choose") return withKinds(checkSchema(choose, value));
  const guess =
    "choices" in fields
      ? withKinds(checkSchema(choose, { ...fields, answer: "choose" }))
      : withKinds(checkSchema(generate, { ...fields, answer: "generate" }));
  return { problems: [{ path: ["answer"], message: "must be generate or choose" }, ...guess.problems] };
}

/** Says of a field of the other kind of task that it is one. */
function withKinds({ problems, ...rest }: Checked<Declaration>): Checked<Declaration> {
  const withKind = (fault: Problem): Problem => {
    const isOf = (schema: z.ZodObject) => Object.hasOwn(schema.shape, fault.unknown ?? "");
    const kind = isOf(generate) ? "generate" : isOf(choose) ? "choose" : undefined;
    return kind === undefined
      ? fault
      : { ...fault, message: `unknown field ${JSON.stringify(fault.unknown)}; it is for answer: ${kind}` };
  };
  return { ...rest, problems: problems.map(withKind) };
}
