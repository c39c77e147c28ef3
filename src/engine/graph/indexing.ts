// Operations by index: rows of tables, elements of rows, and their derivatives.
import type { Dim } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { ANY, noDerivative, type Operation, requireOperands } from "./operation.js";

const gather: Operation = {
  name: "gather",
  infer(inputs) {
    requireOperands("gather", inputs, ANY, "i64");
    const [table, ids] = inputs as [Node, Node];
    if (table.shape.length !== 2) throw new GraphError("gather", "takes a table of two axes", inputs);
    return { dtype: table.dtype, shape: [...ids.shape, table.shape[1] as Dim] };
  },
  derive: (graph, { inputs }, gradient) => {
    const [table, ids] = inputs as [Node, Node];
    const flat = graph.reshape(ids, [graph.flatten(gradient).shape[0] as Dim]);
    return [graph.scatterRows(flat, graph.flatten(gradient), table.shape[0] as Dim), undefined];
  },
};

const scatterRows: Operation<{ readonly shape: readonly Dim[] }> = {
  name: "scatterRows",
  infer(inputs, { shape }) {
    requireOperands("scatterRows", inputs, "i64", "f32");
    const [ids, values] = inputs as [Node, Node];
    if (ids.shape.length !== 1 || values.shape.length !== 2 || ids.shape[0] !== values.shape[0]) {
      throw new GraphError("scatterRows", "takes ids [N] and rows [N, D]", inputs);
    }
    return { dtype: "f32", shape: [shape[0] as Dim, values.shape[1] as Dim] };
  },
  derive: (graph, { inputs: [ids] }, gradient) => [undefined, graph.gather(gradient, ids as Node)],
};

const pick: Operation = {
  name: "pick",
  infer(inputs) {
    requireOperands("pick", inputs, "f32", "i64");
    const [x, ids] = inputs as [Node, Node];
    if (x.shape.length !== 2 || ![1, 2].includes(ids.shape.length) || x.shape[0] !== ids.shape[0]) {
      throw new GraphError("pick", "takes rows [N, V], and ids [N] or [N, k]", inputs);
    }
    return { dtype: "f32", shape: ids.shape };
  },
  derive: (graph, { inputs }, gradient) => {
    const [x, ids] = inputs as [Node, Node];
    const each = graph.mul(graph.oneHot(ids, x.shape[1] as Dim), graph.reshape(gradient, [...gradient.shape, 1]));
    return [ids.shape.length === 1 ? each : graph.sum(each, [1]), undefined];
  },
};

const oneHot: Operation<{ readonly shape: readonly Dim[] }> = {
  name: "oneHot",
  infer(inputs, { shape }) {
    requireOperands("oneHot", inputs, "i64");
    const [ids] = inputs as [Node];
    return { dtype: "f32", shape: [...ids.shape, shape[0] as Dim] };
  },
  derive: noDerivative,
};

const argMax: Operation = {
  name: "argMax",
  infer(inputs) {
    requireOperands("argMax", inputs, "f32");
    const [x] = inputs as [Node];
    if (x.shape.length === 0) throw new GraphError("argMax", "takes a tensor with at least one axis", inputs);
    return { dtype: "i64", shape: x.shape.slice(0, -1) };
  },
  derive: noDerivative,
};

export const INDEXING: readonly Operation[] = [gather, scatterRows, pick, oneHot, argMax].map(
  (operation) => operation as unknown as Operation,
);
