export type Shape = readonly number[];

/** Number of elements; a scalar (empty shape) has one. Exact as long as the product is a safe integer. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis]);
}

/** `[4096, 1024]`, as PyTorch prints it. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}
