// SCE: selects elements where experts differ most, calculates weights from them, erases minority signs.

import { defineOperation } from "../../tensor/expressions/index.js";
import { defineCombination, type Gram } from "../../tensor/measurements/index.js";
import { electSigns } from "./elect-signs.js";
import { EXACT, onBase, SHARE, type SliceMerge } from "./mergekit.js";
import { defineMethod, expertFields, lambdaField, type SourceRecipe } from "./method.js";
import { addedToBase, requireBase } from "./operand.js";
import { resolveParameter } from "./parameter.js";
import { cutMeasurement, cutoffField, shareField, within } from "./task-vectors.js";

/** mean((x_i - mean(x_i))^2) over the values. */
export const variance = defineOperation("variance", {
  fields: {},
  apply: (buffers, _, { length }, { kernels, table }) => {
    kernels.counters(table, buffers.length).set(buffers);
    kernels.wasm.variance(table, buffers.length, length);
  },
});

export const sharesOfSquares = defineCombination("shares-of-squares", (gram: Gram) => {
  const squares = gram.map((row, i) => row[i] ?? 0);
  const sum = squares.reduce((total, square) => total + square, 0);
  return squares.map((square) => (sum > 0 ? square / sum : 1 / squares.length));
});

export const sce = defineMethod({
  name: "sce",
  title: "SCE",
  summary:
    "Keeps elements where experts differ most, weights experts by the size of their changes and drops minority signs.",
  formula:
    "theta_base + lambda sum_{i: sign(s_i) = sign(sum_j s_j), + if that is 0} w_i s_i / sum of these w_i; s_i = tau_i where var_i(tau_i) is among the largest int(select nonzero); w_i = mean(s_i^2) / sum_j mean(s_j^2)",
  reference: "Wan et al., 2024, arXiv 2408.07990",
  mergekit: { own: [], common: ["select_topk", "int8_mask"], isRounded: true, make: fromMergekit },
  fields: () => ({
    ...expertFields({}),
    lambda: lambdaField,
    cutoff: cutoffField,
    select: shareField.default(1).describe("share of the elements to keep, of those where experts differ"),
  }),
  example: { method: "sce", models: ["math-expert", "swahili-expert"], base: "base", select: 0.1 },
  tensors: (recipe, { models, base }, context) => {
    const [lead = requireBase(base, "SCE needs")] = models;
    const select = resolveParameter(recipe.select, 1, "select", lead);
    const lambda = resolveParameter(recipe.lambda, 1, "lambda", lead);
    return addedToBase(models, base, "SCE needs", context, (name, _, deltas) => {
      const who = `${name} of ${models.map(({ label }) => label).join(", ")}`;
      const share = select(name);
      let selected = deltas;
      if (share < 1) {
        const differences = variance.of(deltas, {});
        const cut = cutMeasurement(recipe.cutoff, {
          id: `largest ${share} of the variance of ${who}`,
          label: "the elements that differ most",
          values: [differences],
          of: models.map(({ label }) => label),
          keep: { share },
        });
        selected = deltas.map((delta) => within(cut, 0, delta, context, differences));
      }
      const { measured } = context.measure({
        id: `sizes of ${who}, select ${share}${recipe.cutoff === "exact" ? ", exact" : ""}`,
        kind: "gram",
        label: "sizes of changes",
        values: selected,
        diagonal: true,
        combine: sharesOfSquares.with({}),
      });
      const weights = selected.map((_, at) => ({ measured, at }));
      const merged = electSigns.of(selected, { weights, weighted: false, normalize: true, tie: 1 });
      return [{ weight: lambda(name), value: merged }];
    });
  },
});

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const select = slice.common({ name: "select_topk", fallback: 1, range: { ...SHARE, clamps: true } });
  return onBase(slice, "sce", { select, ...EXACT });
}
