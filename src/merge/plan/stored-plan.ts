// Whether a merge of quantised models can copy their codes and scales, instead of writing values.

import { groupBy, isFloatDType } from "../../kit/index.js";
import { flatten, isLeaf, type Leaf, leavesOf, measurementsOf, type Value } from "../../tensor/expressions/index.js";
import type { OpenedPlan } from "./planner.js";

/** Whether all sources are quantised alike and nothing is computed of their codes. */
export function copiesCodes({ plan: { recipe, steps }, sources }: OpenedPlan): boolean {
  const stored = [...sources.values()].map(({ asStored }) => asStored);
  const forms = new Set(stored.map((one) => one && JSON.stringify(one.config.json.quantization_config ?? null)));
  if (forms.size !== 1 || forms.has(undefined)) return false;
  if (recipe.dtype !== "keep" || recipe.as === "adapter" || recipe.vocabulary !== undefined) return false;
  const isCoded = ({ source, tensor }: Leaf) => sources.get(source)?.tensors.get(tensor)?.coded !== undefined;
  return steps.every(({ value }) => copyOf(value) || !leavesOf(value).some(isCoded));
}

/**
 * Whether codes, scales and what else belongs to them are copied, and those of each module from one module of one source.
 * @param values the plan over values: tensors that it has, too, are not quantised
 */
export function keepsTogether(stored: OpenedPlan, values: OpenedPlan): boolean {
  const plain = new Set(values.plan.steps.map(({ tensor }) => tensor));
  const parts = stored.plan.steps.filter(({ tensor, dtype }) => !isFloatDType(dtype) || !plain.has(tensor));
  return [...groupBy(parts, ({ tensor }) => moduleOf(tensor)).values()].every((group) => {
    const origins = group.map(({ value }) => {
      const leaf = copyOf(value);
      return leaf && `${leaf.source} ${moduleOf(leaf.tensor)}`;
    });
    return origins[0] !== undefined && new Set(origins).size === 1;
  });
}

const moduleOf = (tensor: string) => tensor.slice(0, tensor.lastIndexOf("."));

/** The tensor that a value is. */
function copyOf(value: Value): Leaf | undefined {
  if (measurementsOf(value).length > 0) return undefined;
  const [term, ...more] = flatten(value).terms;
  return term && isLeaf(term) && term.weight === 1 && more.length === 0 ? term : undefined;
}
