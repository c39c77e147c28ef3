// DELLA: drops changes at random, larger ones less often, and rescales the rest; sums them (linear) or elects signs.

import type { z } from "zod";
import { RecipeError } from "../../core/index.js";
import type { Value } from "../../values/index.js";
import { seedField } from "./fields.js";
import type { Sources } from "./method.js";
import { type PlanContext, seedOf } from "./operand.js";
import {
  type Change,
  modelParameter,
  rescaledAs,
  resolveRescale,
  shareField,
  sparsifyingMethod,
  taskVectorFields,
  withNorm,
} from "./task-vectors.js";

/** Of recipes, and of tensors that no filter of a parameter names. */
const DEFAULTS = { density: 0.5, epsilon: 0.15 };

const density = shareField.describe("mean probability of keeping a change");
const epsilon = shareField.describe(
  "difference from the mean probability of the largest and the smallest change of a row",
);

const rescale = rescaledAs(["probability", "norm", "none"])
  .optional()
  .describe(
    "rescale what is kept: divide by its probability (the paper, and the default), match the L1 norm of the whole change, or leave it",
  );

const common = {
  symbol: "d",
  definition:
    "d_i = m_i tau_i / p_i, m_i ~ Bernoulli(p_i), p_i = density - epsilon + 2 epsilon rank / (columns - 1) in its row",
  reference: "Deep et al., 2024, arXiv 2406.11617",
  tag: "della",
  fields: () => ({
    ...taskVectorFields({ density: density.optional(), epsilon: epsilon.optional() }),
    density: density.default(DEFAULTS.density),
    epsilon: epsilon.default(DEFAULTS.epsilon),
    rescale,
    seed: seedField,
  }),
  named: ["density", "epsilon"],
  sparsify: dropSmall,
};

export const dellaLinear = sparsifyingMethod("added", {
  ...common,
  name: "della_linear",
  title: "DELLA linear",
  summary: "Drops changes at random, larger ones less often, rescales the rest and adds them up.",
  example: { density: 0.4, epsilon: 0.1 },
});

export const della = sparsifyingMethod("elected", {
  ...common,
  name: "della",
  title: "DELLA",
  summary: "Drops changes at random, larger ones less often, rescales the rest and elects signs as TIES does.",
  example: { density: 0.4, epsilon: 0.1 },
});

function dropSmall(
  recipe: {
    readonly models: readonly (string | object)[];
    readonly seed: number;
    readonly rescale?: z.output<typeof rescale>;
  },
  { models }: Sources,
  context: PlanContext,
): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", DEFAULTS.density, expert));
  const epsilons = models.map((expert, i) => modelParameter(recipe, i, "epsilon", DEFAULTS.epsilon, expert));
  const rescales = models.map((expert) => resolveRescale(recipe.rescale ?? "probability", expert));
  return ({ name, model, expert, delta }) => {
    const how = rescales[model]?.(name);
    const kept = densities[model]?.(name) ?? 1;
    if (kept >= 1) return delta;
    if (kept <= 0) return { sum: [{ weight: 0, value: delta }] };
    const spread = epsilons[model]?.(name) ?? 0;
    if (kept - spread <= 0 || kept + spread > 1) {
      throw RecipeError.at(
        { field: "epsilon", tensor: name },
        `density ${kept} with epsilon ${spread} makes probabilities from ${kept - spread} to ${kept + spread}; they must be above 0 and at most 1`,
      );
    }
    const dropped: Value = {
      op: "drop-by-magnitude",
      of: [delta],
      density: kept,
      epsilon: spread,
      divide: how === "probability",
      seed: seedOf(recipe.seed, expert.label, name),
    };
    if (how !== "norm") return dropped;
    const what = `${name} of ${expert.label}, density ${kept}, epsilon ${spread}, seed ${recipe.seed}`;
    return withNorm(delta, dropped, what, context);
  };
}
