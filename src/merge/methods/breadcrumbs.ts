// Breadcrumbs: drops the largest and the smallest changes of each tensor; sums the rest, or elects signs.

import type { z } from "zod";
import { elementCount } from "../../core/index.js";
import type { Value } from "../../values/index.js";
import type { Sources } from "./method.js";
import type { PlanContext } from "./operand.js";
import {
  type Change,
  modelParameter,
  rescaleField,
  resolveRescale,
  shareField,
  sparsifyingMethod,
  taskVectorFields,
  withNorm,
} from "./task-vectors.js";

/** Of recipes, and of tensors that no filter of a parameter names. */
const DEFAULTS = { density: 1, gamma: 0.01 };

const density = shareField.describe("share of the changes to keep");
const gamma = shareField.describe("share of the largest changes to drop; at most 1 - density");

const common = {
  symbol: "b",
  definition:
    "b_i = tau_i where the rank of |tau_i|, ascending, is from n - int(density n) - g to n - g - 1, else 0; g = min(int(gamma n), n - int(density n))",
  reference: "Davari & Belilovsky, ECCV 2024, arXiv 2312.06795",
  tag: "breadcrumbs",
  fields: () => ({
    ...taskVectorFields({ density: density.optional(), gamma: gamma.optional() }),
    density: density.default(DEFAULTS.density),
    gamma: gamma.default(DEFAULTS.gamma),
    rescale: rescaleField,
  }),
  named: ["density", "gamma"],
  sparsify: dropByRank,
};

export const breadcrumbs = sparsifyingMethod("added", {
  ...common,
  name: "breadcrumbs",
  title: "Breadcrumbs",
  summary: "Drops the largest and the small changes of each tensor and adds the rest up.",
  example: { density: 0.9, gamma: 0.05 },
});

export const breadcrumbsTies = sparsifyingMethod("elected", {
  ...common,
  name: "breadcrumbs_ties",
  title: "Breadcrumbs TIES",
  summary: "Drops the largest and the small changes of each tensor, then elects signs as TIES does.",
  example: { density: 0.9 },
});

/** How many of n changes to drop at the bottom and at the top. `density` wins where the two add up to more than 1. */
function dropCounts(n: number, density: number, gamma: number): { bottom: number; top: number } {
  const kept = Math.floor(density * n);
  const top = Math.min(Math.floor(gamma * n), n - kept);
  return { bottom: n - kept - top, top };
}

function dropByRank(
  recipe: {
    readonly models: readonly (string | object)[];
    readonly rescale?: z.output<typeof rescaleField>;
  },
  { models }: Sources,
  context: PlanContext,
): (change: Change) => Value {
  const densities = models.map((expert, i) => modelParameter(recipe, i, "density", DEFAULTS.density, expert));
  const gammas = models.map((expert, i) => modelParameter(recipe, i, "gamma", DEFAULTS.gamma, expert));
  const rescales = models.map((expert) => resolveRescale(recipe.rescale ?? "none", expert));
  return ({ name, tensor, model, expert, delta }) => {
    const n = elementCount(tensor.shape);
    const { bottom, top } = dropCounts(n, densities[model]?.(name) ?? 1, gammas[model]?.(name) ?? 0);
    if (bottom === 0 && top === 0) return delta;
    if (bottom + top >= n) return { sum: [{ weight: 0, value: delta }] };
    const what = `rank ${bottom} to ${n - top - 1} of ${name} of ${expert.label}`;
    const { measured } = context.measure({
      id: `changes of ${what}`,
      kind: "order",
      label: `the order of the changes of ${expert.label}`,
      values: [delta],
      ranks: [bottom, n - top - 1],
    });
    const [low, high] = [bottom > 0 ? { measured } : 0, top > 0 ? { measured, at: 1 } : Number.MAX_VALUE];
    const kept: Value = { op: "trim", of: [delta], low, high };
    return rescales[model]?.(name) === "norm" ? withNorm(delta, kept, what, context) : kept;
  };
}
