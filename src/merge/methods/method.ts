// The definition of a merge method: name, fields, formula, and the tensors of its result; and fields that methods share.
import { z } from "zod";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { plural } from "../../kit/printing/index.js";
import { writtenAs } from "../../kit/settings/index.js";
import type { TensorPlan } from "../model-plan.js";
import type { Translation } from "./mergekit.js";
import type { Operand, OperandTensor, PlanContext } from "./operand.js";
import { numbersIn, parameterField } from "./parameter.js";
import { markSource, type SourceKind, type StatisticsKind, sourceFieldsIn } from "./source-fields.js";

/** The sources of a recipe, opened. */
export interface Operands {
  /** By field, such as `task`. */
  readonly get: (field: string) => Operand;
  readonly models: readonly Operand[];
  readonly base: Operand | undefined;
}

/** A result whose layers or configuration differ from its sources'. */
export interface Merged {
  readonly tensors: Map<string, OperandTensor>;
  /** Layer of the lead at each position; the same by default. */
  readonly layerOrder?: readonly number[] | undefined;
  /** Fields that replace those of the lead's config.json; such a model cannot be a source of another recipe. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

/** A source in the form that a method takes it in. */
export interface Replaced {
  readonly field: string;
  readonly checkpoint: Checkpoint;
  /** On the change. */
  readonly notes: readonly string[];
}

/** What a method says of its sources by how much each changed the base. */
export interface Warning {
  readonly notes: readonly string[];
  readonly suspicion?: NonNullable<TensorPlan["suspicion"]>;
}

export interface Method<Schema extends z.ZodObject = z.ZodObject> {
  /** As recipes name it. */
  readonly name: string;
  /** Displayed name, such as "Layer swap". */
  readonly title: string;
  /** One-sentence description. */
  readonly summary: string;
  /** Formula in the papers' symbols. */
  readonly formula: string;
  /** Paper or other source. */
  readonly reference: string;
  /** Tag on the hub. */
  readonly tag: string;
  readonly schema: Schema;
  /** mergekit's method of the same arithmetic. */
  readonly mergekit?: Translation;
  /** Whether the layers of its sources follow each other, so that the sources may differ in depth. */
  readonly stacks?: true;
  /** Whether its sources may differ outside the layers, such as in vocabulary. */
  readonly layersOnly?: true;
  /** Whether an adapter of the merge is that of the experts' factors A and B, each merged as a tensor, as PEFT does. */
  readonly onFactors?: true;
  /** Example recipe for the documentation. */
  readonly example: z.input<Schema>;
  /** Fills in defaults that depend on the model's depth; the output records the result. */
  readonly complete?: (recipe: z.output<Schema>, layers: number) => z.output<Schema>;
  /** Gives a source another form before the sources are compared. @param get a source, as it was opened */
  readonly replace?: (recipe: z.output<Schema>, get: (field: string) => Checkpoint) => Promise<Replaced>;
  /**
   * Compares what its sources changed; undefined if that is not known, and a base that no step reads is not needed.
   * @param changeIn share by which a source changed the base in a layer; undefined if unknown
   */
  readonly warn?: (
    recipe: z.output<Schema>,
    layers: number,
    changeIn: (field: string, layer: number) => number | undefined,
  ) => Warning | undefined;
  /** The merged model, tensor by tensor. */
  readonly tensors: (
    recipe: z.output<Schema>,
    sources: Operands,
    context: PlanContext,
  ) => Merged | Map<string, OperandTensor>;
  /** The first line of a plan: the method and its main parameters. */
  readonly headline: (recipe: z.output<Schema>) => string;
  /** Text of the model card. `name` returns the name of a source. */
  readonly describe: (recipe: z.output<Schema>, name: (field: string) => string, layers: number) => string;
  /** How averages are weighted. */
  readonly weighting?: (recipe: z.output<Schema>) => string;
}

/** The schema of a method's recipes. */
export type RecipeSchema<Name extends string, Shape extends z.ZodRawShape> = z.ZodObject<
  { readonly method: z.ZodLiteral<Name> } & Shape,
  z.core.$strict
>;

/** What a method must say of itself; the rest is for people. */
type Required = "title" | "tensors";

/** A method as it is written: its fields as a function, as building all schemas takes longer than planning a merge. */
export type MethodDefinition<Name extends string, Shape extends z.ZodRawShape> = Pick<
  Method<RecipeSchema<Name, Shape>>,
  Required
> &
  Partial<Omit<Method<RecipeSchema<Name, Shape>>, Required | "name" | "schema">> & {
    readonly name: Name;
    readonly fields: () => Shape;
  };

/** Types a method by its fields and fills in what it does not say. */
export function defineMethod<const Name extends string, Shape extends z.ZodRawShape>({
  fields,
  ...method
}: MethodDefinition<Name, Shape>): Method<RecipeSchema<Name, Shape>> {
  type Schema = RecipeSchema<Name, Shape>;
  let schema: Schema | undefined;
  const own: Method<Schema> = {
    summary: "",
    formula: "",
    reference: "",
    tag: method.name.replaceAll("_", "-"),
    example: {} as z.input<Schema>,
    headline: (recipe) => inWords(own, recipe),
    describe: (recipe, name, layers) => {
      return `${inWords(own, recipe, ` of ${layers} layers${"base" in recipe ? ` on ${name("base")}` : ""}`)}.`;
    },
    ...method,
    get schema() {
      schema ??= z.strictObject({ method: z.literal(method.name), ...fields() }) as unknown as Schema;
      return schema;
    },
  };
  return own;
}

/** A recipe by its method, how many models, and its parameters: `DARE of 2 models: density 0.3, seed 1`. */
function inWords<Schema extends z.ZodObject>(
  { title, schema }: Pick<Method<Schema>, "title" | "schema">,
  recipe: object,
  what = "",
): string {
  const { models = [], ...fields } = recipe as { models?: readonly unknown[] } & Record<string, unknown>;
  const perModel = new Set(models.flatMap((entry) => Object.keys(parametersOf(entry as { model: string }))));
  const sources = new Set(sourceFieldsIn(schema).map(({ field }) => field));
  const parameters = Object.entries(schema.shape).flatMap(([field, type]) => {
    const value = fields[field];
    if (sources.has(field)) return [];
    const isVaried = perModel.has(field) || typeof value === "object";
    if (isVaried) return [`${field} that differs`];
    const isParameter = typeof value === "number" || typeof value === "boolean" || isChoice(type);
    return isParameter && value !== undefined ? [`${field} ${value}`] : [];
  });
  return (
    title +
    (models.length > 0 ? ` of ${plural(models.length, "model")}` : "") +
    what +
    (parameters.length > 0 ? `: ${parameters.join(", ")}` : "")
  );
}

/** Whether a field's values are words to choose from. */
function isChoice(type: z.core.$ZodType): boolean {
  if (type instanceof z.ZodDefault || type instanceof z.ZodOptional) return isChoice(type.unwrap());
  return type instanceof z.ZodEnum;
}

/** A source of a recipe: a path, or another recipe. */
export type SourceRecipe = string | NestedRecipe;

/** A recipe within a recipe, of any method. TypeScript cannot infer a type that contains itself; it is checked when read. */
export interface NestedRecipe {
  readonly method: string;
  readonly [field: string]: unknown;
}

const SOURCE = "must be a folder, FOLDER+ADAPTER, or a recipe with a method";

/** A folder, FOLDER+ADAPTER, a model on the hub, or a recipe, which its method's schema checks later. */
const source = markSource(
  writtenAs(z.custom<SourceRecipe>(isSource, { error: SOURCE }), () => ({ title: "source", $ref: "#/$defs/source" })),
  { source: "model" },
);

export function isSource(value: unknown): boolean {
  if (typeof value === "string") return value !== "" && !value.includes("\0");
  return typeof value === "object" && value !== null && "method" in value;
}

/** A source. @param gives `model` (the default), or `tokenizer` for one whose weights are not merged */
export function sourceField(description: string, gives: Exclude<SourceKind, "statistics"> = "model"): typeof source {
  return markSource(source.describe(description), { source: gives });
}

/** Statistics of a model. @param of the field beside it that names the model; `model` in the entry of a list */
export function statisticsField(kind: StatisticsKind, of: string) {
  const field = z.string().min(1);
  const described = field.describe(`statistics of the ${of}: a folder of \`layergraft measure --kind ${kind}\``);
  return markSource(described, { source: "statistics", statistics: { kind, of } });
}

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
