// Measures which expert owns each layer or module, by its change relative to the base, as weights of the experts.
import { z } from "zod";
import { blockOf } from "../../formats/checkpoint/index.js";
import { groupBy } from "../../kit/index.js";
import type { Combine, Totals } from "../../tensor/measurements/index.js";
import { average, isMeasurable, type Operand, type OperandTensor, type PlanContext, tensorOf } from "./operand.js";

/** What changes were measured of. */
export interface Units {
  /** Number of tensors of each unit. */
  readonly units: readonly number[];
  readonly experts: number;
  /** How a unit's change combines its tensors' changes: sum, or root of the sum of squares. */
  readonly sum: "sum" | "root";
}

interface OwnershipOptions extends Pick<Units, "sum"> {
  /** Names all that the weights depend on. */
  readonly id: string;
  /** Unit of ownership: a layer, or its attention and its feed-forward separately. */
  readonly by: "layer" | "module";
  /** Weights of the experts in every unit, unit by unit. */
  readonly weigh: (units: Units) => Combine<Totals, readonly number[]>;
}

/** The unit that owners are found of. */
export const unitField = (usual: "layer" | "module") =>
  z
    .enum(["layer", "module"])
    .default(usual)
    .describe("unit to decide on: a whole layer, or its attention and its feed-forward separately");

/**
 * A model in which each layer or module is averaged over the experts by measured weights, mostly 0 and 1.
 * @param experts the first says which tensors there are
 * @param outside makes the tensors in no layer
 */
export function mergeByOwner(
  experts: readonly Operand[],
  base: Operand,
  { id, by, sum, weigh }: OwnershipOptions,
  outside: (name: string) => OperandTensor,
  context: PlanContext,
): Map<string, OperandTensor> {
  const groupOf = ({ layer, part }: OperandTensor) => (by === "layer" ? `${layer}` : `${layer} ${blockOf(part)}`);
  const inLayers = [...base.tensors].filter(([, tensor]) => tensor.layer !== null && isMeasurable(tensor));
  const groups = groupBy(inLayers, ([, tensor]) => groupOf(tensor));
  const changes = [...groups.values()].flatMap((tensors) =>
    experts.flatMap((expert) =>
      tensors.map(([name, { value }]) => ({ value: tensorOf(expert, name).value, base: value })),
    ),
  );
  const { measured } = context.measure({
    id,
    kind: "ownership",
    label: "shares",
    values: changes.map(({ value }) => value),
    minus: changes.map(({ base }) => base),
    combine: weigh({ units: [...groups.values()].map(({ length }) => length), experts: experts.length, sum }),
  });
  const order = [...groups.keys()];
  return new Map(
    [...(experts[0] as Operand).tensors].map(([name, tensor]) => {
      const group = tensor.layer === null ? -1 : order.indexOf(groupOf(tensor));
      if (group < 0) return [name, outside(name)];
      const weightOf = (i: number) => ({ measured, at: group * experts.length + i });
      return [
        name,
        average(
          name,
          experts.map((operand, i) => ({ operand, weight: weightOf(i) })),
          context,
        ),
      ];
    }),
  );
}

/** Sizes of changes, [units][experts]. A tensor's is relative to the base. */
export function sizesOf(totals: Totals, { units, experts, sum }: Units): number[][] {
  let at = 0;
  return units.map((length) =>
    Array.from({ length: experts }, () => {
      const own = totals.slice(at, at + length);
      at += length;
      const ratios = own.map(({ sumSquares: x, sumSquaresOfB: y }) => (y > 0 ? Math.sqrt(x / y) : 0));
      return sum === "sum"
        ? ratios.reduce((total, ratio) => total + ratio, 0)
        : Math.sqrt(ratios.reduce((total, ratio) => total + ratio * ratio, 0));
    }),
  );
}

/** Each expert's sizes as shares of their sum. `sizes[group][expert]` */
export function sharesOf(sizes: readonly (readonly number[])[]): number[][] {
  const experts = sizes[0]?.length ?? 0;
  const totals = Array.from({ length: experts }, (_, expert) =>
    sizes.reduce((sum, group) => sum + (group[expert] ?? 0), 0),
  );
  return sizes.map((group) =>
    group.map((size, expert) => ((totals[expert] ?? 0) > 0 ? size / (totals[expert] ?? 1) : 0)),
  );
}
