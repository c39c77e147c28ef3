// Fisher: averages each weight by how much each model's likelihood depends on it.
import { z } from "zod";
import { mergeByStatistics, modelsWithStatistics } from "./by-statistics.js";
import { defineMethod } from "./method.js";

export const fisher = defineMethod({
  name: "fisher",
  title: "Fisher",
  summary: "Averages each weight by its Fisher information: how much each model's likelihood depends on it.",
  formula:
    "sum_i w_i F_i theta_i / sum_i w_i F_i, F_i = max(floor, mean over texts of (d log p(text) / d theta_i)^2). A tensor without statistics takes the average by w_i",
  reference: "Matena and Raffel, NeurIPS 2022, arXiv 2111.09832, section 3",
  fields: () => ({
    models: modelsWithStatistics("fisher", "Fisher information"),
    floor: z.number().min(1e-30).max(1).default(1e-6).describe("smallest Fisher information that counts"),
  }),
  statistics: "fisher",
  example: {
    method: "fisher",
    models: [
      { model: "math-expert", statistics: "math-fisher" },
      { model: "swahili-expert", statistics: "swahili-fisher" },
    ],
  },
  tensors: (recipe, sources, context) =>
    mergeByStatistics(
      recipe,
      sources,
      context,
      ({ shape }) => shape,
      (parts) => {
        const of = parts.flatMap(({ value, statistics }) => [value, statistics]);
        return { op: "weigh", of, weights: parts.flatMap(({ weight }) => [weight, weight]), floor: recipe.floor };
      },
    ),
});
