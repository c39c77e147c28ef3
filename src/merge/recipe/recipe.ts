// The recipe: fields of a method plus fields of the output.

import { z } from "zod";
import { isObject } from "../../kit/index.js";
import { parseBytes } from "../../kit/printing/index.js";
import type { AsWritten } from "../../kit/settings/index.js";
import { METHODS } from "../methods/index.js";
import type { Method, SourceRecipe } from "../methods/method.js";
import {
  joinFields,
  type SourceField,
  type SourceFields,
  type SourceKind,
  type SourceList,
  type StatisticsKind,
  sourceFieldsIn,
} from "../methods/source-fields.js";
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
      "dtype of the result; `keep` leaves each tensor as it is in the sources, `fp8` encodes matrices as an FP8 source does, or by blocks of 128",
    ),
  as: z
    .enum(OUTPUT_FORMS)
    .optional()
    .describe(
      "form of the result: a whole `model`, or a PEFT `adapter` of the base that all sources share; default `model`",
    ),
  lora_merge_dtype: z
    .enum(["bfloat16", "float16", "float32"])
    .optional()
    .describe(
      "dtype that a base plus its adapter is rounded to before the merge, as in mergekit; default float32, which rounds nothing",
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

/** Of a recipe of no known method, such as one that a plan's grid sets. */
let ofAnyMethod: SourceFields | undefined;

/** The fields of a recipe that are sources, in the order of its method's, the base last; else those of any built-in method. */
export function sourceFieldsOf(recipe: object): SourceFields {
  const { method } = recipe as { readonly method?: unknown };
  const known = typeof method === "string" ? findMethod(method) : undefined;
  if (known) return sourceFieldsIn(known.schema);
  ofAnyMethod ??= joinFields(METHODS.map(({ schema }) => sourceFieldsIn(schema)));
  return ofAnyMethod;
}

/** A source of a recipe. */
export interface RecipeSource {
  /** Its name within the recipe, such as `task` or `models[0]`. */
  readonly label: string;
  readonly source: SourceRecipe;
  /** Its place in the recipe; that of a list's entry has an index. */
  readonly path:
    | readonly [field: string]
    | readonly [list: string, index: number]
    | readonly [list: string, index: number, field: string];
  readonly kind: SourceKind;
  /** Of statistics: their kind, and the label of the model that they are of. */
  readonly statistics?: { readonly kind: StatisticsKind; readonly of: string };
}

/** The direct sources of a recipe, which may be unchecked. */
export function sourcesOf(recipe: object): RecipeSource[] {
  const values = recipe as Readonly<Record<string, unknown>>;
  return sourceFieldsOf(recipe).flatMap((declared): RecipeSource[] => {
    const value = values[declared.field];
    if (value === undefined) return [];
    if (!("entry" in declared)) return [sourceAt(declared, value, [declared.field], (field) => field)];
    return Array.isArray(value) ? value.flatMap((entry: unknown, i) => sourcesIn(entry, declared, i)) : [];
  });
}

/** The sources in an entry of a list, a bare one or a mapping. */
function sourcesIn(entry: unknown, { field: list, entry: fields }: SourceList, i: number): RecipeSource[] {
  const labelOf = (field: string) => (field === "model" ? `${list}[${i}]` : `${list}[${i}].${field}`);
  const isMapping = isObject(entry) && ("model" in entry || !("method" in entry));
  if (isMapping) {
    return fields.flatMap((one) =>
      one.field in entry ? [sourceAt(one, entry[one.field], [list, i, one.field], labelOf)] : [],
    );
  }
  const bare = fields.find(({ field }) => field === "model");
  return bare ? [sourceAt(bare, entry, [list, i], labelOf)] : [];
}

function sourceAt(
  { field, source: kind, statistics }: SourceField,
  value: unknown,
  path: RecipeSource["path"],
  labelOf: (field: string) => string,
): RecipeSource {
  return {
    label: labelOf(field),
    source: value as SourceRecipe,
    path,
    kind,
    ...(statistics ? { statistics: { kind: statistics.kind, of: labelOf(statistics.of) } } : {}),
  };
}

/** Kinds of the sources of a recipe and of the recipes within it, by label. */
export function kindsOf(recipe: object, prefix = ""): ReadonlyMap<string, SourceKind> {
  return new Map(
    sourcesOf(recipe).flatMap(({ label, source, kind }): (readonly [string, SourceKind])[] =>
      typeof source === "string" ? [[`${prefix}${label}`, kind]] : [...kindsOf(source, `${prefix}${label}.`)],
    ),
  );
}

/** The same recipe with its direct sources replaced. */
export function mapSources<R extends object>(recipe: R, to: (source: SourceRecipe, label: string) => unknown): R {
  const replaced = { ...recipe } as Record<string, unknown>;
  for (const { label, source, path } of sourcesOf(recipe)) {
    const [field, index, inner] = path;
    if (index === undefined) {
      replaced[field] = to(source, label);
      continue;
    }
    const list = [...(replaced[field] as unknown[])];
    list[index] = inner === undefined ? to(source, label) : { ...(list[index] as object), [inner]: to(source, label) };
    replaced[field] = list;
  }
  return replaced as R;
}

/** The same with replacements that take time, one after the other. */
export async function mapSourcesAsync<R extends object>(
  recipe: R,
  to: (source: SourceRecipe, label: string) => Promise<unknown>,
): Promise<R> {
  const made = new Map<string, unknown>();
  for (const { label, source } of sourcesOf(recipe)) made.set(label, await to(source, label));
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
