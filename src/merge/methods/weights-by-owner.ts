// Measures which expert owns each layer or module, by its change relative to the base, as weights of the experts.
import { z } from "zod";
import { groupBy } from "../../core/index.js";
import { blockOf } from "../../weights/index.js";
import { average, isMeasurable, type Operand, type OperandTensor, type PlanContext, tensorOf } from "./operand.js";

interface OwnershipOptions {
  /** Names all that the weights depend on. */
  readonly id: string;
  /** Unit of ownership: a layer, or its attention and its feed-forward separately. */
  readonly by: "layer" | "module";
  /** How a unit's change combines its tensors' changes: sum, or root of the sum of squares. */
  readonly sum: "sum" | "root";
  /** Weights of the experts in every unit, unit by unit. @param sizes of changes, [units][experts] */
  readonly weigh: (sizes: readonly (readonly number[])[]) => readonly number[];
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
    combine: (totals) => {
      let at = 0;
      const sizes = [...groups.values()].map(({ length }) =>
        experts.map(() => {
          const own = totals.slice(at, at + length);
          at += length;
          const ratios = own.map(({ sumSquares: x, sumSquaresOfB: y }) => (y > 0 ? Math.sqrt(x / y) : 0));
          return sum === "sum"
            ? ratios.reduce((total, ratio) => total + ratio, 0)
            : Math.sqrt(ratios.reduce((total, ratio) => total + ratio * ratio, 0));
        }),
      );
      return weigh(sizes);
    },
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

/** For two experts: the one whose share is larger by more than tau owns the group, else they are blended. */
export function shareWeights(sizes: readonly (readonly number[])[], tau: number, alpha: number): number[] {
  return sharesOf(sizes).flatMap(([first = 0, second = 0]) => {
    const difference = first - second;
    return difference > tau ? [1, 0] : difference < -tau ? [0, 1] : [alpha, 1 - alpha];
  });
}

/**
 * The expert with the largest share owns the group, the first on a tie, if it leads the next by `margin` of that; otherwise
 * the last one, which is the base, or all do alike.
 */
export function dominantWeights(
  sizes: readonly (readonly number[])[],
  margin: number,
  otherwise: "base" | "average",
): number[] {
  return sharesOf(sizes).flatMap((shares) => {
    const largest = shares.indexOf(Math.max(...shares));
    const next = Math.max(0, ...shares.filter((_, expert) => expert !== largest));
    const isOwned = (shares[largest] ?? 0) >= (1 + margin) * next;
    if (!isOwned && otherwise === "average") return shares.map(() => 1);
    const owner = isOwned ? largest : shares.length - 1;
    return shares.map((_, expert) => (expert === owner ? 1 : 0));
  });
}
