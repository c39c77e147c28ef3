import { isMatrix, type Part } from "../../formats/checkpoint/index.js";
import type { Shape } from "../../kit/index.js";

/** Whether a tensor is a matrix of a layer, of whatever part: these are the cells and the rows of all figures. */
export function isCounted({
  tensor,
  layer,
  ...rest
}: {
  readonly tensor: string;
  readonly layer: number | null;
  readonly part: Part;
  readonly shape: Shape;
}): boolean {
  return layer !== null && isMatrix(tensor, rest);
}
