// DARE: changes dropped at random, the rest rescaled, and then added up (DARE linear) or put to a vote of signs (DARE TIES).
import { z } from "zod";
import type { Value } from "../expressions/expression.js";
import { elect, normalizeElected } from "./elect.js";
import { seedField } from "./fields.js";
import { defineMethod, type Sources } from "./method.js";
import { type PlanContext, seedOf } from "./operand.js";
import {
  type Change,
  headlineOf,
  mergeTaskVectors,
  modelParameter,
  normalizeSum,
  shareField,
  taskVectorFields,
} from "./task-vectors.js";

const density = shareField.describe("probability with which a change is kept");

const fields = {
  ...taskVectorFields({ density: density.optional() }),
  density: density.default(0.5),
  rescale: z
    .enum(["density", "norm", "none"])
    .default("density")
    .describe(
      "of what is kept: divided by the density (the paper), scaled to the L1 norm of the whole change, or left as it is",
    ),
  seed: seedField,
};

const linearSchema = z.strictObject({
  method: z.literal("dare_linear"),
  ...fields,
  normalize: normalizeSum,
});

const tiesSchema = z.strictObject({ method: z.literal("dare_ties"), ...fields, normalize: normalizeElected });

const common = {
  reference: "Yu et al., ICML 2024, arXiv 2311.03099",
  tag: "dare",
};
const drop = "d_i = m_i tau_i / p, m_i ~ Bernoulli(p) per element";

export const dareLinear = defineMethod({
  ...common,
  name: "dare_linear",
  title: "DARE",
  summary: "Changes dropped at random, the rest rescaled and added up.",
  formula: `theta_base + lambda sum(w_i d_i), ${drop}`,
  schema: linearSchema,
  example: { method: "dare_linear", models: ["math-expert", "swahili-expert"], base: "base", density: 0.3, seed: 1 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      thin: dropAtRandom(recipe, sources, context),
      normalize: recipe.normalize,
    }),
  headline: (recipe) => headline("DARE", recipe),
  describe: ({ models, seed }, name, layers) => describe("DARE", models.length, layers, name("base"), seed),
});

export const dareTies = defineMethod({
  ...common,
  name: "dare_ties",
  title: "DARE TIES",
  summary: "Changes dropped at random, the rest rescaled and put to a vote of signs.",
  formula: `theta_base + lambda mean_{i: sign(d_i) = s} d_i, s = sign(sum(w_i d_i)), ${drop}`,
  schema: tiesSchema,
  example: { method: "dare_ties", models: ["math-expert", "swahili-expert"], base: "base", density: 0.3 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      thin: dropAtRandom(recipe, sources, context),
      join: (changes) => elect(changes, recipe.normalize),
    }),
  headline: (recipe) => headline("DARE TIES", recipe),
  describe: ({ models, seed }, name, layers) => describe("DARE TIES", models.length, layers, name("base"), seed),
});

function dropAtRandom(
  recipe: Pick<z.output<typeof linearSchema>, "models" | "rescale" | "seed" | "density">,
  { models }: Sources,
  context: PlanContext,
): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", 0.5, expert));
  return ({ name, model, expert, delta }) => {
    const kept = densities[model]?.(name) ?? 1;
    if (kept >= 1) return delta;
    const dropped = (scale: number | { readonly measured: string }): Value => {
      return { op: "drop", of: [delta], density: kept, scale, seed: seedOf(recipe.seed, expert.label, name) };
    };
    if (recipe.rescale === "none" || kept === 0) return dropped(1);
    if (recipe.rescale === "density") return dropped(1 / kept);
    const id = `L1 norm of ${name} of ${expert.label}, density ${kept}, seed ${recipe.seed}`;
    const label = `L1 norms of ${expert.label}`;
    return dropped(context.measure({ id, kind: "rescale", label, before: delta, after: dropped(1) }));
  };
}

function headline(title: string, recipe: Pick<z.output<typeof linearSchema>, "models" | "seed">): string {
  return `${headlineOf(title, recipe, { density: undefined })}, seed ${recipe.seed}`;
}

function describe(title: string, models: number, layers: number, base: string, seed: number): string {
  return (
    `${title} of ${models} models of ${layers} layers, on ${base} (seed ${seed}). ` +
    "Method: Yu et al., ICML 2024, [arXiv 2311.03099](https://arxiv.org/abs/2311.03099)."
  );
}
