// Measures which expert owns each layer or module, as weights of the experts.

import { groupBy } from "../../core/index.js";
import type { OwnershipMeasurement, Weight } from "../../values/index.js";
import { blockOf } from "../../weights/index.js";
import { isMeasurable, type Operand, type OperandTensor, type PlanContext, tensorOf } from "./operand.js";

/** Unit of ownership: a layer, or its attention and its feed-forward separately. */
export type OwnedBy = "layer" | "module";

/**
 * Measures owners.
 * @returns the experts' weights in a tensor's layer or module; undefined for tensors in no layer
 */
export function measureOwners(
  experts: readonly Operand[],
  base: Operand,
  options: { readonly id: string; readonly by: OwnedBy } & Pick<OwnershipMeasurement, "rule" | "sum">,
  context: PlanContext,
): (tensor: OperandTensor) => Weight[] | undefined {
  const { id, by, rule, sum } = options;
  const groupOf = ({ layer, part }: OperandTensor) => (by === "layer" ? `${layer}` : `${layer} ${blockOf(part)}`);
  const inLayers = [...base.tensors].filter(([, tensor]) => tensor.layer !== null && isMeasurable(tensor));
  const groups = groupBy(inLayers, ([, tensor]) => groupOf(tensor));
  const { measured } = context.measure({
    id,
    kind: "ownership",
    label: "shares",
    rule,
    sum,
    groups: [...groups].map(([name, tensors]) => ({
      name: `layer ${name}`,
      tensors: tensors.map(([tensor, { value }]) => ({
        base: value,
        experts: experts.map((expert) => tensorOf(expert, tensor).value),
      })),
    })),
  });
  const order = [...groups.keys()];
  return (tensor) => {
    const group = tensor.layer === null ? -1 : order.indexOf(groupOf(tensor));
    return group < 0 ? undefined : experts.map((_, i) => ({ measured, at: group * experts.length + i }));
  };
}
