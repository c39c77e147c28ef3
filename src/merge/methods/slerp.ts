// SLERP: interpolates two models along the arc between their tensors.
import type { Value, WeightedValue } from "../../values/index.js";
import { slerpWeights } from "../../weights/index.js";
import { modelsField } from "./fields.js";
import { defineMethod } from "./method.js";
import { computed, isEmpty, type Operand, type PlanContext, tensorOf } from "./operand.js";
import { resolveParameter } from "./parameter.js";
import { shareField } from "./task-vectors.js";

/** Cosine above which the interpolation is linear. */
export const STRAIGHT = 0.9995;

export const slerp = defineMethod({
  name: "slerp",
  title: "SLERP",
  summary: "Interpolates two models along the arc between their tensors.",
  formula:
    "(sin((1 - t) W) theta_1 + sin(t W) theta_2) / sin W, W the angle between the flattened tensors; linear where |cos W| > 0.9995; a right angle where one is zero",
  reference: "Shoemake, SIGGRAPH 1985",
  fields: () => ({
    models: modelsField("two models", {}, 2).max(2, "must name two models"),
    t: shareField.describe("position between the first model (0) and the second (1)"),
  }),
  example: { method: "slerp", models: ["math-expert", "swahili-expert"], t: 0.3 },
  tensors: ({ t }, { models }, context) => {
    const [first, second] = models as readonly [Operand, Operand];
    const share = resolveParameter(t, 0.5, "t", first);
    return computed(first, models, context, (name, tensor) => {
      const at = share(name);
      const [a, b] = [tensor.value, tensorOf(second, name).value];
      if (at === 0 || isEmpty(tensor)) return a;
      if (at === 1) return b;
      const id = `angle of ${name} of ${first.label} and ${second.label}, t ${at}`;
      return { sum: alongArc(id, [a, b], at, STRAIGHT, context) };
    });
  },
});

/** Two values with measured weights of their interpolation at `t`. */
export function alongArc(
  id: string,
  values: readonly [Value, Value],
  t: number,
  straight: number,
  context: PlanContext,
): WeightedValue[] {
  const { measured } = context.measure({
    id,
    kind: "gram",
    label: "angles",
    values,
    combine: (gram) => slerpWeights(at(gram, 0, 1), at(gram, 0, 0), at(gram, 1, 1), t, straight),
  });
  return values.map((value, at) => ({ weight: at === 0 ? { measured } : { measured, at }, value }));
}

const at = (gram: readonly (readonly number[])[], i: number, k: number) => gram[i]?.[k] ?? 0;
