// TIES: trims small changes, elects a sign per element, averages the changes that agree.

import { z } from "zod";
import { elementCount, RecipeError } from "../../kit/index.js";
import type { Value, Weight } from "../../tensor/expressions/index.js";
import { type CutMeasurement, defineCombination, type Signs } from "../../tensor/measurements/index.js";
import { EXACT, taskVectors } from "./mergekit.js";
import type { Operands } from "./method.js";
import { deltaOf, isMeasurable, type Operand, type PlanContext, requireBase } from "./operand.js";
import {
  type Change,
  type Cutoff,
  cutMeasurement,
  cutoffField,
  EXAMPLE,
  modelParameter,
  rescaleField,
  sparsifyingMethod,
  within,
  writtenFor,
} from "./task-vectors.js";

interface TiesRecipe {
  readonly models: readonly (string | object)[];
  readonly trim: "model" | "tensor";
  readonly cutoff?: Cutoff;
}

export const ties = sparsifyingMethod("elected", {
  name: "ties",
  title: "TIES",
  summary: "Keeps the largest changes of each expert, elects a sign per element and averages the changes that agree.",
  formula:
    "theta_base + lambda mean_{i: sign(t_i) = s} t_i; t_i = tau_i where |tau_i| is among the largest int(k n), else 0; s = sign(sum(w_i t_i)), for a zero sum the sign of most sums (trim: model) or + (trim: tensor)",
  reference: "Yadav et al., NeurIPS 2023, arXiv 2306.01708",
  tag: "ties",
  mergekit: taskVectors("ties", {
    own: { density: 1 },
    normalize: true,
    fixed: { trim: "tensor", ...EXACT },
    rescale: false,
  }),
  shares: { density: [0.2, "share of the changes to keep, largest first", 1] },
  fields: () => ({
    trim: z
      .enum(["model", "tensor"])
      .default("model")
      .describe("rank changes over the whole model, as in the paper, or within each tensor"),
    cutoff: cutoffField,
    rescale: rescaleField,
  }),
  example: { method: "ties", ...EXAMPLE, density: 0.2 },
  complete: (recipe) => ("as" in recipe && recipe.as === "adapter" ? { ...recipe, trim: "tensor" as const } : recipe),
  sparsify: (recipe, sources, context) =>
    isByModel(recipe, context) ? trimModels(recipe, sources, context) : trimTensors(recipe, context),
  tie: (recipe, sources, context, trim) => (isByModel(recipe, context) ? majority(recipe, sources, context, trim) : 1),
});

/** Factors A and B have different magnitudes, so one threshold for all has no meaning. */
const isByModel = ({ trim }: TiesRecipe, { isOnFactors = false }: PlanContext) => trim === "model" && !isOnFactors;

/** Trims with one threshold per model. */
function trimModels(recipe: TiesRecipe, { models, base }: Operands, context: PlanContext): (change: Change) => Value {
  const root = requireBase(base, "TIES needs");
  const thresholds = models.map((expert, i) => {
    const { value: share, path: field } = writtenFor(recipe, i, "density");
    if (typeof share !== "number") {
      const message = "density must be one number with trim: model. Use trim: tensor for densities that differ.";
      throw RecipeError.at({ field }, message);
    }
    const names = [...expert.tensors].filter(([, tensor]) => isMeasurable(tensor));
    const elements = names.reduce((sum, [, { shape }]) => sum + elementCount(shape), 0);
    const id = `largest ${share} of ${expert.label} against ${root.label}`;
    const values = names.map(([name]) => deltaOf(name, expert, root));
    const placeOf = new Map(names.map(([name], place) => [name, place]));
    return { cut: cutOf(id, expert, values, share, elements, recipe.cutoff), placeOf };
  });
  return ({ model, name, delta }) => {
    const { cut, placeOf } = thresholds[model] as (typeof thresholds)[number];
    return cut ? within(cut, placeOf.get(name) ?? 0, delta, context) : delta;
  };
}

/** Trims with one threshold per tensor. */
function trimTensors({ cutoff }: TiesRecipe, context: PlanContext) {
  return ({ name, tensor, expert, delta }: Change, { density }: { readonly density: number }): Value => {
    const id = `largest ${density} of ${name} of ${expert.label}`;
    const cut = cutOf(id, expert, [delta], density, elementCount(tensor.shape), cutoff);
    return cut ? within(cut, 0, delta, context) : delta;
  };
}

/** What keeps the largest int(share * elements) changes; undefined if all are kept. */
function cutOf(
  id: string,
  { label }: Operand,
  values: readonly Value[],
  share: number,
  elements: number,
  cutoff: Cutoff,
): CutMeasurement | undefined {
  // mergekit, whose counts an exact cutoff has, keeps one element of a tensor with less.
  const least = cutoff === "exact" && share > 0 ? 1 : 0;
  const keep = Math.max(least, Math.floor(share * elements));
  if (keep >= elements) return undefined;
  const what = `the largest changes of ${label}`;
  return cutMeasurement(cutoff, { id, label: what, values, of: [label], keep });
}

export const majoritySign = defineCombination("majority-sign", (counts: Signs) => [
  Math.sign(counts.reduce((sum, { positive, negative }) => sum + positive - negative, 0)),
]);

/** The majority of the elected signs, which breaks ties (the authors' code: resolve_zero_signs, "majority"). */
function majority(
  recipe: TiesRecipe,
  { models, base }: Operands,
  context: PlanContext,
  trim: (change: Change) => Value,
): Weight {
  const root = requireBase(base, "TIES needs");
  const [lead] = models;
  if (!lead || models.length < 2) return 1;
  const weights = models.map((expert, i) => modelParameter(recipe, i, "weight", 1, expert));
  const sums = [...lead.tensors].flatMap(([name, tensor]): Value[] => {
    if (!isMeasurable(tensor)) return [];
    const change = (expert: Operand, model: number) =>
      trim({ name, tensor, model, expert, delta: deltaOf(name, expert, root) });
    return [{ sum: models.map((expert, i) => ({ weight: weights[i]?.(name) ?? 1, value: change(expert, i) })) }];
  });
  const id = `majority sign of ${models.map(({ label }) => label).join(", ")}`;
  return context.measure({
    id,
    kind: "signs",
    label: "the sign that most changes have",
    values: sums,
    combine: majoritySign.with({}),
  });
}
