// Multi-SLERP: the mean direction and the mean length of models, or of their changes from a base.
import { z } from "zod";
import { CheckpointError } from "../../kit/index.js";
import { type Combine, defineCombination, type Gram } from "../../tensor/measurements/index.js";
import { oneValue, type SliceMerge, weighted } from "./mergekit.js";
import { defineMethod, modelsField, type SourceRecipe, sourceField, weightField } from "./method.js";
import { computed, deltaOf, isEmpty, type Operand, type PlanContext, plus, tensorOf } from "./operand.js";
import { modelParameter } from "./task-vectors.js";

/** Norms of summed directions below which they cancel out, as in mergekit. */
const CANCELLED = 1e-8;

/** Factors of the models, or of their changes, in the tensor `name`. */
export const meanDirection = defineCombination(
  "mean-direction",
  (
    gram: Gram,
    { weights, name }: { readonly weights: readonly number[]; readonly name: string },
  ): readonly number[] => {
    const norms = gram.map((row, i) => Math.sqrt(row[i] ?? 0));
    const directions = weights.map((weight, i) => ((norms[i] ?? 0) > 0 ? weight / (norms[i] ?? 1) : 0));
    // No model changed the tensor.
    if (directions.every((x) => x === 0)) return directions;
    const size = Math.sqrt(
      Math.max(
        0,
        gram.reduce(
          (sum, row, i) => sum + row.reduce((s, x, k) => s + x * (directions[i] ?? 0) * (directions[k] ?? 0), 0),
          0,
        ),
      ),
    );
    if (size < CANCELLED && weights.length === 2) return weights;
    if (size < CANCELLED) {
      throw new CheckpointError(
        `the directions of the models cancel out in ${name}, so they have no mean. Use other weights.`,
        {
          tensor: name,
        },
      );
    }
    const length = weights.reduce((sum, weight, i) => sum + weight * (norms[i] ?? 0), 0);
    return directions.map((x) => (x * length) / size);
  },
);

export const multislerp = defineMethod({
  name: "multislerp",
  title: "Multi-SLERP",
  summary: "Averages the directions of models or of their changes on the sphere, and their lengths.",
  formula:
    "(sum w_i ||d_i||) m, m = sum(w_i u_i) / ||sum(w_i u_i)||, u_i = d_i / ||d_i||, d_i = theta_i; with a base d_i = tau_i, and theta_base is added. mergekit's step along the tangent at m is zero: sum w_i (u_i - <u_i, m> m) = 0",
  reference: "mergekit, method multislerp",
  tag: "slerp",
  mergekit: { own: ["weight"], common: ["normalize_weights", "eps"], isRounded: true, make: fromMergekit },
  fields: () => ({
    models: modelsField("the models", { weight: weightField.optional().describe("weight of the model; default 1") }, 2),
    base: sourceField("base to take changes from; interpolates the changes instead of the models").optional(),
    normalize: z.boolean().default(true).describe("divide the weights by their sum"),
  }),
  example: { method: "multislerp", models: ["math-expert", "swahili-expert"], base: "base" },
  tensors: (recipe, { models, base }, context) => {
    const weights = models.map((model, i) => modelParameter(recipe, i, "weight", 1, model));
    return combinedByAngles(models, base, context, (name) => {
      const given = weights.map((weight) => weight(name));
      const total = recipe.normalize ? given.reduce((sum, weight) => sum + weight, 0) : 1;
      const own = given.map((weight) => weight / total);
      return { id: `directions by ${own.join(", ")}`, combine: meanDirection.with({ weights: own, name }) };
    });
  },
});

/** Sums of models, or of their changes added to a base, with factors that depend on the angles between them. */
export function combinedByAngles(
  models: readonly Operand[],
  base: Operand | undefined,
  context: PlanContext,
  how: (name: string) => { readonly id: string; readonly combine: Combine<Gram, readonly number[]> },
) {
  const [first] = models as [Operand];
  const labels = models.map(({ label }) => label).join(", ");
  return computed(first, base ? [...models, base] : models, context, (name, tensor) => {
    if (isEmpty(tensor)) return tensor.value;
    const values = models.map((model) => (base ? deltaOf(name, model, base) : tensorOf(model, name).value));
    const { id, combine } = how(name);
    const { measured } = context.measure({
      id: `${id} of ${name} of ${labels}${base ? ` from ${base.label}` : ""}`,
      kind: "gram",
      label: "angles",
      values,
      combine,
    });
    const terms = values.map((value, at) => ({ weight: { measured, at }, value }));
    return base ? plus(tensorOf(base, name).value, terms) : { sum: terms };
  });
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const { models, base, others } = slice;
  const normalize = oneValue(slice, "normalize_weights", 1) !== 0;
  const merged = weighted(others, slice);
  const [only] = others.length > 0 ? others : models;
  if (only && others.length < 2) return only.recipe;
  return { method: "multislerp", models: merged, ...(base ? { base: base.recipe } : {}), normalize };
}
