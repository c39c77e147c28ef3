// Shapes under broadcasting, as NumPy defines it.
import type { Dim } from "./dim.js";
import { GraphError, type Node } from "./node.js";

/** The shape that operands are broadcast to. */
export function broadcast(op: string, inputs: readonly Node[]): Dim[] {
  const rank = Math.max(...inputs.map(({ shape }) => shape.length));
  return Array.from({ length: rank }, (_, axis): Dim => {
    const dims = inputs.map(({ shape }) => shape[axis - (rank - shape.length)] ?? 1).filter((dim) => dim !== 1);
    const [first = 1] = dims;
    if (dims.some((dim) => dim !== first)) throw new GraphError(op, "the shapes do not fit together", inputs);
    return first;
  });
}
