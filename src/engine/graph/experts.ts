// Operations of mixtures of experts: which experts rows choose, and products of rows with the matrix of their expert.
import { type Dim, sameDims } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { noDerivative, type Operation, requireOperands } from "./operation.js";

const largest: Operation<{ readonly count: number }> = {
  name: "largest",
  infer(inputs, { count }) {
    requireOperands("largest", inputs, "f32");
    const [x] = inputs as [Node];
    const width = x.shape.at(-1);
    if (typeof width === "number" && count > width) {
      throw new GraphError("largest", `the last axis has fewer than ${count} elements`, inputs);
    }
    return { dtype: "i64", shape: [...x.shape.slice(0, -1), count] };
  },
  derive: noDerivative,
};

const sortOrder: Operation = {
  name: "sortOrder",
  infer(inputs) {
    requireOperands("sortOrder", inputs, "i64");
    const [ids] = inputs as [Node];
    if (ids.shape.length !== 1) throw new GraphError("sortOrder", "takes indices of one axis", inputs);
    return { dtype: "i64", shape: ids.shape };
  },
  derive: noDerivative,
};

const stack: Operation = {
  name: "stack",
  infer(inputs) {
    const [first] = inputs;
    if (!first || inputs.some(({ dtype, shape }) => dtype !== "f32" || !sameDims(shape, first.shape))) {
      throw new GraphError("stack", "takes floats of one shape, at least one", inputs);
    }
    return { dtype: "f32", shape: [inputs.length, ...first.shape] };
  },
  derive: (graph, { inputs }, gradient) =>
    inputs.map(({ shape }, i) => graph.reshape(graph.slice(gradient, 0, i, i + 1), shape)),
};

const expertMatmul: Operation<{ readonly transB: boolean }> = {
  name: "expertMatmul",
  infer(inputs, { transB }) {
    requireOperands("expertMatmul", inputs, "f32", "i64", "f32");
    const [x, ids, matrices] = inputs as [Node, Node, Node];
    const [inner, columns] = transB ? [matrices.shape[2], matrices.shape[1]] : matrices.shape.slice(1);
    const fits =
      x.shape.length === 2 &&
      sameDims(ids.shape, x.shape.slice(0, 1)) &&
      matrices.shape.length === 3 &&
      inner === x.shape[1];
    if (!fits) throw new GraphError("expertMatmul", "takes rows [N, D], ids [N] and matrices [E, D, F]", inputs);
    return { dtype: "f32", shape: [x.shape[0] as Dim, columns as Dim] };
  },
  derive: (graph, { inputs, attributes }, gradient, wanted) => {
    const [x, ids, matrices] = inputs as [Node, Node, Node];
    const transB = attributes.transB as boolean;
    const experts = matrices.shape[0] as Dim;
    const ofMatrices = () =>
      transB ? graph.expertOuter(gradient, x, ids, experts) : graph.expertOuter(x, gradient, ids, experts);
    return [
      wanted[0] ? graph.expertMatmul(gradient, ids, matrices, !transB) : undefined,
      undefined,
      wanted[2] ? ofMatrices() : undefined,
    ];
  },
};

const expertOuter: Operation<{ readonly shape: readonly Dim[] }> = {
  name: "expertOuter",
  infer(inputs, { shape }) {
    requireOperands("expertOuter", inputs, "f32", "f32", "i64");
    const [a, b, ids] = inputs as [Node, Node, Node];
    if (a.shape.length !== 2 || b.shape.length !== 2 || [a, b].some((x) => x.shape[0] !== ids.shape[0])) {
      throw new GraphError("expertOuter", "takes rows [N, D], rows [N, F] and ids [N]", inputs);
    }
    return { dtype: "f32", shape: [shape[0] as Dim, a.shape[1] as Dim, b.shape[1] as Dim] };
  },
  derive: (graph, { inputs }, gradient, wanted) => {
    const [a, b, ids] = inputs as [Node, Node, Node];
    return [
      wanted[0] ? graph.expertMatmul(b, ids, gradient, true) : undefined,
      wanted[1] ? graph.expertMatmul(a, ids, gradient, false) : undefined,
      undefined,
    ];
  },
};

export const EXPERTS: readonly Operation[] = [largest, sortOrder, stack, expertMatmul, expertOuter].map(
  (operation) => operation as unknown as Operation,
);
