// Fisher: averages each weight by how much each model's likelihood depends on it.
import { z } from "zod";
import { modelsField, statisticsField } from "./fields.js";
import { defineMethod } from "./method.js";
import { average, computed, isEmpty, statisticsOf, tensorOf } from "./operand.js";
import { boundedParameter } from "./parameter.js";
import { modelParameter } from "./task-vectors.js";

export const fisher = defineMethod({
  name: "fisher",
  title: "Fisher",
  summary: "Averages each weight by its Fisher information: how much each model's likelihood depends on it.",
  formula:
    "sum_i w_i F_i theta_i / sum_i w_i F_i, F_i = max(floor, mean over texts of (d log p(text) / d theta_i)^2). A tensor without statistics takes the average by w_i",
  reference: "Matena and Raffel, NeurIPS 2022, arXiv 2111.09832, section 3",
  fields: () => ({
    models: modelsField(
      "the models",
      {
        statistics: statisticsField("fisher", "the model"),
        weight: boundedParameter(1e-9, 1e9).optional().describe("factor for its Fisher information; default 1"),
      },
      2,
    ),
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
  tensors: (recipe, { models }, context) => {
    const [lead] = models;
    if (!lead) throw new RangeError("fisher needs a model");
    const weights = models.map((model, i) => modelParameter(recipe, i, "weight", 1, model));
    return computed(lead, models, context, (name, tensor) => {
      if (isEmpty(tensor)) return undefined;
      const own = weights.map((weight) => weight(name));
      const found = statisticsOf(name, models, tensor.shape);
      if (!found)
        return average(
          name,
          models.map((operand, i) => ({ operand, weight: own[i] ?? 1 })),
          context,
        ).value;
      const of = models.flatMap((model, i) => [tensorOf(model, name).value, found[i]?.value ?? tensor.value]);
      return { op: "weigh", of, weights: own.flatMap((weight) => [weight, weight]), floor: recipe.floor };
    });
  },
});
