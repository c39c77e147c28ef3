// Model Stock: averages the experts and moves the average towards the base, further for wider angles.

import { z } from "zod";
import { stockRatio } from "../../weights/index.js";
import { expertFields } from "./fields.js";
import { defineMethod } from "./method.js";
import { addedToBase } from "./operand.js";

export const modelStock = defineMethod({
  name: "model_stock",
  title: "Model Stock",
  summary:
    "Averages the experts and moves the average towards the base: further, the wider the angles between changes.",
  formula:
    "t mean(theta_i) + (1 - t) theta_base per tensor, t = N c / (1 + (N - 1) c), c the mean cosine of pairs of changes (t = 0 where c <= 0)",
  reference: "Jang et al., ECCV 2024, arXiv 2403.19522",
  fields: () => ({
    ...expertFields({}),
    rows: z
      .boolean()
      .optional()
      .describe("take the angles of each stored row instead of the flattened tensor; default false"),
  }),
  example: { method: "model_stock", models: ["math-expert", "swahili-expert", "base+swahili-adapter"], base: "base" },
  tensors: ({ rows }, { models, base }, context) =>
    addedToBase(models, base, "Model Stock needs", context, (name, _, values) => {
      if (rows) return [{ weight: 1, value: { op: "stock-rows", of: values } }];
      const { measured } = context.measure({
        id: `angles of ${name} of ${models.map(({ label }) => label).join(", ")}`,
        kind: "gram",
        label: "angles between changes",
        values,
        combine: (gram) => [stockRatio(gram)],
      });
      return [{ weight: { measured }, value: { blend: values.map((value) => ({ weight: 1, value })) } }];
    }),
});
