// Whether a merge of quantised models can copy their codes and scales, instead of writing values.

import { quantisationSettings } from "../../formats/checkpoint/index.js";
import { type DType, groupBy, isFloatDType } from "../../kit/index.js";
import { flatten, isLeaf, type Leaf, leavesOf, measurementsOf, type Value } from "../../tensor/expressions/index.js";
import type { OpenedPlan } from "./planner.js";

/** Whether all sources are quantised alike and nothing is computed of their codes. */
export function copiesCodes({ plan: { recipe, steps }, sources }: OpenedPlan): boolean {
  const stored = [...sources.values()].map(({ adapter, asStored }) => (adapter ? undefined : asStored));
  const forms = new Set(stored.map((one) => one && JSON.stringify(quantisationSettings(one.config.json) ?? null)));
  if (forms.size !== 1 || forms.has(undefined)) return false;
  if (recipe.dtype !== "keep" || recipe.as === "adapter" || recipe.vocabulary !== undefined) return false;
  const isCoded = ({ source, tensor }: Leaf) => sources.get(source)?.tensors.get(tensor)?.coded !== undefined;
  return steps.every(({ value }) => copyOf(value) || !leavesOf(value).some(isCoded));
}

/**
 * Whether codes, scales and what else belongs to them are copied, those of each module from one module of one source, and all
 * that it has.
 * @param values the plan over values: tensors that it has, too, are not quantised
 */
export function keepsTogether(stored: OpenedPlan, values: OpenedPlan): boolean {
  const partsIn = <T extends Described>(all: readonly T[], plain: Iterable<string>) => {
    const names = new Set(plain);
    return groupBy(
      all.filter(({ name, dtype }) => !isFloatDType(dtype) || !names.has(name)),
      ({ name }) => moduleOf(name),
    );
  };
  const own = new Map(
    [...stored.sources].map(([id, { tensors }]) => {
      return [id, partsIn([...tensors.values()], values.sources.get(id)?.tensors.keys() ?? [])];
    }),
  );
  const steps = stored.plan.steps.map(({ tensor, dtype, value }) => ({ name: tensor, dtype, leaf: copyOf(value) }));
  const plain = values.plan.steps.map(({ tensor }) => tensor);
  return [...partsIn(steps, plain).values()].every((group) => {
    const leaves = group.flatMap(({ leaf }) => leaf ?? []);
    const [first] = leaves;
    const module = first && moduleOf(first.tensor);
    return (
      leaves.length === group.length &&
      leaves.every(({ source, tensor }) => source === first?.source && moduleOf(tensor) === module) &&
      own.get(first?.source ?? "")?.get(module ?? "")?.length === group.length
    );
  });
}

interface Described {
  readonly name: string;
  readonly dtype: DType;
}

export const moduleOf = (tensor: string) => tensor.slice(0, tensor.lastIndexOf("."));

/** The tensor that a value is. */
export function copyOf(value: Value): Leaf | undefined {
  if (measurementsOf(value).length > 0) return undefined;
  const [term, ...more] = flatten(value).terms;
  return term && isLeaf(term) && term.weight === 1 && more.length === 0 ? term : undefined;
}
