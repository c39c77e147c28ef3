// NuSLERP: SLERP with weights, of two models or of their changes from a base, by tensor or by row.

import { z } from "zod";
import { elementCount, RecipeError, type Shape } from "../../kit/index.js";
import { defineOperation, type Value, type WeightedValue } from "../../tensor/expressions/index.js";
import { defineCombination, type Lines } from "../../tensor/measurements/index.js";
import { onValues } from "../../tensor/streaming/index.js";
import { oneValue, type SliceMerge, weighted } from "./mergekit.js";
import { defineMethod, modelsField, parametersOf, type SourceRecipe, sourceField, weightField } from "./method.js";
import { computed, deltaOf, isEmpty, type Operand, type PlanContext, plus, tensorOf } from "./operand.js";
import { resolveParameter } from "./parameter.js";
import { type Arc, alongArc, slerpWeights } from "./slerp.js";

/** Weights of both values in each column. */
export const columnWeights = defineCombination("column-weights", ({ lines, product }: Lines, { t, straight }: Arc) => {
  const weights = Array.from({ length: lines }, (_, c) =>
    slerpWeights(product(c, 0, 1), product(c, 0, 0), product(c, 1, 1), t, straight),
  );
  return Float32Array.from([0, 1].flatMap((i) => weights.map((pair) => pair[i] as number)));
});

/** Interpolates each column, with a weight for each of its values. */
function turnedColumns(id: string, shape: Shape, of: [Value, Value], t: number, context: PlanContext): WeightedValue[] {
  const { measured } = context.measure({
    id: `angles of the columns ${id}`,
    kind: "lines",
    label: "angles of columns",
    values: of,
    shape,
    axis: "columns",
    combine: columnWeights.with({ t, straight: STRAIGHT }),
  });
  const matrix = elementCount(shape.slice(-2));
  return [{ weight: 1, value: { op: "scale-lines", of, factors: measured, axis: "columns", matrix } }];
}

/** Cosine above which the interpolation is linear: at an angle of 1e-4 radians it differs from the arc by 1e-8. */
const STRAIGHT = 1 - 5e-9;

/** Each stored row of of[0] turned towards that of of[1] by the share t of their angle; see `slerpWeights`. */
export const slerpRows = defineOperation("slerp-rows", {
  values: 2,
  fields: { t: "number", straight: "share" },
  wholeRows: true,
  apply: onValues((into, [, other], { t, straight }, { length, columns }) => {
    for (let at = 0; at < length; at += columns) {
      let [dot, square0, square1] = [0, 0, 0];
      for (let i = at; i < at + columns; i++) {
        const [x, y] = [into[i] ?? 0, other?.[i] ?? 0];
        dot += x * y;
        square0 += x * x;
        square1 += y * y;
      }
      const [weight0, weight1] = slerpWeights(dot, square0, square1, t, straight);
      for (let i = at; i < at + columns; i++) into[i] = weight0 * (into[i] ?? 0) + weight1 * (other?.[i] ?? 0);
    }
  }),
});

export const nuslerp = defineMethod({
  name: "nuslerp",
  title: "NuSLERP",
  summary: "SLERP by weights: of two models or of their changes from a base, by tensor or by row.",
  formula:
    "slerp(theta_1, theta_2; t) with t = w_2 / (w_1 + w_2); with a base: theta_base + slerp(tau_1, tau_2; t); a zero vector counts as at a right angle to the other",
  reference: "mergekit, method nuslerp; Shoemake, SIGGRAPH 1985",
  tag: "slerp",
  mergekit: { own: ["weight"], common: ["nuslerp_flatten", "nuslerp_row_wise"], isRounded: true, make: fromMergekit },
  fields: () => ({
    models: modelsField("two models", { weight: weightField.describe("weight of the model") }, 2).max(
      2,
      "must name two models",
    ),
    base: sourceField("base to take changes from; interpolates the changes instead of the models").optional(),
    rows: z.boolean().default(false).describe("interpolate each stored row separately instead of the flattened tensor"),
    columns: z.boolean().optional().describe("interpolate each stored column separately; default false"),
  }),
  example: {
    method: "nuslerp",
    models: [
      { model: "math-expert", weight: 2 },
      { model: "swahili-expert", weight: 1 },
    ],
    base: "base",
  },
  tensors: ({ models: entries, rows, columns }, { models, base }, context) => {
    const [first, second] = models as readonly [Operand, Operand];
    if (rows && columns) throw RecipeError.at({ field: "columns" }, "rows and columns exclude each other. Remove one.");
    const weights = entries.map((entry, i) =>
      resolveParameter(parametersOf(entry).weight, 1, `models[${i}].weight`, models[i] as Operand),
    );
    const origin = base ? [...models, base] : models;
    return computed(first, origin, context, (name, tensor) => {
      if (isEmpty(tensor)) return tensor.value;
      const [w0 = 0, w1 = 0] = weights.map((weight) => weight(name));
      if (w0 + w1 === 0) {
        throw RecipeError.at(
          { field: "models", tensor: name },
          `the weights sum to zero for ${name}, so the interpolation is undefined. Choose weights with a nonzero sum.`,
        );
      }
      const t = w1 / (w0 + w1);
      const [a, b] = models.map((model) => (base ? deltaOf(name, model, base) : tensorOf(model, name).value));
      const turned = interpolate(a as Value, b as Value, t);
      return base ? plus(tensorOf(base, name).value, turned) : { sum: turned };

      function interpolate(from: Value, to: Value, share: number): WeightedValue[] {
        if (share === 0) return [{ weight: 1, value: from }];
        if (share === 1) return [{ weight: 1, value: to }];
        const id = `of ${name} of ${first.label} and ${second.label}${base ? ` from ${base.label}` : ""}, t ${share}`;
        // A vector is one column.
        if (columns && tensor.shape.length > 1) return turnedColumns(id, tensor.shape, [from, to], share, context);
        if (rows) {
          return [{ weight: 1, value: slerpRows.of([from, to], { t: share, straight: STRAIGHT }) }];
        }
        return alongArc(`angle ${id}`, [from, to], share, STRAIGHT, context);
      }
    });
  },
});

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const { models, base, others } = slice;
  const isFlat = oneValue(slice, "nuslerp_flatten", 1) !== 0;
  // mergekit's row-wise mode interpolates along the first dimension: each column of the stored matrix.
  const lines = oneValue(slice, "nuslerp_row_wise", 0) !== 0 ? "columns" : "rows";
  const merged = weighted(others, slice);
  const [only] = models;
  if (only && models.length === 1) return only.recipe;
  if (others.length !== 2 || slice.lacksBase)
    return slice.problem(
      "nuslerp needs two models in every slice, and optionally a base_model that is neither of them",
    );
  return {
    method: "nuslerp",
    models: merged,
    ...(base ? { base: base.recipe } : {}),
    ...(isFlat ? {} : { [lines]: true }),
  };
}
