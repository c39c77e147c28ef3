// Operations of decoders that runtimes have fast code for: softmax, norms, rotary positions, the loss.
import { type Dim, sameDims } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { type Operation, requireOperands } from "./operation.js";

const rowwise = (name: string): Operation["infer"] => {
  return (inputs) => {
    requireOperands(name, inputs, "f32");
    const [x] = inputs as [Node];
    if (x.shape.length === 0) throw new GraphError(name, "takes a tensor with at least one axis", inputs);
    return { dtype: "f32", shape: x.shape };
  };
};

const softmax: Operation = {
  name: "softmax",
  infer: rowwise("softmax"),
  // y (g - sum(g y))
  derive: (graph, y, gradient) => [graph.mul(graph.sub(gradient, graph.sum(graph.mul(gradient, y), [-1], true)), y)],
};

const logSoftmax: Operation = {
  name: "logSoftmax",
  infer: rowwise("logSoftmax"),
  // g - softmax(x) sum(g)
  derive: (graph, y, gradient) => [graph.sub(gradient, graph.mul(graph.exp(y), graph.sum(gradient, [-1], true)))],
};

type EpsilonAttributes = { readonly epsilon: number };

const rmsNorm: Operation<EpsilonAttributes> = {
  name: "rmsNorm",
  infer(inputs) {
    requireOperands("rmsNorm", inputs, "f32", "f32");
    const [x, weight] = inputs as [Node, Node];
    if (weight.shape.length !== 1 || weight.shape[0] !== x.shape.at(-1)) {
      throw new GraphError("rmsNorm", "the weight does not fit the last axis", inputs);
    }
    return { dtype: "f32", shape: x.shape };
  },
  // With n = x / rms(x): dx = (g w - n mean(g w n)) / rms(x), dw = sum(g n)
  derive: (graph, node, gradient, wanted) => {
    const [x, weight] = node.inputs as [Node, Node];
    const inverse = graph.inverseRms(x, node.attributes.epsilon as number);
    const normal = graph.mul(x, inverse);
    const dx = () => {
      const weighted = graph.mul(gradient, weight);
      return graph.mul(graph.sub(weighted, graph.mul(normal, graph.meanLast(graph.mul(weighted, normal)))), inverse);
    };
    return [
      wanted[0] ? dx() : undefined,
      wanted[1] ? graph.sumTo(graph.mul(gradient, normal), weight.shape) : undefined,
    ];
  },
};

const inverseRms: Operation<EpsilonAttributes> = {
  name: "inverseRms",
  infer(inputs) {
    requireOperands("inverseRms", inputs, "f32");
    const [x] = inputs as [Node];
    const extent = x.shape.at(-1);
    if (typeof extent !== "number" || extent === 0) {
      throw new GraphError("inverseRms", "takes a last axis whose size is a number, and not 0", inputs);
    }
    return { dtype: "f32", shape: [...x.shape.slice(0, -1), 1] };
  },
  // d(1 / rms)/dx = -x / (D rms^3)
  derive: (graph, r, gradient) => {
    const [x] = r.inputs as [Node];
    const cube = graph.mul(graph.mul(r, r), r);
    return [graph.mul(x, graph.mul(graph.mul(cube, gradient), -1 / (x.shape.at(-1) as number)))];
  },
};

type RopeAttributes = { readonly interleaved: boolean };

const rope: Operation<RopeAttributes> = {
  name: "rope",
  infer(inputs) {
    requireOperands("rope", inputs, "f32", "i64", "f32", "f32");
    const [x, positions, cos, sin] = inputs as [Node, Node, Node, Node];
    const [batch, heads, time, width] = x.shape;
    const half = cos.shape[1];
    const fits =
      x.shape.length === 4 &&
      typeof heads === "number" &&
      sameDims(positions.shape, [batch, time] as Dim[]) &&
      typeof half === "number" &&
      typeof width === "number" &&
      2 * half <= width &&
      cos.shape.length === 2 &&
      sameDims(sin.shape, cos.shape);
    if (!fits) throw new GraphError("rope", "takes x [B, H, T, D], positions [B, T] and tables [P, R/2]", inputs);
    return { dtype: "f32", shape: x.shape };
  },
  // The derivative of a rotation is the inverse rotation.
  derive: (graph, { inputs, attributes }, gradient, wanted) => {
    const [, positions, cos, sin] = inputs as [Node, Node, Node, Node];
    if (wanted[2] || wanted[3]) throw new GraphError("rope", "its tables are constants; they have no gradient", inputs);
    return [graph.rope(gradient, positions, cos, graph.neg(sin), attributes.interleaved as boolean)];
  },
};

const crossEntropy: Operation = {
  name: "crossEntropy",
  infer(inputs) {
    requireOperands("crossEntropy", inputs, "f32", "i64");
    const [logits, labels] = inputs as [Node, Node];
    if (logits.shape.length !== 2 || labels.shape.length !== 1 || logits.shape[0] !== labels.shape[0]) {
      throw new GraphError("crossEntropy", "takes logits [N, V] and labels [N]", inputs);
    }
    return { dtype: "f32", shape: labels.shape };
  },
  // (softmax(logits) - one hot of the label) g
  derive: (graph, { inputs }, gradient) => {
    const [logits, labels] = inputs as [Node, Node];
    const column = graph.reshape(gradient, [gradient.shape[0] as Dim, 1]);
    const shares = graph.exp(graph.logSoftmax(logits));
    return [graph.mul(graph.sub(shares, graph.oneHot(labels, logits.shape[1] as Dim)), column), undefined];
  },
};

export const NETWORK: readonly Operation[] = [softmax, logSoftmax, rmsNorm, inverseRms, rope, crossEntropy].map(
  (operation) => operation as unknown as Operation,
);
