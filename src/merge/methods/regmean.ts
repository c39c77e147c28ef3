// RegMean: the matrices whose outputs are nearest to those of all models on each model's texts. One matrix is in memory at a time.
import { z } from "zod";
import { elementCount } from "../../kit/index.js";
import { type MatrixRule, REGRESSION_MEMORY, regress } from "../../tensor/streaming/index.js";
import { mergeByStatistics, modelsWithStatistics } from "./by-statistics.js";
import { defineMethod } from "./method.js";
import type { OperandTensor } from "./operand.js";

/** RegMean, arXiv 2212.09849, equation 2. `number` scales the elements off the diagonal of products. */
export const regmeanRule: MatrixRule = {
  name: "regmean",
  // The products of the inputs follow the values.
  squareFrom: (count) => count / 2,
  ...REGRESSION_MEMORY,
  merge: (kernels, values, size, number) => {
    const count = values.length / 2;
    return regress(kernels, values.slice(0, count), values.slice(count), size, number);
  },
};

export const regmean = defineMethod({
  name: "regmean",
  title: "RegMean",
  summary: "Finds the matrices whose outputs are nearest to those of all models, by regression on their inputs.",
  formula:
    "(sum_i w_i theta_i G_i) (sum_i w_i G_i)^-1, G_i = E[x x^T] over the inputs x of the matrix, off-diagonal elements times scale. An input that no text reaches takes the mean; a tensor without statistics the average by w_i",
  reference: "Jin et al., ICLR 2023, arXiv 2212.09849, equation 2 and section 3.3",
  fields: () => ({
    models: modelsWithStatistics("gram", "statistics"),
    scale: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe("factor of the products of different inputs; below 1 it steadies the solution"),
  }),
  example: {
    method: "regmean",
    models: [
      { model: "math-expert", statistics: "math-gram" },
      { model: "swahili-expert", statistics: "swahili-gram" },
    ],
  },
  tensors: (recipe, sources, context) => {
    const inputsOf = ({ shape }: OperandTensor) => shape.at(-1) ?? 0;
    return mergeByStatistics(
      recipe,
      sources,
      context,
      (tensor) => [inputsOf(tensor), inputsOf(tensor)],
      (parts, { shape }) => {
        const products = parts.map(({ statistics, weight }) => ({ sum: [{ weight, value: statistics }] }));
        const of = [...parts.map(({ value }) => value), ...products];
        return { op: "whole-matrix", of, rule: "regmean", number: recipe.scale, matrix: elementCount(shape) };
      },
    );
  },
});
