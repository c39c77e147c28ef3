// Consensus: keeps the elements of summed changes that enough experts need, by their TALL masks.
import { z } from "zod";
import { plural } from "../../core/index.js";
import type { Value } from "../../values/index.js";
import { modelsField, sourceField } from "./fields.js";
import { defineMethod } from "./method.js";
import { mergeTaskVectors, taskVectorFields } from "./task-vectors.js";

const schema = () => {
  const { lambda } = taskVectorFields({});
  return z.strictObject({
    method: z.literal("consensus"),
    models: modelsField("the experts", {}, 2),
    base: sourceField("model that all were fine-tuned from"),
    threshold: z
      .number()
      .min(0)
      .max(1e3)
      .default(0.4)
      .describe("how large an expert's change must be, beside the sum of the others'"),
    agree: z.int().min(1).default(2).describe("number of experts that an element must be needed by"),
    lambda,
  });
};

export const consensus = defineMethod({
  name: "consensus",
  title: "Consensus",
  summary: "Adds up changes where enough experts need an element, and drops the others.",
  formula:
    "theta_base + lambda sum_i tau_i where |{i: |tau_i| > threshold |sum_j tau_j - tau_i|}| >= agree, else theta_base",
  reference: "Wang et al., ICML 2024, arXiv 2405.07813",
  tag: "consensus",
  schema,
  example: { method: "consensus", models: ["math-expert", "swahili-expert"], base: "base", lambda: 0.5 },
  tensors: (recipe, sources, context) =>
    mergeTaskVectors(recipe, sources, context, {
      join: (changes): Value => ({
        op: "needed",
        of: changes.map(({ value }) => value),
        threshold: recipe.threshold,
        agree: recipe.agree,
      }),
    }),
  headline: ({ models, threshold, agree }) =>
    `Consensus of ${plural(models.length, "model")}: threshold ${threshold}, agree ${agree}`,
});
