// DELLA: changes dropped at random, the larger of a row less often, the rest rescaled, and then added up (DELLA linear) or
// put to a vote of signs (DELLA).

import { z } from "zod";
import { RecipeError } from "../../core/index.js";
import type { Value } from "../expressions/expression.js";
import { elect, normalizeElected } from "./elect.js";
import { seedField } from "./fields.js";
import { defineMethod, type Sources } from "./method.js";
import { seedOf } from "./operand.js";
import {
  type Change,
  headlineOf,
  mergeTaskVectors,
  modelParameter,
  normalizeSum,
  shareField,
  taskVectorFields,
} from "./task-vectors.js";

const density = shareField.describe("mean probability with which a change is kept");
const epsilon = shareField.describe(
  "by how much that of a row's largest change is above the mean, and of its smallest below",
);

const fields = {
  ...taskVectorFields({ density: density.optional(), epsilon: epsilon.optional() }),
  density: density.default(0.5),
  epsilon: epsilon.default(0.15),
  seed: seedField,
};

/** Parameters that the first line of a plan names. */
const named = { density: undefined, epsilon: undefined };

const linearSchema = z.strictObject({
  method: z.literal("della_linear"),
  ...fields,
  normalize: normalizeSum,
});

const tiesSchema = z.strictObject({ method: z.literal("della"), ...fields, normalize: normalizeElected });

const common = { reference: "Deep et al., 2024, arXiv 2406.11617", tag: "della" };
const drop =
  "d_i = m_i tau_i / p_i, m_i ~ Bernoulli(p_i), p_i = density - epsilon + 2 epsilon rank / (columns - 1) in its row";

export const dellaLinear = defineMethod({
  ...common,
  name: "della_linear",
  title: "DELLA linear",
  summary: "Changes dropped at random, larger ones less often, the rest rescaled and added up.",
  formula: `theta_base + lambda sum(w_i d_i), ${drop}`,
  schema: linearSchema,
  example: {
    method: "della_linear",
    models: ["math-expert", "swahili-expert"],
    base: "base",
    density: 0.4,
    epsilon: 0.1,
  },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, { thin: dropSmall(recipe, sources), normalize: recipe.normalize }),
  headline: (recipe) => headlineOf("DELLA linear", recipe, named),
  describe: ({ models, seed }, name, layers) => describe("DELLA (linear)", models.length, layers, name("base"), seed),
});

export const della = defineMethod({
  ...common,
  name: "della",
  title: "DELLA",
  summary: "Changes dropped at random, larger ones less often, the rest rescaled and put to a vote of signs.",
  formula: `theta_base + lambda mean_{i: sign(d_i) = s} d_i, s = sign(sum(w_i d_i)), ${drop}`,
  schema: tiesSchema,
  example: { method: "della", models: ["math-expert", "swahili-expert"], base: "base", density: 0.4, epsilon: 0.1 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      thin: dropSmall(recipe, sources),
      join: (changes) => elect(changes, recipe.normalize),
    }),
  headline: (recipe) => headlineOf("DELLA", recipe, named),
  describe: ({ models, seed }, name, layers) => describe("DELLA", models.length, layers, name("base"), seed),
});

function dropSmall(
  recipe: { readonly models: readonly (string | object)[]; readonly seed: number },
  { models }: Sources,
): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", 0.5, expert));
  const epsilons = models.map((expert, i) => modelParameter(recipe, i, "epsilon", 0.15, expert));
  return ({ name, model, expert, delta }) => {
    const kept = densities[model]?.(name) ?? 1;
    if (kept >= 1) return delta;
    if (kept <= 0) return { sum: [{ weight: 0, value: delta }] };
    const spread = epsilons[model]?.(name) ?? 0;
    if (kept - spread <= 0 || kept + spread > 1) {
      throw new RecipeError(
        `density ${kept} with epsilon ${spread} makes probabilities from ${kept - spread} to ${kept + spread}; they must be above 0 and at most 1`,
        [],
        { field: "epsilon", tensor: name },
      );
    }
    return {
      ...{ op: "drop-by-magnitude", of: [delta], density: kept, epsilon: spread },
      seed: seedOf(recipe.seed, expert.label, name),
    };
  };
}

function describe(title: string, models: number, layers: number, base: string, seed: number): string {
  return (
    `${title} of ${models} models of ${layers} layers, on ${base} (seed ${seed}). ` +
    "Method: Deep et al., [arXiv 2406.11617](https://arxiv.org/abs/2406.11617)."
  );
}
