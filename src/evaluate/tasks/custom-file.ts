// The declaration of a task of one's own: a YAML file, checked with all faults at once and their lines.
// What a declaration does is custom.ts's.
import { stat } from "node:fs/promises";
import { isNode, LineCounter, parseDocument } from "yaml";
import { z } from "zod";
import { isSystemError, RecipeError } from "../../core/errors.js";
import { closest } from "../../core/format.js";
import { BLEU_TOKENIZERS } from "../metrics/index.js";
import { readText } from "./data.js";

// A declaration has a page; this keeps a wrong argument from being read whole.
const MAX_DECLARATION_BYTES = 1_000_000;

const template = z
  .string()
  .min(1)
  // A single brace is how declarations of training data write a field; here it would be asked as it stands.
  .refine(
    (text) => /\{\{/.test(text) || !/\{[\w.[\]]+\}/.test(text),
    "has a field in single braces; write {{question}} for the field question",
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
  try {
    const { size } = await stat(file);
    if (size > MAX_DECLARATION_BYTES) {
      throw new RecipeError(`${file} is too large to be the declaration of a task`, [], { file });
    }
    return parseDeclaration(await readText(file), file);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new RecipeError(`${file} does not exist`, [], { file });
    if (isSystemError(error, "EISDIR")) throw new RecipeError(`${file} is a folder; give a YAML file`, [], { file });
    throw error;
  }
}

/** Parses the text of a declaration; `file` is for messages. */
export function parseDeclaration(text: string, file = "the declaration"): Declaration {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => lines.linePos(offset).line;
  if (document.errors.length > 0) {
    const faults = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${error.message}`);
    throw new RecipeError(`${file} is not valid YAML:`, faults, { file });
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    throw new RecipeError(`${file} has too many aliases; write it out plainly`, [], { file });
  }
  const parsed = declaration.safeParse(value, { reportInput: true });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => {
    // The closest part of the file that exists; a missing field is reported at the mapping that lacks it.
    for (let depth = issue.path.length; depth >= 0; depth--) {
      const node = depth === 0 ? document.contents : document.getIn(issue.path.slice(0, depth), true);
      if (isNode(node) && node.range) return `line ${lineAt(node.range[0])}: ${describe(issue)}`;
    }
    return describe(issue);
  });
  throw new RecipeError(`${file} is not a valid declaration of a task:`, faults, { file });
}

const FIELDS = [...new Set([...Object.keys(generate.shape), ...Object.keys(choose.shape)])];

function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  if (issue.code === "unrecognized_keys") {
    return issue.keys
      .map((key) => {
        const meant = closest(key, FIELDS);
        return `unknown field "${key}"${meant && meant !== key ? `; did you mean ${meant}?` : ""}`;
      })
      .join(", ");
  }
  if (issue.code === "invalid_union" && issue.path[0] === "answer") return "answer: must be generate or choose";
  if (issue.input === undefined) return `${path}is missing`;
  return `${path}${issue.message.replace(/^(Invalid (input|option)|Too (small|big)): /, "")}`;
}
