// What every operation declares: the type of its result, its derivative, and its plain meaning in float64.
import type { Dim } from "./dim.js";
import type { Graph } from "./graph.js";
import type { Attributes, Node, TensorType } from "./node.js";

/** A tensor of the reference evaluation: integers and conditions are numbers too. */
export interface Value {
  readonly shape: readonly number[];
  /** Row-major. */
  readonly data: Float64Array;
}

export interface EvaluateContext {
  /** The number that a size is in this evaluation. */
  readonly size: (dim: Dim) => number;
}

export interface Operation<A extends Attributes = Attributes> {
  readonly name: string;
  /**
   * Type of the result.
   * @throws {GraphError} if the operands do not fit
   */
  infer(inputs: readonly Node[], attributes: A): TensorType;
  /**
   * The vector-Jacobian product: what `gradient`, of the node's own shape, adds to the gradient of each input, in the
   * input's shape; undefined where nothing flows. Only those that are `wanted` need to be built.
   */
  derive(graph: Graph, node: Node, gradient: Node, wanted: readonly boolean[]): readonly (Node | undefined)[];
  /** The same in plain float64 loops: what any runtime is compared with. */
  evaluate(inputs: readonly Value[], attributes: A, context: EvaluateContext): Value;
  /** A simpler node of the same value, if there is one. */
  simplify?(graph: Graph, inputs: readonly Node[], attributes: A): Node | undefined;
}

/** For operations on indices and conditions, through which nothing can be derived. */
export function noDerivative(): readonly undefined[] {
  return [];
}
