// SLERP: interpolates two models along the arc between their tensors.

import type { Value, WeightedValue } from "../../tensor/expressions/index.js";
import { defineCombination, type Gram } from "../../tensor/measurements/index.js";
import { onPair, SHARE, type SliceMerge } from "./mergekit.js";
import { defineMethod, modelsField, type SourceRecipe } from "./method.js";
import { computed, isEmpty, type Operand, type PlanContext, tensorOf } from "./operand.js";
import { resolveParameter } from "./parameter.js";
import { shareField } from "./task-vectors.js";

/** Cosine above which the interpolation is linear. */
export const STRAIGHT = 0.9995;

/** Position on an arc, and the cosine above which it is a straight line. */
export interface Arc {
  readonly t: number;
  readonly straight: number;
}

export const arcWeights = defineCombination("arc-weights", (gram: Gram, { t, straight }: Arc) => {
  const [[square0 = 0, dot = 0] = [], [, square1 = 0] = []] = gram;
  return slerpWeights(dot, square0, square1, t, straight);
});

export const slerp = defineMethod({
  name: "slerp",
  title: "SLERP",
  summary: "Interpolates two models along the arc between their tensors.",
  formula:
    "(sin((1 - t) W) theta_1 + sin(t W) theta_2) / sin W, W the angle between the flattened tensors; linear where |cos W| > 0.9995; a right angle where one is zero",
  reference: "Shoemake, SIGGRAPH 1985",
  mergekit: { own: [], common: ["t"], isRounded: false, make: fromMergekit },
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
    combine: arcWeights.with({ t, straight }),
  });
  return values.map((value, at) => ({ weight: at === 0 ? { measured } : { measured, at }, value }));
}

/**
 * Weights of v0 and v1 in their spherical interpolation: sin((1 - t) W) / sin W and sin(t W) / sin W with W the angle
 * between them; (1 - t) and t where |cos W| > `straight`, as the sine is too small to divide by. A zero vector has no
 * direction and counts as a right angle, as in mergekit: a change of few elements is nearly at right angles to another.
 * Shoemake 1985.
 */
export function slerpWeights(
  dot: number,
  square0: number,
  square1: number,
  t: number,
  straight: number,
): readonly [number, number] {
  const size = Math.sqrt(square0) * Math.sqrt(square1);
  const cosine = size > 0 ? dot / size : 0;
  if (!(Math.abs(cosine) <= straight)) return [1 - t, t];
  const angle = Math.acos(cosine);
  return [Math.sin((1 - t) * angle) / Math.sin(angle), Math.sin(t * angle) / Math.sin(angle)];
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const t = slice.common({ name: "t", range: SHARE });
  return onPair(slice, "slerp", (base, other) => ({ models: [base, other], t }));
}
