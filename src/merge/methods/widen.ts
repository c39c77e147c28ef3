// WIDEN: scales each column of the changes by how far its length and its direction moved, among the columns of its model.
import { z } from "zod";
import { elementCount } from "../../kit/index.js";
import { defineCombination, type Lines } from "../../tensor/measurements/index.js";
import { defineMethod, modelsField, sourceField } from "./method.js";
import { addedToBase, tensorOf } from "./operand.js";

interface Scoring {
  readonly models: number;
  readonly isVector: boolean;
  readonly ratio: number;
  readonly score: number;
}

/** (s_m + s_d) / 2 of the columns of each model. */
export const columnScores = defineCombination(
  "column-scores",
  ({ lines, product }: Lines, { models, isVector, ratio, score }: Scoring) => {
    const perModel = (of: (line: number, i: number) => number) =>
      Array.from({ length: models }, (_, i) => Float64Array.from({ length: lines }, (__, line) => of(line, i)));
    const size = (line: number, i: number) => Math.sqrt(product(line, i, i));
    if (isVector) return scored([perModel(size)], 1, ratio, score);
    const lengths = perModel((line, i) => Math.abs(size(line, i + 1) - size(line, 0)));
    const turns = perModel((line, i) => {
      const sizes = Math.sqrt(product(line, 0, 0) * product(line, i + 1, i + 1));
      return sizes > 0 ? 1 - product(line, 0, i + 1) / sizes : size(line, i + 1);
    });
    return scored([lengths.map(ranks), turns.map(ranks)], lines, ratio, score);
  },
);

export const widen = defineMethod({
  name: "widen",
  title: "WIDEN",
  summary: "Scales each column of the changes by the ranks of its change in length and in direction.",
  formula:
    "theta_base + sum_i tau_i (s_m,i + s_d,i) / 2 per column j (per token j of an embedding); s = score where the rank of column j in its model is above ratio times the mean rank, else the softmax over models of the ranks divided by the number of columns; ranks of m = | ||theta_i,j|| - ||theta_base,j|| | and d = 1 - cos(theta_i,j, theta_base,j). Vectors: s of |tau_i|",
  reference: "Yu et al., 2024, arXiv 2408.03092",
  fields: () => ({
    models: modelsField("the models", {}, 2),
    base: sourceField("model that all were tuned from"),
    ratio: z
      .number()
      .min(0)
      .max(1e3)
      .default(1)
      .describe("columns above this multiple of their model's mean rank count fully"),
    score: z.number().min(-1e3).max(1e3).default(1).describe("factor of the columns that count fully"),
  }),
  example: { method: "widen", models: ["math-expert", "swahili-expert"], base: "base" },
  tensors: ({ ratio, score }, { models, base }, context) =>
    addedToBase(models, base, "WIDEN needs", context, (name, tensor, changes, from) => {
      const { shape, part, transposed = false } = tensor;
      const isVector = shape.length < 2;
      // A column has the weights of one input; of an embedding, those of one token.
      const axis = !isVector && (part === "embed_tokens") !== transposed ? "rows" : "columns";
      const { measured } = context.measure({
        id: `columns of ${name} of ${models.map(({ label }) => label).join(", ")}, ratio ${ratio}, score ${score}`,
        kind: "lines",
        label: "changes of columns",
        values: isVector ? changes : [from, ...models.map((model) => tensorOf(model, name).value)],
        shape,
        axis,
        combine: columnScores.with({ models: models.length, isVector, ratio, score }),
      });
      const matrix = elementCount(shape.slice(-2));
      return [{ weight: 1, value: { op: "scale-lines", of: changes, factors: measured, axis, matrix } }];
    }),
});

/** Ranks from 0, ascending; equal values in order. */
function ranks(values: Float64Array): Float64Array {
  const order = Array.from(values.keys()).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0) || a - b);
  const found = new Float64Array(values.length);
  for (const [rank, at] of order.entries()) found[at] = rank;
  return found;
}

/**
 * The mean score of each model's columns over kinds of significance, [models, lines]. Compared with their mean as they are,
 * since sums of whole ranks are exact, and divided by `unit` for the softmax.
 */
function scored(kinds: readonly (readonly Float64Array[])[], unit: number, ratio: number, score: number): Float32Array {
  const all = kinds.map((significance) => {
    const totals = significance.map((own) => own.reduce((sum, x) => sum + x, 0) / own.length);
    const powers = significance.map((own) => own.map((x) => Math.exp(x / unit)));
    return significance.flatMap((own, i) =>
      Array.from(own, (x, line) => {
        if (x > ratio * (totals[i] as number)) return score;
        return (powers[i]?.[line] as number) / powers.reduce((sum, other) => sum + (other[line] as number), 0);
      }),
    );
  });
  return Float32Array.from(
    all[0] ?? [],
    (_, at) => all.reduce((sum, one) => sum + (one[at] as number), 0) / all.length,
  );
}
