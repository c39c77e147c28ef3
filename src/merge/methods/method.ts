// The definition of a merge method: name, fields, formula, and the tensors of its result.
import type { z } from "zod";
import type { Operand, OperandTensor, PlanContext } from "./operand.js";

/** The sources of a recipe, opened. */
export interface Sources {
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

/** What `layergraft measure` writes. */
export const STATISTICS = ["fisher", "gram", "inputs"] as const;
export type StatisticsKind = (typeof STATISTICS)[number];

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
  /** Kind of statistics that its field `statistics` takes. */
  readonly statistics?: StatisticsKind;
  /** Whether its sources may differ outside the layers, such as in vocabulary. */
  readonly layersOnly?: true;
  /** Whether an adapter of the merge is that of the experts' factors A and B, each merged as a tensor, as PEFT does. */
  readonly onFactors?: true;
  /** Whether the result is always an adapter. */
  readonly onlyAdapter?: true;
  /** Example recipe for the documentation. */
  readonly example: z.input<Schema>;
  /** Fills in defaults that depend on the model's depth; the output records the result. */
  readonly complete?: (recipe: z.output<Schema>, layers: number) => z.output<Schema>;
  /** The merged model, tensor by tensor. */
  readonly tensors: (
    recipe: z.output<Schema>,
    sources: Sources,
    context: PlanContext,
  ) => Merged | Map<string, OperandTensor>;
  /** The first line of a plan: the method and its main parameters. */
  readonly headline: (recipe: z.output<Schema>) => string;
  /** Text of the model card. `name` returns the name of a source. */
  readonly describe: (recipe: z.output<Schema>, name: (field: string) => string, layers: number) => string;
  /** How averages are weighted. */
  readonly weighting?: (recipe: z.output<Schema>) => string;
}

/** A method of any type, for a recipe that was checked against its schema. */
export interface AnyMethod extends Omit<Method, "complete" | "tensors" | "headline" | "describe" | "weighting"> {
  readonly complete?: (recipe: object, layers: number) => object;
  readonly tensors: (recipe: object, sources: Sources, context: PlanContext) => ReturnType<Method["tensors"]>;
  readonly headline: (recipe: object) => string;
  readonly describe: (recipe: object, name: (field: string) => string, layers: number) => string;
  readonly weighting?: (recipe: object) => string;
}

/** What a method must say of itself; the rest is for people. */
type Required = "name" | "title" | "tensors";

/** A method as it is written: its schema as a function, as building all of them takes longer than planning a merge. */
export type MethodDefinition<Schema extends z.ZodObject> = Pick<Method<Schema>, Required> &
  Partial<Omit<Method<Schema>, Required | "schema">> & { readonly schema: () => Schema };

/** Types a method by its schema and fills in what it does not say. */
export function defineMethod<Schema extends z.ZodObject>(method: MethodDefinition<Schema>): Method<Schema> {
  let schema: Schema | undefined;
  return {
    summary: "",
    formula: "",
    reference: "",
    tag: "merge",
    example: {} as z.input<Schema>,
    headline: () => method.title,
    describe: (_, __, layers) => `${method.title} of models of ${layers} layers.`,
    ...method,
    get schema() {
      schema ??= method.schema();
      return schema;
    },
  };
}
