// Arcee fusion: takes the changes of a model that matter most, by their size and by how much they change a row's softmax.
import { elementCount } from "../../core/index.js";
import type { Value } from "../../values/index.js";
import { sourceField } from "./fields.js";
import { defineMethod } from "./method.js";
import { addedToBase } from "./operand.js";

export const arceeFusion = defineMethod({
  name: "arcee_fusion",
  title: "Arcee fusion",
  summary: "Adds the most important changes of a model, by size and by the divergence of their row, to a base.",
  formula:
    "theta_base + tau where I >= Q2 + 1.5 (Q3 - Q1), I = |tau| KL(softmax(theta) || softmax(theta_base)) with the divergence of the row, Qk the importance at rank int(k (n - 1) / 4) of the tensor's n, ascending from 0",
  reference: "mergekit, method arcee_fusion",
  fields: () => ({
    expert: sourceField("the model whose changes are taken"),
    base: sourceField("the model that they are added to"),
  }),
  example: { method: "arcee_fusion", expert: "math-expert", base: "base" },
  tensors: (_, sources, context) => {
    const expert = sources.get("expert");
    return addedToBase([expert], sources.base, "Arcee fusion needs", context, (name, tensor, [change], from) => {
      const importance: Value = { op: "importance", of: [tensor.value, from] };
      const last = elementCount(tensor.shape) - 1;
      const low = context.measure({
        id: `importance of ${name} of ${expert.label} against ${sources.base?.label}`,
        kind: "order",
        label: "importance of changes",
        values: [importance],
        ranks: [0.25, 0.5, 0.75].map((share) => Math.floor(share * last)),
        combine: ([q1 = 0, median = 0, q3 = 0]) => [median + 1.5 * (q3 - q1)],
      });
      return [{ weight: 1, value: { op: "trim-by", of: [change as Value, importance], low } }];
    });
  },
});
