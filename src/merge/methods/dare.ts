// DARE: drops changes at random and rescales the rest; then sums them (DARE linear) or elects signs (DARE TIES).
import type { z } from "zod";
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
const DENSITY = 0.5;

const density = shareField.describe("probability of keeping a change");

const rescale = rescaledAs(["density", "norm", "none"])
  .default("density")
  .describe(
    "rescale what is kept: divide by the density (the paper), match the L1 norm of the whole change, or leave it",
  );

const common = {
  symbol: "d",
  definition: "d_i = m_i tau_i / p, m_i ~ Bernoulli(p) per element",
  reference: "Yu et al., ICML 2024, arXiv 2311.03099",
  tag: "dare",
  fields: () => ({
    ...taskVectorFields({ density: density.optional() }),
    density: density.default(DENSITY),
    rescale,
    seed: seedField,
  }),
  named: ["density"],
  sparsify: dropAtRandom,
};

export const dareLinear = sparsifyingMethod("added", {
  ...common,
  name: "dare_linear",
  title: "DARE",
  summary: "Drops changes at random, rescales the rest and adds them up.",
  example: { density: 0.3, seed: 1 },
});

export const dareTies = sparsifyingMethod("elected", {
  ...common,
  name: "dare_ties",
  title: "DARE TIES",
  summary: "Drops changes at random, rescales the rest and elects signs as TIES does.",
  example: { density: 0.3 },
});

interface DareRecipe {
  readonly models: readonly (string | object)[];
  readonly rescale: z.output<typeof rescale>;
  readonly seed: number;
}

function dropAtRandom(recipe: DareRecipe, { models }: Sources, context: PlanContext): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", DENSITY, expert));
  const rescales = models.map((expert) => resolveRescale(recipe.rescale, expert));
  return ({ name, model, expert, delta }) => {
    const how = rescales[model]?.(name);
    const kept = densities[model]?.(name) ?? 1;
    if (kept >= 1) return delta;
    const scale = how === "density" && kept > 0 ? 1 / kept : 1;
    const seed = seedOf(recipe.seed, expert.label, name);
    const dropped: Value = { op: "drop", of: [delta], density: kept, scale, seed };
    if (how !== "norm" || kept === 0) return dropped;
    return withNorm(delta, dropped, `${name} of ${expert.label}, density ${kept}, seed ${recipe.seed}`, context);
  };
}
