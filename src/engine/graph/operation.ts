// What every operation declares: the type of its result and its derivative.
import type { Graph } from "./graph.js";
import { type Attributes, type ElementType, GraphError, type Node, type TensorType } from "./node.js";

export interface Operation<A extends Attributes = Attributes> {
  readonly name: string;
  /**
   * Type of the result.
   * @throws GraphError if the operands do not fit
   */
  infer(inputs: readonly Node[], attributes: A): TensorType;
  /**
   * The vector-Jacobian product: what `gradient`, of the node's shape, adds to the gradient of each input, in the input's
   * shape; undefined where there is no derivative. Only the `wanted` ones need to be built.
   */
  derive(graph: Graph, node: Node, gradient: Node, wanted: readonly boolean[]): readonly (Node | undefined)[];
  /** A simpler node with the same value, if there is one. */
  simplify?(graph: Graph, inputs: readonly Node[], attributes: A): Node | undefined;
}

/**
 * Checks that there is one operand for each of these, of a type that it names.
 * @throws GraphError if there is not
 */
export function requireOperands(
  op: string,
  inputs: readonly Node[],
  ...types: readonly (ElementType | readonly ElementType[])[]
): void {
  if (inputs.length !== types.length) {
    const count = types.length === 1 ? "1 operand" : `${types.length} operands`;
    throw new GraphError(op, `takes ${count}, not ${inputs.length}`, inputs);
  }
  for (const [i, allowed] of types.map((type) => [type].flat()).entries()) {
    const { dtype } = inputs[i] as Node;
    if (allowed.includes(dtype)) continue;
    throw new GraphError(op, `operand ${i + 1} is ${dtype}; it takes ${allowed.join(" or ")} there`, inputs);
  }
}

/** Types of operands that are moved or compared. */
export const ANY: readonly ElementType[] = ["f32", "i64", "bool"];

/** Of operations on indices and conditions. */
export function noDerivative(): readonly undefined[] {
  return [];
}
