// What a merge method is: a name, fields, a formula, and how the tensors of its result are made of those of its sources.
import type { z } from "zod";
import type { Operand, OperandTensor, PlanContext } from "./operand.js";

/** The sources of a recipe, opened. */
export interface Sources {
  /** By field, such as `task`. */
  readonly get: (field: string) => Operand;
  readonly models: readonly Operand[];
  readonly base: Operand | undefined;
}

/** A result with other layers than its sources. */
export interface Merged {
  readonly tensors: Map<string, OperandTensor>;
  /** Which layer of the lead is at each place. */
  readonly layerOrder: readonly number[];
}

export interface Method<Schema extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  /** For people, such as "Layer swap". */
  readonly title: string;
  /** What it does, in a sentence. */
  readonly summary: string;
  /** In the symbols of the papers. */
  readonly formula: string;
  /** Where it comes from. */
  readonly reference: string;
  /** What the hub calls it. */
  readonly tag: string;
  readonly schema: Schema;
  /** A recipe as one may write it, for the documentation. */
  readonly example: z.input<Schema>;
  /** Fills in defaults that depend on the model's depth, so that the output records what was done. */
  readonly complete?: (recipe: z.output<Schema>, layers: number) => z.output<Schema>;
  /** The merged model, tensor by tensor. */
  readonly tensors: (
    recipe: z.output<Schema>,
    sources: Sources,
    context: PlanContext,
  ) => Merged | Map<string, OperandTensor>;
  /** The first line of a plan: the method and its main parameters. */
  readonly headline: (recipe: z.output<Schema>) => string;
  /** For the model card: what was done, in sentences. `name` names a source. */
  readonly describe: (recipe: z.output<Schema>, name: (field: string) => string, layers: number) => string;
  /** How averages are weighted, where the plan has any. */
  readonly weighting?: (recipe: z.output<Schema>) => string;
}

/** A method of a recipe whose type is not known; the recipe was checked against its schema. */
export interface AnyMethod extends Omit<Method, "complete" | "tensors" | "headline" | "describe" | "weighting"> {
  readonly complete?: (recipe: object, layers: number) => object;
  readonly tensors: (recipe: object, sources: Sources, context: PlanContext) => ReturnType<Method["tensors"]>;
  readonly headline: (recipe: object) => string;
  readonly describe: (recipe: object, name: (field: string) => string, layers: number) => string;
  readonly weighting?: (recipe: object) => string;
}

/** Types a method by its schema. */
export function defineMethod<Schema extends z.ZodObject>(method: Method<Schema>): Method<Schema> {
  return method;
}
