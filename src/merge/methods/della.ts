// DELLA: drops changes at random, larger ones less often, and rescales the rest; sums them (linear) or elects signs.
import type { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import { defineOperation, type Value } from "../../tensor/expressions/index.js";
import { seedAt } from "../../tensor/streaming/index.js";
import { taskVectors } from "./mergekit.js";
import { seedField } from "./method.js";
import { seedOf } from "./random.js";
import { type Change, EXAMPLE, rescaledAs, sparsifyingMethod } from "./task-vectors.js";

const fields = () => ({
  rescale: rescaledAs(["probability", "norm", "none"])
    .default("probability")
    .describe(
      "rescale what is kept: divide by its probability (the paper), match the L1 norm of the whole change, or leave it",
    ),
  seed: seedField,
});

/**
 * Each element of of[0] with a probability that grows with the rank of its magnitude in its stored row, from
 * density - epsilon to density + epsilon, divided by that probability if `divide`; else 0. The paper's first step, Drop
 * (MAGPRUNE), leaves ties open: here magnitudes that are equal once cut to bfloat16 share the mean of their ranks, so a row
 * is ranked by counting.
 */
export const dropByRank = defineOperation("drop-by-rank", {
  values: 1,
  fields: { density: "share", epsilon: "share", divide: "flag", seed: "seed" },
  wholeRows: true,
  apply: ([a = 0], { density, epsilon, divide, seed }, { index, length, columns }, { kernels }) => {
    // A row takes the seed of its first element.
    const [first, last] = [index, index + length - columns].map((row) => seedAt(seed, row).join());
    const step = first === last ? length : columns;
    for (let at = 0; at < length; at += step) {
      const own = seedAt(seed, index + at);
      kernels.wasm.dropByRank(a + 4 * at, step / columns, columns, index + at, ...own, density, epsilon, divide);
    }
  },
});

const common = {
  symbol: "d",
  definition:
    "d_i = m_i tau_i / p_i, m_i ~ Bernoulli(p_i), p_i = density - epsilon + 2 epsilon rank / (columns - 1), the rank of |tau_i| cut to bfloat16 in its row, ascending from 0; equals share the mean of their ranks",
  reference: "Deep et al., 2024, arXiv 2406.11617",
  tag: "della",
  shares: {
    density: [0.5, "mean probability of keeping a change"],
    epsilon: [0.15, "difference from the mean probability of the largest and the smallest change of a row"],
  },
  fields,
  sparsify: dropSmall,
} as const;

export const dellaLinear = sparsifyingMethod("added", {
  ...common,
  name: "della_linear",
  mergekit: taskVectors("della_linear", { own: { density: 1, epsilon: 0.15 }, rescale: true }),
  title: "DELLA linear",
  summary: "Drops changes at random, larger ones less often, rescales the rest and adds them up.",
  example: { method: "della_linear", ...EXAMPLE, density: 0.4, epsilon: 0.1 },
});

export const della = sparsifyingMethod("elected", {
  ...common,
  name: "della",
  mergekit: taskVectors("della", { own: { density: 1, epsilon: 0.15 }, normalize: true, rescale: true }),
  title: "DELLA",
  summary: "Drops changes at random, larger ones less often, rescales the rest and elects signs as TIES does.",
  example: { method: "della", ...EXAMPLE, density: 0.4, epsilon: 0.1 },
});

function dropSmall({ seed }: z.output<z.ZodObject<ReturnType<typeof fields>>>) {
  return (
    { name, expert, delta }: Change,
    { density, epsilon }: { readonly density: number; readonly epsilon: number },
    how: string,
  ): Value => {
    if (density >= 1) return delta;
    if (density <= 0) return { sum: [{ weight: 0, value: delta }] };
    if (density - epsilon <= 0 || density + epsilon > 1) {
      throw RecipeError.at(
        { field: "epsilon", tensor: name },
        `density ${density} with epsilon ${epsilon} makes probabilities from ${density - epsilon} to ${density + epsilon}; they must be above 0 and at most 1`,
      );
    }
    const drawn = { density, epsilon, divide: how === "probability", seed: seedOf(seed, expert.label, name) };
    return dropByRank.of([delta], drawn);
  };
}
