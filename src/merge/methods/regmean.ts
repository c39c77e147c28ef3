// RegMean: the matrices whose outputs are nearest to those of all models on each model's texts. One matrix is in memory at a time.
import { z } from "zod";
import { elementCount } from "../../core/index.js";
import { modelsField, statisticsField } from "./fields.js";
import { defineMethod } from "./method.js";
import { average, computed, isEmpty, statisticsOf, tensorOf } from "./operand.js";
import { boundedParameter } from "./parameter.js";
import { modelParameter } from "./task-vectors.js";

export const regmean = defineMethod({
  name: "regmean",
  title: "RegMean",
  summary: "Finds the matrices whose outputs are nearest to those of all models, by regression on their inputs.",
  formula:
    "(sum_i w_i theta_i G_i) (sum_i w_i G_i)^-1, G_i = E[x x^T] over the inputs x of the matrix, off-diagonal elements times scale. An input that no text reaches takes the mean; a tensor without statistics the average by w_i",
  reference: "Jin et al., ICLR 2023, arXiv 2212.09849, equation 2 and section 3.3",
  fields: () => ({
    models: modelsField(
      "the models",
      {
        statistics: statisticsField("gram", "the model"),
        weight: boundedParameter(1e-9, 1e9).optional().describe("factor for its statistics; default 1"),
      },
      2,
    ),
    scale: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe("factor of the products of different inputs; below 1 it steadies the solution"),
  }),
  statistics: "gram",
  example: {
    method: "regmean",
    models: [
      { model: "math-expert", statistics: "math-gram" },
      { model: "swahili-expert", statistics: "swahili-gram" },
    ],
  },
  tensors: (recipe, { models }, context) => {
    const [lead] = models;
    if (!lead) throw new RangeError("regmean needs a model");
    const weights = models.map((model, i) => modelParameter(recipe, i, "weight", 1, model));
    return computed(lead, models, context, (name, tensor) => {
      if (isEmpty(tensor)) return undefined;
      const columns = tensor.shape.at(-1) ?? 0;
      const found = statisticsOf(name, models, [columns, columns]);
      const terms = models.map((operand, i) => ({ operand, weight: weights[i]?.(name) ?? 1 }));
      if (!found) return average(name, terms, context).value;
      const products = found.map(({ value }, i) => ({ sum: [{ weight: terms[i]?.weight ?? 1, value }] }));
      const of = [...models.map((model) => tensorOf(model, name).value), ...products];
      const matrix = elementCount(tensor.shape);
      return { op: "whole-matrix", of, rule: "regmean", number: recipe.scale, matrix };
    });
  },
});
