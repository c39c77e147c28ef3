// Weights by the inverse magnitude of what an expert changed (Bandarkar et al., arXiv 2410.01335).
import { CheckpointError, elementCount } from "../../kit/index.js";
import type { Weight } from "../../tensor/expressions/index.js";
import { defineCombination, rowLayout, type Totals } from "../../tensor/measurements/index.js";
import { isMeasurable, type Operand, type OperandTensor, type PlanContext, tensorOf } from "./operand.js";

interface Rows {
  readonly rows: number;
  /** Elements of a row. */
  readonly length: number;
}

/** The average row MAV over all tensors. */
export const magnitude = defineCombination(
  "magnitude",
  (totals: Totals, { label, tensors }: { readonly label: string; readonly tensors: readonly Rows[] }) => {
    let [sumOfRows, rowCount] = [0, 0];
    for (const [i, { rows, length }] of tensors.entries()) {
      // The rows of a tensor sum to (sum of |delta|) / length.
      sumOfRows += (totals[i]?.sumAbsolute ?? 0) / length;
      rowCount += rows;
    }
    if (sumOfRows > 0) return [sumOfRows / rowCount];
    throw new CheckpointError(
      `${label} is identical to the base, so the inverse of its magnitude is infinite. Check the path, or give weights as numbers.`,
    );
  },
);

/**
 * The weight 1 / magnitude of an expert: the inverse of the average row MAV (mean absolute value) over all its changes, arXiv
 * 2410.01335. The paper does not specify which tensors count; here all floating-point tensors do, each row once.
 */
export function inverseMagnitude(expert: Operand, base: Operand, context: PlanContext): Weight {
  const counted = [...expert.tensors].filter(([, tensor]) => isMeasurable(tensor));
  const { measured } = context.measure({
    id: `magnitude of ${expert.label} against ${base.label}`,
    kind: "magnitude",
    label: expert.label,
    against: base.label,
    values: counted.map(([, { value }]) => value),
    minus: counted.map(([name]) => tensorOf(base, name).value),
    combine: magnitude.with({
      label: expert.label,
      tensors: counted.map(([name]) => rowsOf(name, tensorOf(base, name))),
    }),
  });
  return { measured, inverse: true };
}

/** Number of rows of a tensor and of elements per row. A row is an input feature: a weight [out, in] has `in` rows. */
function rowsOf(tensor: string, { shape, part, transposed }: OperandTensor): Rows {
  const { matrices, axis } = rowLayout({ tensor, shape, part, transposed }, "input");
  const [elements, width] = [elementCount(shape), shape.at(-1) ?? 1];
  const rows = axis === "vector" ? 1 : axis === "rows" ? elements / width : matrices * width;
  return { rows, length: elements / rows };
}
