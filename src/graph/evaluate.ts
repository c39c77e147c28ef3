// The reference evaluation of a graph, in float64 and plain loops: what derivatives and runtimes are checked against. Not
// for models of any size.
import { resolveDim, symbolsOf } from "./dim.js";
import { reachable } from "./gradients.js";
import { GraphError, type Node } from "./node.js";
import type { Value } from "./operation.js";
import { OPERATIONS } from "./operations/index.js";

/**
 * Values of nodes.
 * @param feeds values of the inputs by name; they give the symbols of shapes their numbers
 * @throws {GraphError} if an input is missing or does not have its shape
 */
export function evaluate(outputs: readonly Node[], feeds: ReadonlyMap<string, Value>): Value[] {
  const nodes = reachable(outputs);
  const sizes = new Map<string, number>();
  for (const node of nodes) {
    if (node.op === "input") bindSizes(node, feeds.get(node.attributes.name as string), sizes);
  }
  const context = { size: (dim: number | string) => resolveDim(dim, sizes) };
  const values = new Map<Node, Value>();
  for (const node of nodes) {
    if (node.op === "input") {
      values.set(node, feeds.get(node.attributes.name as string) as Value);
    } else if (node.op === "constant") {
      const data = Float64Array.from(node.attributes.values as readonly number[]);
      values.set(node, { shape: node.shape as readonly number[], data });
    } else {
      const inputs = node.inputs.map((input) => values.get(input) as Value);
      values.set(node, OPERATIONS.get(node.op)?.evaluate(inputs, node.attributes, context) as Value);
    }
  }
  return outputs.map((output) => values.get(output) as Value);
}

/** Learns what symbols are from an input's shape. */
function bindSizes(node: Node, value: Value | undefined, sizes: Map<string, number>): void {
  const name = node.attributes.name as string;
  if (!value) throw new GraphError("input", `${name} is not fed`, [node]);
  node.shape.forEach((dim, axis) => {
    const extent = value.shape[axis];
    const [symbol] = symbolsOf(dim);
    if (extent !== undefined && symbol === dim && !sizes.has(symbol)) sizes.set(symbol, extent);
    if (
      extent === undefined ||
      (symbolsOf(dim).every((known) => sizes.has(known)) && resolveDim(dim, sizes) !== extent)
    ) {
      throw new GraphError("input", `${name} is fed with shape [${value.shape.join(", ")}]`, [node]);
    }
  });
}
