// The recipe: fields of a method plus fields of the output.

import { z } from "zod";
import { parseBytes } from "../../kit/printing/index.js";
import type { AsWritten } from "../../kit/settings/index.js";
import { METHODS } from "../methods/index.js";
import { type Method, modelOf, type SourceRecipe } from "../methods/method.js";
import type { TensorPlan } from "../model-plan.js";

type Schemas = (typeof METHODS)[number]["schema"];

/** A merge without its output, usable in place of a checkpoint. */
export type MergeRecipe = z.output<Schemas>;

/** Element type of the output: as the sources have it, or converted. */
export const OUTPUT_DTYPES = ["keep", "bfloat16", "float16", "float32", "fp8"] as const;

/** What a merge writes: a whole model, or a LoRA adapter of the base that all sources share. */
export const OUTPUT_FORMS = ["model", "adapter"] as const;

const byteSize = z.union([z.string(), z.int().positive()]).transform((size, context): number => {
  const bytes = typeof size === "number" ? size : parseBytes(size);
  if (bytes !== undefined) return bytes;
  context.addIssue({ code: "custom", message: "must be a size such as 5GB" });
  return z.NEVER;
});

const tokenRow = z
  .strictObject({
    source: z.string().min(1).describe("source of the row, such as `models[0]`, or `zero`"),
    token: z.string().optional().describe("token of the source; default the same"),
    row: z.int().min(0).optional().describe("row of the source, instead of a token"),
    force: z.boolean().optional().describe("replace the row in sources that have the token, too; default false"),
  })
  .refine(({ token, row }) => token === undefined || row === undefined, "must have either token or row");

const vocabularyChoice = z.strictObject({
  from: z.string().min(1).describe("the source that gives the tokens and rows, such as `task`, or `union`"),
  tokens: z
    .record(z.string(), tokenRow)
    .optional()
    .describe("by token: where sources without it take its row from; tokens that the tokenizer lacks are added"),
  multiple_of: z.int().min(1).max(1_000_000).optional().describe("round the number of rows up with rows of zeros"),
});

/** Top-level fields of every recipe. */
export const outputFields = {
  dtype: z
    .enum(OUTPUT_DTYPES)
    .default("keep")
    .describe(
      "dtype of the result, but for tensors that need float32, such as the bias of a router; `keep` leaves each tensor as it is in the sources, `fp8` encodes matrices as an FP8 source does, or by blocks of 128",
    ),
  as: z
    .enum(OUTPUT_FORMS)
    .optional()
    .describe(
      "form of the result: a whole `model`, or a PEFT `adapter` of the base that all sources share; default `model`",
    ),
  budget: z
    .number()
    .gt(0, "must be above 0")
    .max(1, "must be at most 1")
    .optional()
    .describe(
      "share of each expert's bytes to read: blocks with the largest change, known from `layergraft analyze`; the base's replace the rest; default all",
    ),
  shard_size: byteSize.optional().describe("size limit of a weight file; default 5GB"),
  vocabulary: z
    .union([z.string().min(1), vocabularyChoice], {
      error: "must be a source, union, or { from, tokens, multiple_of }",
    })
    .optional()
    .describe(
      "tokens and rows to keep if vocabularies differ: those of a source, such as `task`, or `union`; default an error",
    ),
  tensors: z
    .enum(["union", "intersection"])
    .optional()
    .describe(
      "if some sources lack tensors: `union` merges each from the sources that have it, `intersection` leaves it out; default an error",
    ),
  chat_template: z
    .string()
    .min(1)
    .max(100_000)
    .optional()
    .describe("Jinja text of the chat template that is written; default the tokenizer's"),
  tokenizer_from: z
    .string()
    .min(1)
    .optional()
    .describe(
      "source of the tokenizer, chat template and generation configuration; default the task expert or the first model",
    ),
};

export const outputSchema = z.strictObject(outputFields);
type OutputFields = z.ZodObject<typeof outputFields>;

/** A whole recipe, defaults filled in. */
export type Recipe = MergeRecipe & Readonly<z.output<OutputFields>>;
/** A recipe as written, before defaults. */
export type RecipeInput = AsWritten<z.input<Schemas> & z.input<OutputFields>>;

const BY_NAME: Map<string, Method> = new Map(METHODS.map((method) => [method.name, method as unknown as Method]));

/** Makes a method known that is not built in. */
export function addMethod(method: Method): void {
  BY_NAME.set(method.name, method);
}

export function findMethod(name: string): Method | undefined {
  return BY_NAME.get(name);
}

export function methodOf(recipe: { readonly method: string }): Method {
  return BY_NAME.get(recipe.method) as Method;
}

/** Fields that name one source each, in any method. */
export const SOURCE_FIELDS = ["backbone", "task", "language", "expert", "tokenizer", "statistics", "base"] as const;
/** Whether a source is not a model, but statistics of one. @param id its path within the recipe */
export const isStatistics = (id: string): boolean => id === "statistics" || id.endsWith(".statistics");

/** The source that is the statistics of another: those of the recipe itself are of its base. */
export const statisticsFieldOf = (id: string): string => (id === "base" ? "statistics" : `${id}.statistics`);

/** Whether a source gives only a tokenizer. */
export const isDonor = (id: string): boolean => id === "tokenizer" || id.endsWith(".tokenizer");

/** Fields that list sources, bare or as `{ model, ... }`. */
export const LIST_FIELDS = ["models", "slices"] as const;

export function isListField(field: PropertyKey | undefined): boolean {
  return LIST_FIELDS.some((name) => name === field);
}

/** The direct sources of a recipe, with their labels and paths. */
export function sourcesOf(recipe: object): [label: string, source: SourceRecipe, path: PropertyKey[]][] {
  const fields = recipe as Record<string, unknown>;
  const named = SOURCE_FIELDS.flatMap((field): [string, SourceRecipe, PropertyKey[]][] =>
    fields[field] === undefined ? [] : [[field, fields[field] as SourceRecipe, [field]]],
  );
  const listed = LIST_FIELDS.flatMap((field) => {
    const entries = fields[field];
    if (!Array.isArray(entries)) return [];
    return entries.flatMap((entry, i): [string, SourceRecipe, PropertyKey[]][] => {
      const isEntry = typeof entry === "object" && entry !== null && "model" in entry;
      const model: [string, SourceRecipe, PropertyKey[]] = [
        `${field}[${i}]`,
        modelOf(entry),
        isEntry ? [field, i, "model"] : [field, i],
      ];
      if (!isEntry || !("statistics" in entry)) return [model];
      return [model, [`${field}[${i}].statistics`, entry.statistics as SourceRecipe, [field, i, "statistics"]]];
    });
  });
  // The base last: the sources that make up the result come first.
  return [...named.filter(([label]) => label !== "base"), ...listed, ...named.filter(([label]) => label === "base")];
}

/** The same recipe with its direct sources replaced. */
export function mapSources<R extends object>(recipe: R, to: (source: SourceRecipe, label: string) => unknown): R {
  const replaced = { ...recipe } as Record<string, unknown>;
  for (const [label, source, [field, index, inner]] of sourcesOf(recipe)) {
    const name = field as string;
    if (index === undefined) {
      replaced[name] = to(source, label);
      continue;
    }
    const list = [...(replaced[name] as unknown[])];
    list[index as number] =
      inner === undefined ? to(source, label) : { ...(list[index as number] as object), [inner]: to(source, label) };
    replaced[name] = list;
  }
  return replaced as R;
}

/** The same with replacements that take time, one after the other. */
export async function mapSourcesAsync<R extends object>(
  recipe: R,
  to: (source: SourceRecipe, label: string) => Promise<unknown>,
): Promise<R> {
  const made = new Map<string, unknown>();
  for (const [label, source] of sourcesOf(recipe)) made.set(label, await to(source, label));
  return mapSources(recipe, (_, label) => made.get(label));
}

/** A user's file that a method of the recipe is. */
export interface OwnCode {
  /** The method's name in the plan's recipe. */
  readonly name: string;
  /** Absolute path. */
  readonly file: string;
  /** SHA-256 of the file, which has no imports. */
  readonly digest: string;
}

/** A merge as plain data: the recipe with every default filled in, its inputs, and the value of each output tensor. */
export interface Plan extends TensorPlan<Recipe> {
  readonly code?: readonly OwnCode[];
}
