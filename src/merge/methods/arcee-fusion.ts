// Arcee fusion: takes the changes of a model that matter most, by their size and by how much they change a row's softmax.
import { elementCount } from "../../kit/index.js";
import { defineOperation, type Value } from "../../tensor/expressions/index.js";
import { defineCombination } from "../../tensor/measurements/index.js";
import { onPair, type SliceMerge } from "./mergekit.js";
import { defineMethod, type SourceRecipe, sourceField } from "./method.js";
import { addedToBase } from "./operand.js";

/**
 * |of[0] - of[1]| times the Kullback-Leibler divergence of the softmaxes of their stored rows, each plus 1e-8, float64.
 */
export const importance = defineOperation("importance", {
  values: 2,
  fields: {},
  wholeRows: true,
  scratch: (columns) => 16 * (columns + 1),
  apply: ([a = 0, b = 0], _, { length, columns }, { kernels, scratch }) =>
    kernels.wasm.importance(a, b, length / columns, columns, scratch),
});

/** Q2 + 1.5 (Q3 - Q1) */
export const importanceThreshold = defineCombination(
  "importance-threshold",
  ([q1 = 0, median = 0, q3 = 0]: readonly number[]) => [median + 1.5 * (q3 - q1)],
);

export const arceeFusion = defineMethod({
  name: "arcee_fusion",
  title: "Arcee fusion",
  summary: "Adds the most important changes of a model, by size and by the divergence of their row, to a base.",
  formula:
    "theta_base + tau where I >= Q2 + 1.5 (Q3 - Q1), I = |tau| KL(softmax(theta) || softmax(theta_base)) with the divergence of the row, Qk the importance at rank int(k (n - 1) / 4) of the tensor's n, ascending from 0",
  reference: "mergekit, method arcee_fusion",
  mergekit: { own: [], common: [], isRounded: true, make: fromMergekit },
  fields: () => ({
    expert: sourceField("the model whose changes are taken"),
    base: sourceField("the model that they are added to"),
  }),
  example: { method: "arcee_fusion", expert: "math-expert", base: "base" },
  tensors: (_, sources, context) => {
    const expert = sources.get("expert");
    return addedToBase([expert], sources.base, "Arcee fusion needs", context, (name, tensor, [change], from) => {
      const sizes = importance.of([tensor.value, from], {});
      const last = elementCount(tensor.shape) - 1;
      const low = context.measure({
        id: `importance of ${name} of ${expert.label} against ${sources.base?.label}`,
        kind: "order",
        label: "importance of changes",
        values: [sizes],
        ranks: [0.25, 0.5, 0.75].map((share) => Math.floor(share * last)),
        combine: importanceThreshold.with({}),
      });
      return [{ weight: 1, value: { op: "trim-by", of: [change as Value, sizes], low } }];
    });
  },
});

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  return onPair(slice, "arcee_fusion", (base, expert) => ({ expert, base }));
}
