// Weights by the inverse magnitude of what an expert changed (Bandarkar et al., arXiv 2410.01335).
import { CheckpointError, elementCount, type Shape } from "../../kit/index.js";
import type { Weight } from "../../tensor/expressions/index.js";
import { defineCombination, type Totals } from "../../tensor/measurements/index.js";
import { isMeasurable, type Operand, type PlanContext, tensorOf } from "./operand.js";

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
      tensors: counted.map(([name, { shape }]) => rowsOf(shape, tensorOf(base, name).transposed)),
    }),
  });
  return { measured, inverse: true };
}

/**
 * Number of rows of a tensor and of elements per row. A row is an input feature: a weight [out, in] has `in` rows, each of
 * `out`; a vector is one row. Matrices stacked along leading axes count separately.
 * @param transposed whether the matrix is stored [in, out]
 */
function rowsOf(shape: Shape, transposed = false): Rows {
  if (shape.length < 2) return { rows: 1, length: shape[0] ?? 1 };
  const [length = 1, width = 1] = transposed ? shape.slice(-2).reverse() : shape.slice(-2);
  return { rows: elementCount(shape.slice(0, -2)) * width, length };
}
