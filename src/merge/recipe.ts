// The recipe: what a person writes to say what to merge. Shapes and defaults only; what a method does with it stands in
// methods/, and reading the file in recipe-file.ts.
import { z } from "zod";
import { parseBytes } from "../core/format.js";

const layerCount = z.int("must be a whole number").min(0, "must not be negative");
// Weights are applied in float32, which ends at 1e38; far before that they leave no room for the values.
const weight = z
  .number()
  .refine((w) => w === 0 || (Math.abs(w) >= 1e-9 && Math.abs(w) <= 1e9), "must be 0, or of a size from 1e-9 to 1e9");

/** Folder, FOLDER+ADAPTER, or name of a model in the hub's local cache. */
const sourcePath = z.string().regex(/^[^\0]+$/, "must name a folder, or FOLDER+ADAPTER");

/** A source of a recipe: a path, or another recipe. */
export type SourceRecipe = string | MergeRecipe;
type SourceRecipeInput = string | MergeRecipeInput;

// Recipes nest, so their types are written out here; the schema below is checked against them.

/** Layer swapping, arXiv 2410.01335, algorithm 1. */
export interface SwapRecipe {
  readonly method: "swap";
  /** The expert whose middle layers are kept. */
  readonly task: SourceRecipe;
  /** The expert whose bottom and top layers are taken. */
  readonly language: SourceRecipe;
  /** The model both were fine-tuned from; needed for `weights: magnitude`. */
  readonly base?: SourceRecipe | undefined;
  /** Layers taken from the language expert, counted from the input; default 5 of 32, in proportion. */
  readonly bottom?: number | undefined;
  /** Layers taken from the language expert at the output; default 2 of 32, in proportion. */
  readonly top?: number | undefined;
  /** Layers averaged above the bottom ones; default 0. */
  readonly bottom_transition: number;
  /** Layers averaged below the top ones; default 0. */
  readonly top_transition: number;
  /** Weights of the averages: equal (default), by inverse magnitude of the change, or [task, language]. */
  readonly weights: "equal" | "magnitude" | [number, number];
  /** Where tensors in no layer come from; default average. */
  readonly outside: (typeof OUTSIDE)[number];
  /** Which parts of a swapped layer come from the language expert; default all. The rest is the task expert's. */
  readonly parts: (typeof PARTS)[number];
}

/** The average of several models. */
export interface SoupRecipe {
  readonly method: "soup";
  /** The models to average, each with an optional weight (default 1). */
  readonly models: (string | { model: SourceRecipe; weight?: number | undefined })[];
  /** The model all were fine-tuned from; needed for `weights: magnitude`. */
  readonly base?: SourceRecipe | undefined;
  /** `equal` (default) leaves the weights to the models; `magnitude` finds them from the size of each model's change. */
  readonly weights: "equal" | "magnitude";
}

/** A merge without its output: what can stand in place of a checkpoint. */
export type MergeRecipe = SwapRecipe | SoupRecipe;

type Written<R extends MergeRecipe, Defaulted extends keyof R, Nested extends keyof R> = Omit<R, Defaulted | Nested> & {
  readonly [Field in Defaulted]?: R[Field] | undefined;
};

export type SwapRecipeInput = Written<
  SwapRecipe,
  "bottom_transition" | "top_transition" | "weights" | "outside" | "parts",
  "task" | "language" | "base"
> & { task: SourceRecipeInput; language: SourceRecipeInput; base?: SourceRecipeInput | undefined };

export type SoupRecipeInput = Written<SoupRecipe, "weights", "models" | "base"> & {
  models: (string | { model: SourceRecipeInput; weight?: number | undefined })[];
  base?: SourceRecipeInput | undefined;
};

export type MergeRecipeInput = SwapRecipeInput | SoupRecipeInput;

/** Which parts of a swapped layer come from the language expert; the rest comes from the task expert. */
export const PARTS = ["all", "attention", "mlp"] as const;
/** Where tensors in no layer come from. */
export const OUTSIDE = ["average", "task", "language"] as const;

const source: z.ZodType<SourceRecipe, SourceRecipeInput> = z.lazy(() =>
  z.union([sourcePath, mergeRecipe], { error: "must be a folder, FOLDER+ADAPTER, or a recipe with a method" }),
);

const swapRecipe = z.strictObject({
  method: z.literal("swap"),
  task: source,
  language: source,
  base: source.optional(),
  bottom: layerCount.optional(),
  top: layerCount.optional(),
  bottom_transition: layerCount.default(0),
  top_transition: layerCount.default(0),
  weights: z
    .union([z.enum(["equal", "magnitude"]), z.tuple([weight, weight])], {
      error: "must be equal, magnitude, or two numbers [task, language]",
    })
    .default("equal"),
  outside: z.enum(OUTSIDE).default("average"),
  parts: z.enum(PARTS).default("all"),
});

const soupRecipe = z.strictObject({
  method: z.literal("soup"),
  models: z
    .array(
      z.union([sourcePath, z.strictObject({ model: source, weight: weight.optional() })], {
        error: "must be a folder, FOLDER+ADAPTER, or { model, weight }",
      }),
    )
    .min(1, "must name at least one model"),
  base: source.optional(),
  weights: z.enum(["equal", "magnitude"]).default("equal"),
});

const wrongMethod = ({ code }: { code?: string | undefined }) =>
  code === "invalid_union" ? "must be swap or soup" : "must be a recipe: a mapping with a method and its sources";

const mergeRecipe = z.discriminatedUnion("method", [swapRecipe, soupRecipe], { error: wrongMethod });

/** Element type of the output: as the sources have it, or converted. */
export const OUTPUT_DTYPES = ["keep", "bfloat16", "float16", "float32"] as const;

const byteSize = z.union([z.string(), z.int().positive()]).transform((size, context): number => {
  const bytes = typeof size === "number" ? size : parseBytes(size);
  if (bytes !== undefined) return bytes;
  context.addIssue({ code: "custom", message: "must be a size such as 5GB" });
  return z.NEVER;
});

const outputFields = {
  /** Default keep: every tensor keeps the dtype it has in the sources. */
  dtype: z.enum(OUTPUT_DTYPES).default("keep"),
  /** Largest weight file; default 5 GB. */
  shard_size: byteSize.optional(),
  /** Whose tokenizer, chat template and generation configuration go with the result; default the task expert's, or the first model's. */
  tokenizer_from: z.string().min(1).optional(),
};

export const recipeSchema = z.discriminatedUnion(
  "method",
  [swapRecipe.extend(outputFields), soupRecipe.extend(outputFields)],
  { error: wrongMethod },
);

/** A whole recipe, defaults filled in. */
export type Recipe = z.output<typeof recipeSchema>;
/** A recipe as it may be written. */
export type RecipeInput = z.input<typeof recipeSchema>;
