// Fisher: averages each weight by how much each model's likelihood depends on it.
import { z } from "zod";
import { defineOperation } from "../../tensor/expressions/index.js";
import { onValues } from "../../tensor/streaming/index.js";
import { mergeByStatistics, modelsWithStatistics } from "./by-statistics.js";
import { defineMethod } from "./method.js";

/** The average of of[0], of[2], ... by of[1], of[3], ..., each at least `floor`, times the weight of each. */
export const weigh = defineOperation("weigh", {
  fields: { weights: "numberPerValue", floor: "size" },
  apply: onValues((into, values, { weights, floor }, { length }) => {
    for (let i = 0; i < length; i++) {
      // Of differences from the first, so that equal values stay as they are.
      const first = into[i] as number;
      let [total, sum] = [0, 0];
      for (let k = 0; k < values.length; k += 2) {
        const weight = (weights[k] as number) * Math.max(floor, values[k + 1]?.[i] as number);
        total += weight;
        sum += weight * ((values[k]?.[i] as number) - first);
      }
      into[i] = first + sum / total;
    }
  }),
});

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
        return weigh.of(of, { weights: parts.flatMap(({ weight }) => [weight, weight]), floor: recipe.floor });
      },
    ),
});
