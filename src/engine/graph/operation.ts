// What every operation declares: the type of its result, its derivative, and its plain meaning in float64.
import type { Dim } from "./dim.js";
import type { Graph } from "./graph.js";
import { type Attributes, type ElementType, GraphError, type Node, type TensorType } from "./node.js";

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

/**
 * Checks that there is one operand for each of these, of a type that it names.
 * @throws {GraphError} if there is not
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

/** Types of an operand that is only moved. */
export const ANY: readonly ElementType[] = ["f32", "i64", "bool"];

/**
 * An index, checked: the reference does not count from the end, as ONNX does.
 * @throws {GraphError} if there is no such element
 */
export function indexBelow(op: string, index: number, count: number): number {
  if (Number.isInteger(index) && index >= 0 && index < count) return index;
  throw new GraphError(op, `the index ${index} is not one of the ${count} from 0`);
}

/** For operations on indices and conditions, through which nothing can be derived. */
export function noDerivative(): readonly undefined[] {
  return [];
}
