// Shapes under broadcasting, as NumPy defines it: of operands together, and element by element for the reference.
import type { Dim } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import type { Value } from "./operation.js";

/** The shape that operands have together under broadcasting. */
export function broadcast(op: string, inputs: readonly Node[]): Dim[] {
  const rank = Math.max(...inputs.map(({ shape }) => shape.length));
  return Array.from({ length: rank }, (_, axis): Dim => {
    const dims = inputs.map(({ shape }) => shape[axis - (rank - shape.length)] ?? 1).filter((dim) => dim !== 1);
    const [first = 1] = dims;
    if (dims.some((dim) => dim !== first)) throw new GraphError(op, "the shapes do not fit together", inputs);
    return first;
  });
}

/** The shape of values together. */
export function broadcastShapes(shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const extents = shapes.map((shape) => shape[axis - (rank - shape.length)] ?? 1);
    return extents.find((extent) => extent !== 1) ?? 1;
  });
}

/** The elements of a value repeated to fill a shape. */
export function spread({ shape, data }: Value, to: readonly number[]): Float64Array {
  const lead = to.length - shape.length;
  const strides = stridesOf(shape).map((stride, axis) => (shape[axis] === 1 ? 0 : stride));
  const out = new Float64Array(product(to));
  const index = to.map(() => 0);
  let from = 0;
  for (let i = 0; i < out.length; i++) {
    out[i] = data[from] as number;
    for (let axis = to.length - 1; axis >= 0; axis--) {
      const stride = strides[axis - lead] ?? 0;
      index[axis] = (index[axis] as number) + 1;
      from += stride;
      if ((index[axis] as number) < (to[axis] as number)) break;
      from -= stride * (to[axis] as number);
      index[axis] = 0;
    }
  }
  return out;
}

export function product(shape: readonly number[]): number {
  return shape.reduce((all, extent) => all * extent, 1);
}

/** Distance between neighbours along each axis, row-major. */
export function stridesOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => product(shape.slice(axis + 1)));
}
