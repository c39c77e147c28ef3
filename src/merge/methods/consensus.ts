// Consensus: keeps the elements of summed changes that enough experts need, by their TALL masks.
import { z } from "zod";
import { defineOperation } from "../../tensor/expressions/index.js";
import { defineMethod, expertFields, lambdaField } from "./method.js";
import { mergeTaskVectors } from "./task-vectors.js";

/** The sum of the values where at least `agree` of them are larger than `threshold` times the sum of the others, else 0. */
export const needed = defineOperation("needed", {
  fields: { threshold: "size", agree: "count" },
  apply: (buffers, { threshold, agree }, { length }, { kernels, table }) => {
    kernels.counters(table, buffers.length).set(buffers);
    kernels.wasm.needed(table, buffers.length, length, threshold, agree);
  },
});

export const consensus = defineMethod({
  name: "consensus",
  title: "Consensus",
  summary: "Adds up changes where enough experts need an element, and drops the others.",
  formula:
    "theta_base + lambda sum_i tau_i where |{i: |tau_i| > threshold |sum_j tau_j - tau_i|}| >= agree, else theta_base",
  reference: "Wang et al., ICML 2024, arXiv 2405.07813",
  fields: () => ({
    ...expertFields({}),
    lambda: lambdaField,
    threshold: z
      .number()
      .min(0)
      .max(1e3)
      .default(0.4)
      .describe("how large an expert's change must be, beside the sum of the others'"),
    agree: z.int().min(1).default(2).describe("number of experts that an element must be needed by"),
  }),
  example: { method: "consensus", models: ["math-expert", "swahili-expert"], base: "base", lambda: 0.5 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      join: (changes) =>
        needed.of(
          changes.map(({ value }) => value),
          { threshold: recipe.threshold, agree: recipe.agree },
        ),
    }),
});
