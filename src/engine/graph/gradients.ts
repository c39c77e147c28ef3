// Reverse-mode differentiation as a transformation of graphs: derivatives are nodes of the same graph.
import { sameDims } from "./dim.js";
import { type Graph, OPERATIONS } from "./graph.js";
import { GraphError, type Node } from "./node.js";

/**
 * The gradients of a scalar with respect to tensors. Only nodes between them and the scalar are derived.
 * @returns one node per tensor, of its shape; undefined for a tensor that the scalar does not depend on
 * @throws GraphError if `of` is not a float without axes
 */
export function gradients(graph: Graph, of: Node, withRespectTo: readonly Node[]): (Node | undefined)[] {
  if (of.dtype !== "f32" || of.shape.length > 0) throw new GraphError("gradients", "takes a scalar", [of]);
  return derived(graph, of, graph.constant(1), withRespectTo, new Set());
}

/** What a gradient of a node adds to the gradients of these tensors, each of which counts as independent of the others. */
export function pullBack(graph: Graph, of: Node, gradient: Node, to: readonly Node[]): (Node | undefined)[] {
  return derived(graph, of, gradient, to, new Set(to));
}

/** @param ends nodes whose operands are not derived */
function derived(
  graph: Graph,
  of: Node,
  seed: Node,
  withRespectTo: readonly Node[],
  ends: ReadonlySet<Node>,
): (Node | undefined)[] {
  const order = nodesBetween(of, withRespectTo);
  const onPath = new Set(order);
  const gradientOf = new Map<Node, Node>([[of, seed]]);
  for (const node of order.reverse()) {
    const gradient = gradientOf.get(node);
    const operation = OPERATIONS.get(node.op);
    if (!gradient || !operation || ends.has(node)) continue;
    const wanted = node.inputs.map((input) => onPath.has(input));
    if (!wanted.includes(true)) continue;
    const parts = operation.derive(graph, node, gradient, wanted);
    node.inputs.forEach((input, i) => {
      const part = wanted[i] ? parts[i] : undefined;
      if (!part) return;
      if (!sameDims(part.shape, input.shape))
        throw new GraphError(node.op, "its derivative has another shape", [part, input]);
      const known = gradientOf.get(input);
      gradientOf.set(input, known ? graph.add(known, part) : part);
    });
  }
  return withRespectTo.map((node) => gradientOf.get(node));
}

/** Nodes that depend on one of the tensors and that the scalar depends on, in the order of computation. */
function nodesBetween(of: Node, from: readonly Node[]): Node[] {
  const sources = new Set(from);
  return reachable([of]).filter((node) => {
    if (!sources.has(node) && !node.inputs.some((input) => sources.has(input))) return false;
    sources.add(node);
    return true;
  });
}

/**
 * All nodes that these depend on, in the order of computation.
 * @param given nodes whose operands are left out; default none
 */
export function reachable(outputs: readonly Node[], given?: ReadonlyMap<Node, unknown>): Node[] {
  const seen = new Set<Node>();
  const stack = [...outputs];
  for (let node = stack.pop(); node; node = stack.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (!given?.has(node)) stack.push(...node.inputs);
  }
  return [...seen].sort((a, b) => a.id - b.id);
}

/** Names of the inputs that these depend on. @param given see `reachable` */
export function inputsOf(outputs: readonly Node[], given?: ReadonlyMap<Node, unknown>): Set<string> {
  return new Set(
    reachable(outputs, given).flatMap(({ op, attributes }) => (op === "input" ? [String(attributes.name)] : [])),
  );
}

/** Rows that are added to a table at ids. */
export interface RowGradient {
  /** [N] */
  readonly ids: Node;
  /** [N, D] */
  readonly values: Node;
}

/** A gradient as a dense part and rows that are added to it, which avoids a table of zeros. */
export interface SplitGradient {
  readonly dense: Node | undefined;
  readonly rows: readonly RowGradient[];
}

/** Separates the scattered rows of a gradient, which come from an embedding, from its dense part. */
export function splitRows(graph: Graph, gradient: Node): SplitGradient {
  if (gradient.op === "scatterRows") {
    const [ids, values] = gradient.inputs as [Node, Node];
    return { dense: undefined, rows: [{ ids, values }] };
  }
  // An operand that is broadcast counts several times.
  const isSum = gradient.op === "add" && gradient.inputs.every(({ shape }) => sameDims(shape, gradient.shape));
  if (!isSum) return { dense: gradient, rows: [] };
  const [a, b] = gradient.inputs.map((input) => splitRows(graph, input)) as [SplitGradient, SplitGradient];
  const rows = [...a.rows, ...b.rows];
  if (rows.length === 0) return { dense: gradient, rows };
  return { dense: a.dense && b.dense ? graph.add(a.dense, b.dense) : (a.dense ?? b.dense), rows };
}
