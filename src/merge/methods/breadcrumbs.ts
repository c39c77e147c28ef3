// Breadcrumbs: of each tensor's changes the very largest and the small ones are dropped; the rest is added up, or put to a
// vote of signs.

import { z } from "zod";
import { elementCount } from "../../core/index.js";
import type { Value } from "../expressions/expression.js";
import { elect, normalizeElected } from "./elect.js";
import { defineMethod, type Sources } from "./method.js";
import type { PlanContext } from "./operand.js";
import {
  type Change,
  headlineOf,
  mergeTaskVectors,
  modelParameter,
  normalizeSum,
  shareField,
  taskVectorFields,
} from "./task-vectors.js";

const density = shareField.describe("share of the changes that is kept, where gamma leaves so many");
const gamma = shareField.describe("share of the changes that is dropped from the top, the largest ones");

const fields = {
  ...taskVectorFields({ density: density.optional(), gamma: gamma.optional() }),
  density: density.default(1),
  gamma: gamma.default(0.01),
};

/** Parameters that the first line of a plan names. */
const named = { density: undefined, gamma: undefined };

const linearSchema = z.strictObject({
  method: z.literal("breadcrumbs"),
  ...fields,
  normalize: normalizeSum,
});

const tiesSchema = z.strictObject({ method: z.literal("breadcrumbs_ties"), ...fields, normalize: normalizeElected });

const common = { reference: "Davari & Belilovsky, ECCV 2024, arXiv 2312.06795", tag: "breadcrumbs" };
const trim =
  "b_i = tau_i where the rank of |tau_i|, ascending, is from n - int(density n) - int(gamma n) to n - int(gamma n) - 1, else 0";

export const breadcrumbs = defineMethod({
  ...common,
  name: "breadcrumbs",
  title: "Breadcrumbs",
  summary: "Of each tensor's changes the very largest and the small ones are dropped, the rest added up.",
  formula: `theta_base + lambda sum(w_i b_i), ${trim}`,
  schema: linearSchema,
  example: {
    method: "breadcrumbs",
    models: ["math-expert", "swahili-expert"],
    base: "base",
    density: 0.9,
    gamma: 0.05,
  },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, { thin: crumbs(recipe, sources, context), normalize: recipe.normalize }),
  headline: (recipe) => headlineOf("Breadcrumbs", recipe, named),
  describe: ({ models }, name, layers) => describe("Breadcrumbs", models.length, layers, name("base")),
});

export const breadcrumbsTies = defineMethod({
  ...common,
  name: "breadcrumbs_ties",
  title: "Breadcrumbs TIES",
  summary: "Of each tensor's changes the very largest and the small ones are dropped, the rest put to a vote of signs.",
  formula: `theta_base + lambda mean_{i: sign(b_i) = s} b_i, s = sign(sum(w_i b_i)), ${trim}`,
  schema: tiesSchema,
  example: { method: "breadcrumbs_ties", models: ["math-expert", "swahili-expert"], base: "base", density: 0.9 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      thin: crumbs(recipe, sources, context),
      join: (changes) => elect(changes, recipe.normalize),
    }),
  headline: (recipe) => headlineOf("Breadcrumbs TIES", recipe, named),
  describe: ({ models }, name, layers) => describe("Breadcrumbs TIES", models.length, layers, name("base")),
});

/**
 * How many of n changes are dropped at the bottom and at the top. Where gamma and density together ask for more than
 * there are, fewer are dropped at the top.
 */
export function crumbCounts(n: number, density: number, gamma: number): { bottom: number; top: number } {
  const kept = Math.floor(density * n);
  const top = Math.min(Math.floor(gamma * n), n - kept);
  return { bottom: n - kept - top, top };
}

function crumbs(
  recipe: { readonly models: readonly (string | object)[] },
  { models }: Sources,
  context: PlanContext,
): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", 1, expert));
  const gammas = models.map((expert, i) => modelParameter(recipe, i, "gamma", 0.01, expert));
  return ({ name, tensor, model, expert, delta }) => {
    const n = elementCount(tensor.shape);
    const { bottom, top } = crumbCounts(n, densities[model]?.(name) ?? 1, gammas[model]?.(name) ?? 0);
    if (bottom === 0 && top === 0) return delta;
    if (bottom + top >= n) return { sum: [{ weight: 0, value: delta }] };
    const { measured } = context.measure({
      id: `changes of rank ${bottom} to ${n - top - 1} of ${name} of ${expert.label}`,
      kind: "order",
      label: `the order of the changes of ${expert.label}`,
      values: [delta],
      ranks: [bottom, n - top - 1],
    });
    const [low, high] = [bottom > 0 ? { measured } : 0, top > 0 ? { measured, at: 1 } : Number.MAX_VALUE];
    return { op: "trim", of: [delta], low, high };
  };
}

function describe(title: string, models: number, layers: number, base: string): string {
  return (
    `${title} of ${models} models of ${layers} layers, on ${base}. ` +
    "Method: Davari & Belilovsky, ECCV 2024, [arXiv 2312.06795](https://arxiv.org/abs/2312.06795)."
  );
}
