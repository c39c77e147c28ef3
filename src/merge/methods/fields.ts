import { z } from "zod";
import { writtenAs } from "../../kit/settings/index.js";
import type { StatisticsKind } from "./method.js";
import { numbersIn, parameterField } from "./parameter.js";

/** A source of a recipe: a path, or another recipe. */
export type SourceRecipe = string | NestedRecipe;

/** A recipe within a recipe, of any method. TypeScript cannot infer a type that contains itself; it is checked when read. */
export interface NestedRecipe {
  readonly method: string;
  readonly [field: string]: unknown;
}

const SOURCE = "must be a folder, FOLDER+ADAPTER, or a recipe with a method";

/** A folder, FOLDER+ADAPTER, a model on the hub, or a recipe, which its method's schema checks later. */
const source = writtenAs(z.custom<SourceRecipe>(isSource, { error: SOURCE }), () => ({
  title: "source",
  $ref: "#/$defs/source",
}));

export function isSource(value: unknown): boolean {
  if (typeof value === "string") return value !== "" && !value.includes("\0");
  return typeof value === "object" && value !== null && "method" in value;
}

export function sourceField(description: string): typeof source {
  return source.describe(description);
}

/** Statistics of a model. @param of the model in the description */
export const statisticsField = (kind: StatisticsKind, of: string) =>
  z.string().min(1).describe(`statistics of ${of}: a folder of \`layergraft measure --kind ${kind}\``);

/** For a field that takes no recipe: the check and its message. */
export const MODEL_ONLY = [
  (value: SourceRecipe) => typeof value === "string",
  "must be a folder or a model on the hub. Write the recipe to a folder first.",
] as const;

// Weights are applied in float32 (maximum 3e38); these bounds leave room for the values.
const WEIGHT = "must be 0, or of a size from 1e-9 to 1e9";

function isWeight(w: number): boolean {
  return w === 0 || (Math.abs(w) >= 1e-9 && Math.abs(w) <= 1e9);
}

/** A weight that may differ by layer, part and tensor. */
export const weightField = parameterField.refine((weight) => numbersIn(weight).every(isWeight), WEIGHT);

/** Maximum models or slices of a recipe. Each is opened and is part of every tensor's plan. */
export const MAX_SOURCES = 500;

/** A model of a list, with parameters of its own. */
export function modelsField<Shape extends z.ZodRawShape>(description: string, parameters: Shape, atLeast = 1) {
  const entry = z.strictObject({ model: source, ...parameters });
  // A recipe in the list is a model, too.
  const plain = source.refine((value) => typeof value === "string" || !("model" in value));
  return z
    .array(
      z.union([entry, plain], {
        error: `must be a folder, FOLDER+ADAPTER, a recipe, or { model, ${Object.keys(parameters).join(", ")} }`,
      }),
    )
    .min(atLeast, `must name at least ${atLeast === 1 ? "one model" : `${atLeast} models`}`)
    .max(MAX_SOURCES, `must name at most ${MAX_SOURCES} models`)
    .meta({ title: "list of models", description });
}

/** The source of an entry of such a list. */
export function modelOf(entry: SourceRecipe | { readonly model: SourceRecipe }): SourceRecipe {
  // An unchecked value may be null.
  return typeof entry === "object" && entry !== null && "model" in entry ? (entry.model as SourceRecipe) : entry;
}

/** An entry's own parameters; none for a bare source. */
export function parametersOf<Entry extends { readonly model: SourceRecipe }>(
  entry: SourceRecipe | Entry,
): Partial<Omit<Entry, "model">> {
  return typeof entry === "object" && "model" in entry ? (entry as Entry) : {};
}

export const seedField = z
  .int("must be a whole number")
  .min(0)
  .max(2 ** 32 - 1)
  .default(0)
  .describe("random seed; the same seed gives the same bytes");

export const lambdaField = weightField.default(1).describe("factor for the merged change");

/** The experts, and the base that their changes are from. */
export function expertFields<Shape extends z.ZodRawShape>(parameters: Shape, atLeast = 2) {
  return {
    models: modelsField("the experts", parameters, atLeast),
    base: sourceField("model that all were fine-tuned from"),
  };
}
