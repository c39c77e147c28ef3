// The declaration of a task of one's own: a YAML file, checked with all faults at once and their lines.
// What a declaration does is custom.ts's.

import { z } from "zod";
import { isObject } from "../../core/index.js";
import {
  type Checked,
  type Fault,
  faultsOfIssues,
  parseSettings,
  readSettingsText,
  withHint,
} from "../../settings/index.js";
import { BLEU_TOKENIZERS } from "../metrics/index.js";

const template = z
  .string()
  .min(1)
  // A single brace is how declarations of training data write a field; here it would be asked as it stands.
  .refine(
    (text) => /\{\{/.test(text) || !/\{[\w.[\]]+\}/.test(text),
    "has a field in single braces; write {{question}} for the field question",
  )
  .refine(
    (text) => text.split("{{").length === text.split("}}").length,
    "has {{ and }} that do not fit together; write {{question}} for the field question",
  );

const common = {
  task: z.string().regex(/^[a-z][a-z0-9_-]*$/i, "must be a name of letters, digits, - and _"),
  version: z.int().min(1).default(1),
  title: z.string().optional(),
  data: z.string().min(1),
  description: z.string().default(""),
  prompt: template,
  group: template.optional(),
  id: template.optional(),
  shots: z.int().min(0).max(100).default(0),
  shots_from: z.string().optional(),
  separator: z.string().default("\n\n"),
  special_tokens: z.boolean().default(true),
};

const generate = z.strictObject({
  ...common,
  answer: z.literal("generate"),
  gold: template,
  shot_answer: template.optional(),
  stop: z.array(z.string().min(1)).default(["\n"]),
  max_new_tokens: z.int().min(1).max(100_000).default(128),
  read: z
    .union([z.enum(["text", "line", "number"]), z.strictObject({ pattern: z.string().min(1) })], {
      error: "must be text, line, number (the last one), or { pattern: REGULAR EXPRESSION }",
    })
    .default("line"),
  language: z.string().default("en"),
  score: z
    .array(z.enum(["exact", "bleu", "chrf++"]))
    .min(1)
    .default(["exact"]),
  tokenize: z.enum(BLEU_TOKENIZERS).optional(),
});

const choose = z.strictObject({
  ...common,
  answer: z.literal("choose"),
  choices: z.union([z.array(template).min(2), template]),
  labels: z.array(z.string()).min(2).optional(),
  correct: template,
});

const declaration = z.discriminatedUnion("answer", [generate, choose]);

export type Declaration = z.output<typeof declaration>;
export type GenerateDeclaration = z.output<typeof generate>;
export type ChooseDeclaration = z.output<typeof choose>;

/**
 * Reads the declaration of a task.
 * @throws {RecipeError} with every fault and its line
 */
export async function readDeclaration(file: string): Promise<Declaration> {
  return parseDeclaration(await readSettingsText(file, KIND), file);
}

/** Parses the text of a declaration; `file` is for messages. */
export function parseDeclaration(text: string, file = "the declaration"): Declaration {
  return parseSettings(text, { file, kind: KIND, check });
}

const KIND = "declaration of a task";
const FIELDS = [...new Set([...Object.keys(generate.shape), ...Object.keys(choose.shape)])];

function check(value: unknown): Checked<Declaration> {
  const parsed = declaration.safeParse(value, { reportInput: true });
  if (parsed.success) return { value: parsed.data, faults: [] };
  const faults = faultsOfIssues([...parsed.error.issues, ...otherIssues(value, parsed.error.issues)]).map((fault) =>
    fault.path[0] === "answer" ? { ...fault, message: "must be generate or choose" } : withKind(fault),
  );
  return { faults };
}

/** Where a field is of the other kind of task, says so. */
function withKind(fault: Fault): Fault {
  const [, name = ""] = /^unknown field "(.*)"$/.exec(fault.message) ?? [];
  const kind = Object.hasOwn(generate.shape, name)
    ? "generate"
    : Object.hasOwn(choose.shape, name)
      ? "choose"
      : undefined;
  return kind === undefined
    ? withHint(fault, FIELDS)
    : { ...fault, message: `${fault.message}; it is for answer: ${kind}` };
}

/** What is wrong besides, where it is not said how the task is answered: then nothing else was looked at. */
function otherIssues(value: unknown, issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  if (!isObject(value) || !issues.some(({ path }) => path[0] === "answer")) return [];
  const [kind, schema] = "choices" in value ? (["choose", choose] as const) : (["generate", generate] as const);
  return schema.safeParse({ ...value, answer: kind }, { reportInput: true }).error?.issues ?? [];
}
