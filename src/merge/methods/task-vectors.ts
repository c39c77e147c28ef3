// Shared code of methods on task vectors (Ilharco et al., ICLR 2023, arXiv 2212.04089): sparsify each expert's change,
// combine the changes, add them to the base.

import { z } from "zod";
import { factorOf } from "../../formats/checkpoint/index.js";
import {
  type Leaf,
  sumOfWeights,
  type Value,
  type Weight,
  type WeightedValue,
} from "../../tensor/expressions/index.js";
import { CUT, type CutMeasurement, defineCombination, type Totals } from "../../tensor/measurements/index.js";
import { elect } from "./elect-signs.js";
import type { Translation } from "./mergekit.js";
import {
  defineMethod,
  expertFields,
  lambdaField,
  type Method,
  type Operands,
  parametersOf,
  type RecipeSchema,
  weightField,
} from "./method.js";
import { addedToBase, type Operand, type OperandTensor, type PlanContext, requireBase } from "./operand.js";
import {
  boundedParameter,
  type Parameter,
  parameterField,
  type Resolved,
  resolveParameter,
  resolveSwitch,
  type Switch,
  switchField,
} from "./parameter.js";

/** What becomes of elements that equal a threshold. No default, so that what identifies older recipes stays. */
export const cutoffField = z
  .enum(["keep-ties", "exact"])
  .optional()
  .describe(
    "keep everything that equals the threshold (the default), or exactly the share, of equals the first in the order of the tensors",
  );

export type Cutoff = "keep-ties" | "exact" | undefined;

/** The measurement of a cut, whose id is of the ties that are kept. */
export function cutMeasurement(cutoff: Cutoff, cut: Omit<CutMeasurement, "kind" | "isExact">): CutMeasurement {
  const isExact = cutoff === "exact";
  return { ...cut, id: isExact ? `${cut.id}, exact` : cut.id, kind: "cut", isExact };
}

/**
 * A value where it is within a cut.
 * @param place of the value among those of the cut
 * @param by whose magnitudes count; default its own
 */
export function within(cut: CutMeasurement, place: number, value: Value, context: PlanContext, by?: Value): Value {
  const { measured } = context.measure(cut);
  const at = (result: number) => ({ measured, at: result });
  const [low, high] = [at(CUT.low), at(CUT.high)];
  if (!cut.isExact) return by ? { op: "trim-by", of: [value, by], low } : { op: "trim", of: [value], low, high };
  const own = CUT.places + 2 * place;
  return { op: "cut", of: by ? [value, by] : [value], low, before: at(own), high, from: at(own + 1) };
}

/** A share from 0 to 1, perhaps different by layer, part or tensor. */
export const shareField = boundedParameter(0, 1);

const normalizeSum = switchField.default(false).describe("divide the sum of the changes by the sum of the weights");
const normalizeElected = switchField
  .default(true)
  .describe("average the changes that agree, by weight; `false` adds them up");

/**
 * Shares of a method by name, each from 0 to 1 and perhaps different by model: the default, what it is a share of, and the value
 * where no rule applies, if that is not the default.
 */
type Shares = Readonly<Record<string, readonly [fallback: number, meaning: string, elsewhere?: number]>>;

/** Fields of such a method: the shares per model or for all, and its own. */
type Fields<Own extends Shares, Shape extends z.ZodRawShape> = ReturnType<typeof sharedFields<Own>> &
  Shape & { readonly normalize: typeof normalizeSum };

type Schema<Name extends string, Own extends Shares, Shape extends z.ZodRawShape> = RecipeSchema<
  Name,
  Fields<Own, Shape>
>;

/** A recipe of such a method. */
type Sparsifying<Own extends Shares, Shape extends z.ZodRawShape> = TaskVectorRecipe &
  z.output<z.ZodObject<Shape>> & { readonly [Share in keyof Own]: Parameter };

/** Definition of a method that sparsifies changes. */
interface SparsifyingMethod<Name extends string, Own extends Shares, Shape extends z.ZodRawShape> {
  readonly name: Name;
  readonly title: string;
  readonly summary: string;
  /** Symbol of a sparsified change in the formula, and its definition. */
  readonly symbol?: string;
  readonly definition?: string;
  /** The whole formula, where it is another. */
  readonly formula?: string;
  readonly reference: string;
  readonly tag: string;
  readonly mergekit: Translation;
  /** Set per model, or at the top level for all. */
  readonly shares: Own;
  /** Fields besides; one of them may be `rescale`. */
  readonly fields: () => Shape;
  readonly example: z.input<Schema<Name, Own, Shape>>;
  readonly complete?: NonNullable<Method<Schema<Name, Own, Shape>>["complete"]>;
  /**
   * Makes what sparsifies each change of a merge, and returns the change itself where nothing is dropped.
   * @param how the tensor is rescaled
   */
  readonly sparsify?: (
    recipe: Sparsifying<Own, Shape>,
    sources: Operands,
    context: PlanContext,
  ) => (change: Change, shares: { readonly [Share in keyof Own]: number }, how: string) => Value;
  /** The elected sign of elements whose changes cancel out; default 1. */
  readonly tie?: (
    recipe: Sparsifying<Own, Shape>,
    sources: Operands,
    context: PlanContext,
    sparsify: (change: Change) => Value,
  ) => Weight;
}

type Each<Own extends Shares, Field> = { readonly [Share in keyof Own]: Field };

function sharedFields<Own extends Shares>(shares: Own) {
  const each = <Field>(to: (field: typeof shareField, fallback: number) => Field) =>
    Object.fromEntries(
      Object.entries(shares).map(([name, [fallback, meaning]]) => [name, to(shareField.describe(meaning), fallback)]),
    ) as Each<Own, Field>;
  const weight = weightField.optional().describe("factor for its change; default 1");
  return {
    ...expertFields({ weight, ...each((field) => field.optional()) }, 1),
    lambda: lambdaField,
    ...each((field, fallback) => field.default(fallback)),
  };
}

/** Sources of an example. */
export const EXAMPLE = { models: ["math-expert", "swahili-expert"], base: "base" };

/** A method that sparsifies each change, then sums the changes or elects signs as TIES does. */
export function sparsifyingMethod<const Name extends string, const Own extends Shares, Shape extends z.ZodRawShape>(
  how: "added" | "elected",
  {
    symbol,
    definition,
    shares,
    fields,
    example,
    complete,
    sparsify,
    tie,
    ...about
  }: SparsifyingMethod<Name, Own, Shape>,
) {
  const isAdded = how === "added";
  const names = Object.keys(shares) as (keyof Own & string)[];
  return defineMethod<Name, Fields<Own, Shape>>({
    formula: isAdded
      ? `theta_base + lambda sum(w_i ${symbol}_i), ${definition}`
      : `theta_base + lambda mean_{i: sign(${symbol}_i) = s} ${symbol}_i, s = sign(sum(w_i ${symbol}_i)), + if that is 0, ${definition}`,
    ...about,
    ...(sparsify ? { onFactors: true } : {}),
    ...(complete ? { complete } : {}),
    fields: () => ({
      ...sharedFields(shares),
      ...fields(),
      normalize: isAdded ? normalizeSum : normalizeElected,
    }),
    example,
    tensors: (checked, sources, context) => {
      const recipe = checked as Sparsifying<Own, Shape> & { readonly rescale?: string };
      const drop = sparsify?.(recipe, sources, context) ?? (({ delta }: Change) => delta);
      const resolved = sources.models.map((expert, i) => ({
        how: resolveRescale(recipe.rescale ?? "none", expert),
        shares: names.map((name) => {
          const [fallback = 0, , elsewhere = fallback] = shares[name] ?? [];
          return modelParameter(recipe, i, name, elsewhere, expert);
        }),
      }));
      const sparsified = (change: Change) => {
        const { how, shares } = resolved[change.model] as (typeof resolved)[number];
        const values = Object.fromEntries(names.map((name, i) => [name, shares[i]?.(change.name) ?? 0]));
        const kept = drop(change, values as Each<Own, number>, how(change.name));
        return how(change.name) === "norm" ? withNorm(change, kept, context) : kept;
      };
      if (isAdded) return mergeTaskVectors(recipe, sources, context, { sparsify: sparsified });
      const sign = tie?.(recipe, sources, context, sparsified);
      const join: TaskVectorMerge["join"] = (changes, isNormalized) => elect(changes, isNormalized, sign);
      return mergeTaskVectors(recipe, sources, context, { sparsify: sparsified, isNormalized: true, join });
    },
  });
}

/** Of methods that drop changes without rescaling the rest. No default, so that what identifies older recipes stays. */
export const rescaleField = rescaledAs(["none", "norm"])
  .optional()
  .describe("leave what is kept as it is (the default), or match the L1 norm of the whole change in each tensor");

/** How a method may rescale; as a parameter, numbers other than 0 are `norm`. */
export function rescaledAs<const Names extends readonly string[]>(names: Names) {
  return z.union([z.enum(names), parameterField], {
    error: `must be ${names.join(", ")}, or a parameter that is 0 where it is none and 1 where it is norm`,
  });
}

/** How to rescale each tensor. */
function resolveRescale(written: string | Parameter, expert: Operand): (tensor: string) => string {
  if (typeof written === "string") return () => written;
  const isRescaled = resolveSwitch(written, false, "rescale", expert);
  return (tensor) => (isRescaled(tensor) ? "norm" : "none");
}

export const normRatio = defineCombination("norm-ratio", ([before, after]: Totals) => [
  before && after && after.sumAbsolute > 0 ? before.sumAbsolute / after.sumAbsolute : 1,
]);

/** A sparsified change, scaled so that its L1 norm is the whole change's. */
function withNorm({ name, expert, delta }: Change, kept: Value, context: PlanContext): Value {
  if (kept === delta) return kept;
  const { of: _, ...how } = kept as Exclude<Value, Leaf> & { readonly of?: unknown };
  const weight = context.measure({
    id: `L1 norm of ${name} of ${expert.label}, ${JSON.stringify(how)}`,
    kind: "totals",
    label: "L1 norms of changes",
    values: [delta, kept],
    combine: normRatio.with({}),
  });
  return { sum: [{ weight, value: kept }] };
}

/** One expert's change in one tensor. */
export interface Change {
  readonly name: string;
  readonly tensor: OperandTensor;
  /** Index of the expert among the models. */
  readonly model: number;
  readonly expert: Operand;
  readonly delta: Value;
}

export interface TaskVectorMerge {
  /** Sparsifies a change; by default it is kept whole. */
  readonly sparsify?: (change: Change) => Value;
  /** Combines the changes of a tensor; by default their weighted sum, divided by the sum of the weights if normalized. */
  readonly join?: (changes: readonly WeightedValue[], isNormalized: boolean, name: string) => Value;
  /** Whether tensors that no rule of `normalize` names are normalized; default false. */
  readonly isNormalized?: boolean;
}

interface TaskVectorRecipe {
  readonly models: readonly (string | object)[];
  readonly lambda: Parameter;
  readonly normalize?: Switch;
}

/** base + lambda * join(sparsify(theta_i - base)), tensor by tensor. */
export function mergeTaskVectors(
  recipe: TaskVectorRecipe,
  { models, base }: Operands,
  context: PlanContext,
  { sparsify = ({ delta }) => delta, join = weightedSum, isNormalized = false }: TaskVectorMerge,
): Map<string, OperandTensor> {
  const root = requireBase(base, "this method needs");
  const [lead = root] = models;
  const weights = models.map((expert, i) => modelParameter(recipe, i, "weight", 1, expert));
  const lambda = resolveParameter(recipe.lambda, 1, "lambda", lead);
  const weigh = context.isOnFactors ? rootOf : (_: string, weight: number) => weight;
  const normalizes = resolveSwitch(recipe.normalize ?? isNormalized, isNormalized, "normalize", lead);
  return addedToBase(models, root, "", context, (name, tensor, changes) => {
    const terms = models.map((expert, model) => {
      const weight = weigh(name, weights[model]?.(name) ?? 1);
      return { weight, value: sparsify({ name, tensor, model, expert, delta: changes[model] as Value }) };
    });
    return [{ weight: weigh(name, lambda(name)), value: join(terms, normalizes(name), name) }];
  });
}

/** The weight of one factor of a change: its root, with the sign on A, so that the product has the weight. */
function rootOf(factor: string, weight: number): number {
  return (factorOf(factor)?.side === "a" ? Math.sign(weight) : 1) * Math.sqrt(Math.abs(weight));
}

function weightedSum(terms: readonly WeightedValue[], normalize: boolean): Value {
  const used = terms.filter(({ weight }) => weight !== 0);
  const total = sumOfWeights(used.map(({ weight }) => weight as number));
  // Weights that sum to zero have no average, only a sum.
  return normalize && total !== 0 ? { blend: used } : { sum: used.length > 0 ? used : terms };
}

/** A parameter of the i-th model as it is written: its own, or the recipe's; and its path in the recipe. */
export function writtenFor(
  recipe: { readonly models: readonly (string | object)[] },
  model: number,
  field: string,
): { readonly value: Parameter | undefined; readonly path: string } {
  const own = (parametersOf(recipe.models[model] as { model: string }) as Record<string, Parameter | undefined>)[field];
  if (own !== undefined) return { value: own, path: `models[${model}].${field}` };
  return { value: (recipe as unknown as Record<string, Parameter | undefined>)[field], path: field };
}

/** A parameter of the i-th model: its own, the recipe's, or the fallback. */
export function modelParameter(
  recipe: { readonly models: readonly (string | object)[] },
  model: number,
  field: string,
  fallback: number,
  operand: Operand,
): Resolved {
  const { value, path } = writtenFor(recipe, model, field);
  return resolveParameter(value, fallback, path, operand);
}
