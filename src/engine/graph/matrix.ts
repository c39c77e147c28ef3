import type { Dim } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { type Operation, requireOperands } from "./operation.js";

type MatmulAttributes = { readonly transA: boolean; readonly transB: boolean; readonly alpha: number };

/** Rows and columns of an operand, transposed if asked. */
function extents<D extends Dim>(shape: readonly D[], transposed: boolean): [D, D] {
  const [rows, columns] = shape.slice(-2) as [D, D];
  return transposed ? [columns, rows] : [rows, columns];
}

function batchOf(op: string, a: Node, b: Node): Dim[] {
  const [x, y] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const rank = Math.max(x.length, y.length);
  return Array.from({ length: rank }, (_, axis): Dim => {
    const [p, q] = [x[axis - (rank - x.length)] ?? 1, y[axis - (rank - y.length)] ?? 1];
    if (p !== q && p !== 1 && q !== 1) throw new GraphError(op, "the leading axes do not fit together", [a, b]);
    return p === 1 ? q : p;
  });
}

const matmul: Operation<MatmulAttributes> = {
  name: "matmul",
  infer(inputs, { transA, transB }) {
    requireOperands("matmul", inputs, "f32", "f32");
    const [a, b] = inputs as [Node, Node];
    if (a.shape.length < 2 || b.shape.length < 2) {
      throw new GraphError("matmul", "takes operands of two axes or more", inputs);
    }
    const [rows, inner] = extents(a.shape, transA);
    const [other, columns] = extents(b.shape, transB);
    if (inner !== other) throw new GraphError("matmul", `the inner sizes ${inner} and ${other} differ`, inputs);
    return { dtype: "f32", shape: [...batchOf("matmul", a, b), rows, columns] };
  },
  derive(graph, node, gradient, wanted) {
    let [a, b] = node.inputs as [Node, Node];
    const { transA, transB, alpha } = node.attributes as MatmulAttributes;
    const [shapeA, shapeB] = [a.shape, b.shape];
    let g = gradient;
    // As one long product, whose gradient is one product too, without a sum over the batch.
    if (shapeB.length === 2 && shapeA.length > 2 && !transA) [a, g] = [graph.flatten(a), graph.flatten(g)];
    const dA = () =>
      transA
        ? graph.matmul(b, g, { transA: transB, transB: true, alpha })
        : graph.matmul(g, b, { transB: !transB, alpha });
    const dB = () =>
      transB
        ? graph.matmul(g, a, { transA: true, transB: transA, alpha })
        : graph.matmul(a, g, { transA: !transA, alpha });
    const sized = (x: Node, shape: readonly Dim[]) =>
      x.shape.length === 2 && shape.length > 2 ? graph.reshape(x, shape) : graph.sumTo(x, shape);
    return [wanted[0] ? sized(dA(), shapeA) : undefined, wanted[1] ? graph.sumTo(dB(), shapeB) : undefined];
  },
};

type SumAttributes = { readonly axes: readonly number[]; readonly keep: boolean };

const sum: Operation<SumAttributes> = {
  name: "sum",
  infer(inputs, { axes, keep }) {
    requireOperands("sum", inputs, "f32");
    const [x] = inputs as [Node];
    if (axes.some((axis, i) => x.shape[axis] === undefined || axes.indexOf(axis) !== i)) {
      throw new GraphError("sum", `[${axes.join(", ")}] are not axes of it, each once`, inputs);
    }
    const shape = keep
      ? x.shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim))
      : x.shape.filter((_, axis) => !axes.includes(axis));
    return { dtype: "f32", shape };
  },
  derive(graph, node, gradient) {
    const [x] = node.inputs as [Node];
    const { axes } = node.attributes as SumAttributes;
    const kept = x.shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim));
    // The gradient of a sum over all axes is a number, which may be constant.
    const lead = kept.every((dim) => dim === 1) ? [] : kept;
    return [graph.expand(graph.reshape(gradient, lead), x.shape)];
  },
  simplify: (graph, [x], { axes, keep }) => {
    if (axes.length === 0) return x;
    // A sum over axes of size 1 changes no value.
    const node = x as Node;
    if (!axes.every((axis) => node.shape[axis] === 1)) return undefined;
    return keep
      ? node
      : graph.reshape(
          node,
          node.shape.filter((_, axis) => !axes.includes(axis)),
        );
  },
};

export const MATRIX: readonly Operation[] = [matmul as unknown as Operation, sum as unknown as Operation];
