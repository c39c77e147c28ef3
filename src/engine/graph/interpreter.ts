// The reference evaluation of a graph, in float64 and plain loops: what derivatives and runtimes are checked against. Not
// for models of any size.
import { plural } from "../../core/index.js";
import { product } from "./broadcast.js";
import { type Dim, resolveDim, symbolsOf } from "./dim.js";
import { reachable } from "./gradients.js";
import { GraphError, type Node } from "./node.js";
import type { Value } from "./operation.js";
import { OPERATIONS } from "./operations.js";

/**
 * Values of nodes.
 * @param feeds values of the inputs by name; they give the symbols of shapes their numbers
 * @throws {GraphError} if an input is missing or does not have its shape, a symbol has no value, or an index is out of range
 */
export function evaluate(outputs: readonly Node[], feeds: ReadonlyMap<string, Value>): Value[] {
  const nodes = reachable(outputs);
  const context = { size: sizesOf(nodes, feeds) };
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

/** What sizes are: symbols have the extents of the inputs whose shapes name them. All inputs are checked against that. */
function sizesOf(nodes: readonly Node[], feeds: ReadonlyMap<string, Value>): (dim: Dim) => number {
  const inputs = nodes.filter(({ op }) => op === "input");
  const known = new Map<string, number>();
  for (const node of inputs) {
    const value = feeds.get(node.attributes.name as string);
    if (!value) throw new GraphError("input", `${node.attributes.name} is not fed`, [node]);
    for (const [axis, dim] of node.shape.entries()) {
      const [symbol] = symbolsOf(dim);
      if (symbol === dim && !known.has(symbol)) known.set(symbol, value.shape[axis] ?? 0);
    }
  }
  const size = (dim: Dim) => {
    const unknown = symbolsOf(dim).find((symbol) => !known.has(symbol));
    if (unknown !== undefined) throw new GraphError("input", `no input has an axis of size ${unknown}`, inputs);
    return resolveDim(dim, known);
  };
  for (const node of inputs) {
    const { shape, data } = feeds.get(node.attributes.name as string) as Value;
    const fits = shape.length === node.shape.length && node.shape.every((dim, axis) => size(dim) === shape[axis]);
    if (!fits || data.length !== product(shape)) {
      const fed = `${plural(data.length, "value")} in shape [${shape.join(", ")}]`;
      throw new GraphError("input", `${node.attributes.name} is fed with ${fed}`, [node]);
    }
  }
  return size;
}
