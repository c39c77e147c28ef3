// Karcher mean: the point of the sphere from which the directions of all models are nearest on average.
import { z } from "zod";
import { defineCombination, type Gram } from "../../tensor/measurements/index.js";
import { oneValue, type SliceMerge } from "./mergekit.js";
import { defineMethod, modelsField, type SourceRecipe, weightField } from "./method.js";
import { combinedByAngles } from "./multislerp.js";
import { modelParameter } from "./task-vectors.js";

/** A step takes less than a microsecond for each pair of models, and reads no weights. */
const MOST_STEPS = 1_000_000;

interface Search {
  readonly weights: readonly number[];
  readonly iterations: number;
  readonly tolerance: number;
}

/** Factors of the models: u stays in the span of the u_i, so that all steps are on its N coefficients. */
export const karcherMean = defineCombination(
  "karcher-mean",
  (gram: Gram, { weights, iterations, tolerance }: Search) => {
    const norms = gram.map((row, i) => Math.sqrt(row[i] ?? 0));
    const used = norms.flatMap((norm, i) => (norm > tolerance ? [i] : []));
    const total = used.reduce((sum, i) => sum + (weights[i] ?? 0), 0);
    if (used.length === 0 || total === 0) return norms.map(() => 0);
    const shares = used.map((i) => (weights[i] ?? 0) / total);
    const products = used.map((i) => used.map((k) => (gram[i]?.[k] ?? 0) / ((norms[i] ?? 1) * (norms[k] ?? 1))));
    const along = (of: readonly number[]) =>
      products.map((row) => row.reduce((sum, product, k) => sum + product * (of[k] ?? 0), 0));
    const sizeOf = (of: readonly number[]) =>
      Math.sqrt(
        Math.max(
          0,
          along(of).reduce((sum, product, i) => sum + product * (of[i] ?? 0), 0),
        ),
      );
    const unit = (of: readonly number[]) => {
      const size = sizeOf(of);
      return size > tolerance ? of.map((x) => x / size) : of;
    };
    let mean = sizeOf(shares) > tolerance ? unit(shares) : shares.map((_, i) => (i === 0 ? 1 : 0));
    for (let step = 0; step < iterations; step++) {
      const pull = mean.map(() => 0);
      for (const [i, cosine] of along(mean).entries()) {
        const angle = Math.acos(Math.max(-1, Math.min(1, cosine)));
        // Opposite directions pull nowhere.
        if (angle < tolerance || Math.PI - angle < tolerance) continue;
        const factor = ((shares[i] ?? 0) * angle) / Math.sin(angle);
        for (const [k, x] of mean.entries()) pull[k] = (pull[k] ?? 0) - factor * cosine * x;
        pull[i] = (pull[i] ?? 0) + factor;
      }
      const size = sizeOf(pull);
      if (size < tolerance) break;
      const next = unit(mean.map((x, k) => Math.cos(size) * x + (Math.sin(size) / size) * (pull[k] ?? 0)));
      // A step that moves nothing is all that would follow.
      if (next.every((x, k) => x === mean[k])) break;
      mean = next;
    }
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    const length = norms.reduce((sum, norm, i) => sum + ((weights[i] ?? 0) / all) * norm, 0);
    return norms.map((norm, i) => (used.includes(i) ? (length * (mean[used.indexOf(i)] ?? 0)) / norm : 0));
  },
);

export const karcher = defineMethod({
  name: "karcher",
  title: "Karcher mean",
  summary: "Averages the directions of the models on the sphere, and their lengths.",
  formula:
    "(sum a_i ||theta_i||) u per tensor, u the point of the sphere with the least sum of a_i arccos(<u, u_i>)^2, u_i = theta_i / ||theta_i||, a_i = w_i / sum(w)",
  reference: "Karcher, Comm. Pure Appl. Math. 1977; arXiv 2603.04972; mergekit, method karcher",
  tag: "slerp",
  mergekit: { own: [], common: ["max_iter", "tol"], isRounded: true, make: fromMergekit },
  fields: () => ({
    models: modelsField(
      "the models",
      { weight: weightField.optional().describe("weight of its direction; default 1") },
      2,
    ),
    iterations: z.int().min(1).max(MOST_STEPS).default(10).describe("steps of the search at most"),
    tolerance: z.number().positive().default(1e-5).describe("norms, angles and steps that are smaller count as zero"),
  }),
  example: { method: "karcher", models: ["math-expert", "swahili-expert", "base"] },
  tensors: (recipe, { models }, context) => {
    const { iterations, tolerance } = recipe;
    const weights = models.map((model, i) => modelParameter(recipe, i, "weight", 1, model));
    return combinedByAngles(models, undefined, context, (name) => {
      const own = weights.map((weight) => weight(name));
      return {
        id: `Karcher mean by ${own.join(", ")}, ${iterations} steps, tolerance ${tolerance}`,
        combine: karcherMean.with({ weights: own, iterations, tolerance }),
      };
    });
  },
});

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const [only] = slice.models;
  const iterations = oneValue(slice, "max_iter", 10, { low: 1, high: MOST_STEPS, clamps: true, isWhole: true });
  const tolerance = oneValue(slice, "tol", 1e-5, { low: 1e-300, high: 1e9 });
  if (only && slice.models.length === 1) return only.recipe;
  return { method: "karcher", models: slice.models.map(({ recipe }) => recipe), iterations, tolerance };
}
