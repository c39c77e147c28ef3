// Operations element by element: functions of one operand, and of several with broadcasting.
import { type Dim, sameDims } from "./dim.js";
import type { Graph } from "./graph.js";
import { type ElementType, GraphError, type Node } from "./node.js";
import { ANY, noDerivative, type Operation, requireOperands } from "./operation.js";

/** The shape that operands are broadcast to, as NumPy defines it. */
function broadcast(op: string, inputs: readonly Node[]): Dim[] {
  const rank = Math.max(...inputs.map(({ shape }) => shape.length));
  return Array.from({ length: rank }, (_, axis): Dim => {
    const dims = inputs.map(({ shape }) => shape[axis - (rank - shape.length)] ?? 1).filter((dim) => dim !== 1);
    const [first = 1] = dims;
    if (dims.some((dim) => dim !== first)) throw new GraphError(op, "the shapes do not fit together", inputs);
    return first;
  });
}

/**
 * A function of one float and its derivative, the node being the function's value.
 * @param of computes it for constants; without it they are left to the runtime
 */
function unary(
  name: string,
  of: ((x: number) => number) | undefined,
  slope: (graph: Graph, x: Node, node: Node) => Node,
): Operation {
  return {
    name,
    infer(inputs) {
      requireOperands(name, inputs, "f32");
      return { dtype: "f32", shape: (inputs[0] as Node).shape };
    },
    derive: (graph, node, gradient) => [graph.mul(gradient, slope(graph, node.inputs[0] as Node, node))],
    simplify: (graph, [x]) => {
      const value = scalarOf(x);
      return value === undefined || !of ? undefined : graph.constant(Math.fround(of(value)));
    },
  };
}

function binary(
  name: string,
  of: (a: number, b: number) => number,
  rest: Pick<Operation, "derive" | "simplify"> & { operand: readonly ElementType[]; result: ElementType },
): Operation {
  return {
    name,
    infer(inputs) {
      requireOperands(name, inputs, rest.operand, rest.operand);
      if (inputs[0]?.dtype !== inputs[1]?.dtype)
        throw new GraphError(name, "the operands have different types", inputs);
      return { dtype: rest.result, shape: broadcast(name, inputs) };
    },
    derive: rest.derive,
    simplify: (graph, inputs, attributes) => {
      const [x, y] = inputs.map(scalarOf);
      if (x !== undefined && y !== undefined && rest.result === "f32") return graph.constant(Math.fround(of(x, y)));
      return rest.simplify?.(graph, inputs, attributes) ?? withoutExpand(graph, name, inputs);
    },
  };
}

export function scalarOf(node: Node | undefined): number | undefined {
  if (node?.op !== "constant" || node.shape.length > 0) return undefined;
  return (node.attributes.values as readonly number[])[0];
}

/** Leaves out an expand that broadcasting does without memory. */
function withoutExpand(graph: Graph, name: string, inputs: readonly Node[]): Node | undefined {
  const whole = broadcast(name, inputs);
  for (const [i, node] of inputs.entries()) {
    if (node.op !== "expand") continue;
    const bare = inputs.map((other, j) => (i === j ? (node.inputs[0] as Node) : other));
    if (sameDims(broadcast(name, bare), whole)) return graph.apply(name, bare);
  }
  return undefined;
}

const float = { operand: ["f32"], result: "f32" } as const;
const comparison = { operand: ["f32", "i64"], result: "bool", derive: noDerivative } as const;

const add = binary("add", (a, b) => a + b, {
  ...float,
  derive: (graph, { inputs: [a, b] }, gradient) => [
    graph.sumTo(gradient, (a as Node).shape),
    graph.sumTo(gradient, (b as Node).shape),
  ],
  simplify: (_, inputs) => {
    const [a, b] = inputs as [Node, Node];
    // -0 + 0 is 0; this keeps -0.
    if (scalarOf(b) === 0) return a;
    return scalarOf(a) === 0 ? b : undefined;
  },
});

const sub = binary("sub", (a, b) => a - b, {
  ...float,
  derive: (graph, { inputs: [a, b] }, gradient, wanted) => [
    graph.sumTo(gradient, (a as Node).shape),
    wanted[1] ? graph.neg(graph.sumTo(gradient, (b as Node).shape)) : undefined,
  ],
  simplify: (_, inputs) => (scalarOf(inputs[1]) === 0 ? inputs[0] : undefined),
});

const mul = binary("mul", (a, b) => a * b, {
  ...float,
  derive: (graph, { inputs }, gradient, wanted) => {
    const [a, b] = inputs as [Node, Node];
    return [
      wanted[0] ? graph.sumTo(graph.mul(gradient, b), a.shape) : undefined,
      wanted[1] ? graph.sumTo(graph.mul(gradient, a), b.shape) : undefined,
    ];
  },
  simplify: (graph, inputs) => {
    const [a, b] = inputs as [Node, Node];
    const [x, y] = [scalarOf(a), scalarOf(b)];
    if (y === 1) return a;
    if (x === 1) return b;
    // (a x) y = a (x y), unless x y leaves the normal range of float32, where the values differ.
    const inner = a.op === "mul" ? scalarOf(a.inputs[1]) : undefined;
    if (y === undefined || inner === undefined) return undefined;
    const product = Math.fround(inner * y);
    const isNormal = Number.isFinite(product) && Math.abs(product) >= 2 ** -126;
    return isNormal ? graph.mul(a.inputs[0] as Node, product) : undefined;
  },
});

const div = binary("div", (a, b) => a / b, {
  ...float,
  derive: (graph, node, gradient, wanted) => {
    const [a, b] = node.inputs as [Node, Node];
    const share = graph.div(gradient, b);
    return [
      wanted[0] ? graph.sumTo(share, a.shape) : undefined,
      wanted[1] ? graph.neg(graph.sumTo(graph.mul(share, node), b.shape)) : undefined,
    ];
  },
  simplify: (_, inputs) => (scalarOf(inputs[1]) === 1 ? inputs[0] : undefined),
});

const where: Operation = {
  name: "where",
  infer(inputs) {
    requireOperands("where", inputs, "bool", ["f32", "i64"], ["f32", "i64"]);
    const [, a, b] = inputs as [Node, Node, Node];
    if (a.dtype !== b.dtype) throw new GraphError("where", "the operands have different types", inputs);
    return { dtype: a.dtype, shape: broadcast("where", inputs) };
  },
  derive: (graph, { inputs }, gradient, wanted) => {
    const [condition, a, b] = inputs as [Node, Node, Node];
    return [
      undefined,
      wanted[1] ? graph.sumTo(graph.where(condition, gradient, 0), a.shape) : undefined,
      wanted[2] ? graph.sumTo(graph.where(condition, 0, gradient), b.shape) : undefined,
    ];
  },
};

const cast: Operation<{ readonly to: string }> = {
  name: "cast",
  infer: (inputs, { to }) => {
    requireOperands("cast", inputs, ANY);
    if (!(ANY as readonly string[]).includes(to)) throw new GraphError("cast", `there is no type ${to}`, inputs);
    return { dtype: to as ElementType, shape: (inputs[0] as Node).shape };
  },
  // A cast from float to float is simplified away below.
  derive: noDerivative,
  simplify: (_, [x], { to }) => (x?.dtype === to ? x : undefined),
};

// sqrt(2 / pi), of the approximation of gelu by tanh (arXiv 1606.08415, section 2)
const TANH_SCALE = Math.sqrt(2 / Math.PI);
const TANH_CUBE = 0.044715;

const gelu: Operation<{ readonly approximate: string }> = {
  name: "gelu",
  infer: (inputs, { approximate }) => {
    requireOperands("gelu", inputs, "f32");
    if (!["none", "tanh"].includes(approximate))
      throw new GraphError("gelu", `there is no approximation ${approximate}`, inputs);
    return { dtype: "f32", shape: (inputs[0] as Node).shape };
  },
  derive: (graph, { inputs: [input], attributes }, gradient) => {
    const x = input as Node;
    const square = graph.mul(x, x);
    if (attributes.approximate === "none") {
      // Phi(x) + x phi(x)
      const phi = graph.mul(graph.exp(graph.mul(square, -0.5)), 1 / Math.sqrt(2 * Math.PI));
      const below = graph.mul(graph.add(graph.erf(graph.mul(x, Math.SQRT1_2)), 1), 0.5);
      return [graph.mul(gradient, graph.add(below, graph.mul(x, phi)))];
    }
    const u = graph.mul(graph.mul(x, graph.add(graph.mul(square, TANH_CUBE), 1)), TANH_SCALE);
    const t = graph.tanh(u);
    const slope = graph.mul(graph.add(graph.mul(square, 3 * TANH_CUBE), 1), TANH_SCALE);
    const inner = graph.mul(graph.mul(x, graph.sub(1, graph.mul(t, t))), slope);
    return [graph.mul(gradient, graph.mul(graph.add(graph.add(t, 1), inner), 0.5))];
  },
};

const logistic = (x: number) => 1 / (1 + Math.exp(-x));

export const ELEMENTWISE: readonly Operation[] = [
  unary(
    "neg",
    (x) => -x,
    (graph) => graph.constant(-1),
  ),
  unary("exp", Math.exp, (_graph, _x, node) => node),
  unary("log", Math.log, (graph, x) => graph.reciprocal(x)),
  unary("sqrt", Math.sqrt, (graph, _x, node) => graph.div(0.5, node)),
  unary(
    "reciprocal",
    (x) => 1 / x,
    (graph, _x, node) => graph.neg(graph.mul(node, node)),
  ),
  unary("tanh", Math.tanh, (graph, _x, node) => graph.sub(1, graph.mul(node, node))),
  unary("sigmoid", logistic, (graph, _x, node) => graph.mul(node, graph.sub(1, node))),
  unary("erf", undefined, (graph, x) => graph.mul(graph.exp(graph.neg(graph.mul(x, x))), 2 / Math.sqrt(Math.PI))),
  unary(
    "relu",
    (x) => Math.max(x, 0),
    (graph, x) => graph.where(graph.less(graph.constant(0), x), 1, 0),
  ),
  // s (1 + x - y), with s the logistic function of x and y its product with x. For a large x the equal y + s (1 - y)
  // would be a small difference of large numbers.
  unary(
    "silu",
    (x) => x * logistic(x),
    (graph, x, node) => graph.mul(graph.sigmoid(x), graph.add(graph.sub(x, node), 1)),
  ),
  add,
  sub,
  mul,
  div,
  binary("less", (a, b) => (a < b ? 1 : 0), comparison),
  binary("lessOrEqual", (a, b) => (a <= b ? 1 : 0), comparison),
  binary("equal", (a, b) => (a === b ? 1 : 0), comparison),
  binary("and", (a, b) => (a && b ? 1 : 0), { operand: ["bool"], result: "bool", derive: noDerivative }),
  where,
  cast as unknown as Operation,
  gelu as unknown as Operation,
];
