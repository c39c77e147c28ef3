// DARE: drops changes at random and rescales the rest; then sums them (DARE linear) or elects signs (DARE TIES).
import type { z } from "zod";
import type { Value } from "../../tensor/expressions/index.js";
import { taskVectors } from "./mergekit.js";
import { seedField } from "./method.js";
import { seedOf } from "./random.js";
import { type Change, EXAMPLE, rescaledAs, sparsifyingMethod } from "./task-vectors.js";

const fields = () => ({
  rescale: rescaledAs(["density", "norm", "none"])
    .default("density")
    .describe(
      "rescale what is kept: divide by the density (the paper), match the L1 norm of the whole change, or leave it",
    ),
  seed: seedField,
});

const common = {
  symbol: "d",
  definition: "d_i = m_i tau_i / p, m_i ~ Bernoulli(p) per element",
  reference: "Yu et al., ICML 2024, arXiv 2311.03099",
  tag: "dare",
  shares: { density: [0.5, "probability of keeping a change"] },
  fields,
  sparsify:
    ({ seed }: z.output<z.ZodObject<ReturnType<typeof fields>>>) =>
    ({ name, expert, delta }: Change, { density }: { readonly density: number }, how: string): Value => {
      if (density >= 1) return delta;
      const scale = how === "density" && density > 0 ? 1 / density : 1;
      return { op: "drop", of: [delta], density, scale, seed: seedOf(seed, expert.label, name) };
    },
} as const;

export const dareLinear = sparsifyingMethod("added", {
  ...common,
  name: "dare_linear",
  mergekit: taskVectors("dare_linear", { own: { density: 1 }, rescale: true }),
  title: "DARE",
  summary: "Drops changes at random, rescales the rest and adds them up.",
  example: { method: "dare_linear", ...EXAMPLE, density: 0.3, seed: 1 },
});

export const dareTies = sparsifyingMethod("elected", {
  ...common,
  name: "dare_ties",
  mergekit: taskVectors("dare_ties", { own: { density: 1 }, rescale: true }),
  title: "DARE TIES",
  summary: "Drops changes at random, rescales the rest and elects signs as TIES does.",
  example: { method: "dare_ties", ...EXAMPLE, density: 0.3 },
});
