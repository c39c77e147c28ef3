// Model Stock: averages the experts and moves the average towards the base, further for wider angles.

import { z } from "zod";
import { defineOperation } from "../../tensor/expressions/index.js";
import { defineCombination, type Gram } from "../../tensor/measurements/index.js";
import { onValues } from "../../tensor/streaming/index.js";
import { onBase, oneValue, type SliceMerge } from "./mergekit.js";
import { defineMethod, expertFields, type SourceRecipe } from "./method.js";
import { addedToBase } from "./operand.js";

/** The mean of each stored row of the values times Model Stock's ratio for the angles between them in that row. */
export const stockRows = defineOperation("stock-rows", {
  fields: {},
  wholeRows: true,
  apply: onValues((into, values, _, { length, columns }) => {
    for (let at = 0; at < length; at += columns) {
      const rows = values.map((all) => all.subarray(at, at + columns));
      const gram = rows.map((x) => rows.map((y) => x.reduce((sum, one, i) => sum + one * (y[i] as number), 0)));
      const ratio = stockRatio(gram) / values.length;
      for (let i = 0; i < columns; i++) {
        into[at + i] = ratio * rows.reduce((sum, row) => sum + (row[i] as number), 0);
      }
    }
  }),
});

export const ratioOfTensor = defineCombination("stock-ratio", (gram: Gram) => [stockRatio(gram)]);

export const modelStock = defineMethod({
  name: "model_stock",
  title: "Model Stock",
  summary:
    "Averages the experts and moves the average towards the base: further, the wider the angles between changes.",
  formula:
    "t mean(theta_i) + (1 - t) theta_base per tensor, t = N c / (1 + (N - 1) c), c the mean cosine of pairs of changes (t = 0 where c <= 0)",
  reference: "Jang et al., ECCV 2024, arXiv 2403.19522",
  mergekit: { own: [], common: ["filter_wise"], isRounded: true, make: fromMergekit },
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
      if (rows) return [{ weight: 1, value: stockRows.of(values, {}) }];
      const { measured } = context.measure({
        id: `angles of ${name} of ${models.map(({ label }) => label).join(", ")}`,
        kind: "gram",
        label: "angles between changes",
        values,
        combine: ratioOfTensor.with({}),
      });
      return [{ weight: { measured }, value: { blend: values.map((value) => ({ weight: 1, value })) } }];
    }),
});

/**
 * Model Stock's interpolation ratio t = N cos / (1 + (N - 1) cos), cos the mean cosine of pairs of changes; 0 if these point
 * away from each other. arXiv 2403.19522, equation 1.
 * @param gram dot products of the changes, [N, N]
 */
function stockRatio(gram: Gram): number {
  const cosines = gram.flatMap((row, i) =>
    row.slice(i + 1).map((product, k) => {
      const size = Math.sqrt(row[i] ?? 0) * Math.sqrt(gram[i + 1 + k]?.[i + 1 + k] ?? 0);
      return size > 0 ? product / size : 0;
    }),
  );
  const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length;
  return mean <= 0 ? 0 : (gram.length * mean) / (1 + (gram.length - 1) * mean);
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  return onBase(slice, "model_stock", oneValue(slice, "filter_wise", 0) !== 0 ? { rows: true } : {});
}
