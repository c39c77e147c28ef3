// Averages that statistics of each model weigh: Fisher and RegMean.
import type { Shape } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import { modelsField, type Operands, statisticsField } from "./method.js";
import { average, computed, isEmpty, type OperandTensor, type PlanContext, statisticsOf, tensorOf } from "./operand.js";
import { boundedParameter } from "./parameter.js";
import type { StatisticsKind } from "./source-fields.js";
import { modelParameter } from "./task-vectors.js";

/** Models, each with its statistics. @param weighed what the weight multiplies */
export const modelsWithStatistics = (kind: StatisticsKind, weighed: string) =>
  modelsField(
    "the models",
    {
      statistics: statisticsField(kind, "model"),
      weight: boundedParameter(1e-9, 1e9).optional().describe(`factor for its ${weighed}; default 1`),
    },
    2,
  );

/** A model's tensor, its statistics, and the weight of these. */
export interface WithStatistics {
  readonly value: Value;
  readonly statistics: Value;
  readonly weight: number;
}

/**
 * Merges each tensor that has statistics; others are averaged by the weights.
 * @param shapeOf shape of a tensor's statistics
 */
export function mergeByStatistics(
  recipe: { readonly models: readonly (string | object)[] },
  { models }: Operands,
  context: PlanContext,
  shapeOf: (tensor: OperandTensor) => Shape,
  merge: (parts: readonly WithStatistics[], tensor: OperandTensor) => Value,
): Map<string, OperandTensor> {
  const [lead] = models;
  if (!lead) throw new RangeError("a merge by statistics needs a model");
  const weights = models.map((model, i) => modelParameter(recipe, i, "weight", 1, model));
  return computed(lead, models, context, (name, tensor) => {
    if (isEmpty(tensor)) return undefined;
    const terms = models.map((operand, i) => ({ operand, weight: weights[i]?.(name) ?? 1 }));
    const found = statisticsOf(name, models, shapeOf(tensor));
    if (!found) return average(name, terms, context).value;
    const parts = found.map(({ value: statistics }, i): WithStatistics => {
      const { operand, weight } = terms[i] as (typeof terms)[number];
      return { value: tensorOf(operand, name).value, statistics, weight };
    });
    return merge(parts, tensor);
  });
}
