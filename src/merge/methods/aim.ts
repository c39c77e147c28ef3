// AIM: keeps the weights of the base's largest inputs close to the base.
import { z } from "zod";
import { elementCount } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import { defineCombination, type Lines } from "../../tensor/measurements/index.js";
import { defineMethod, sourceField, statisticsField } from "./method.js";
import { computed, deltaOf, isEmpty, plus, requireBase, statisticsOf, tensorOf } from "./operand.js";

/** 1 - (1 - omega) a of each column. */
export const relaxation = defineCombination(
  "relaxation",
  ({ lines, product }: Lines, { omega }: { readonly omega: number }) => {
    const sizes = Float64Array.from({ length: lines }, (_, line) => Math.sqrt(product(line, 0, 0)));
    const most = sizes.reduce((a, b) => Math.max(a, b), 0);
    return Float32Array.from(sizes, (size) => 1 - (most > 0 ? ((1 - omega) * size) / most : 0));
  },
);

export const aim = defineMethod({
  name: "aim",
  title: "AIM",
  summary: "Scales the change of a model or of a merge down where the base's inputs are large.",
  formula:
    "theta_base + (1 - (1 - omega) a) tau in each column of a matrix, a = mean |x| of its input x in the base, divided by the largest of that matrix. A tensor without statistics is the expert's as it is: embedding, norms, and the output head, whose inputs are not measured",
  reference: "Nobari et al., 2025, arXiv 2502.02421",
  fields: () => ({
    expert: sourceField("the model, or the recipe of a merge, whose change is scaled"),
    base: sourceField("model that the change is from"),
    statistics: statisticsField("inputs", "base"),
    omega: z.number().min(0).max(1).default(0.4).describe("factor of the change in the weights of the largest input"),
  }),
  example: {
    method: "aim",
    expert: { method: "ties", models: ["math-expert", "swahili-expert"], base: "base" },
    base: "base",
    statistics: "base-inputs",
  },
  tensors: ({ omega }, sources, context) => {
    const expert = sources.get("expert");
    const base = requireBase(sources.base, "AIM needs");
    return computed(expert, [expert, base], context, (name, tensor) => {
      const { shape, transposed = false } = tensor;
      const [found] = statisticsOf(name, [base], [shape.at(transposed ? -2 : -1) ?? 0]) ?? [];
      if (!found || isEmpty(tensor)) return tensor.value;
      const { measured } = context.measure({
        id: `sizes of the inputs of ${name} of ${base.label}, omega ${omega}`,
        kind: "lines",
        label: "sizes of inputs",
        values: [found.value],
        shape: found.shape,
        axis: "columns",
        combine: relaxation.with({ omega }),
      });
      const of = [deltaOf(name, expert, base)];
      const axis = transposed ? "rows" : "columns";
      const matrix = elementCount(shape.slice(-2));
      const scaled: Value = { op: "scale-lines", of, factors: measured, axis, matrix };
      return plus(tensorOf(base, name).value, [{ weight: 1, value: scaled }]);
    });
  },
});
