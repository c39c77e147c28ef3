// The operations that decoders are made of and runtimes have fast code for: softmax, norms, rotary positions, the loss.
import { product } from "./broadcast.js";
import { type Dim, sameDims } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { indexBelow, type Operation, requireOperands, type Value } from "./operation.js";

/** Calls a function with each row of the last axis, which it may change. */
function eachRow({ shape, data }: Value, change: (row: Float64Array, index: number) => void): Value {
  const width = shape.at(-1) ?? 1;
  const copy = data.slice();
  for (let row = 0; row < copy.length / width; row++) change(copy.subarray(row * width, (row + 1) * width), row);
  return { shape, data: copy };
}

/** The largest element of a row, and the logarithm of the sum of exp(x - largest): apart, as their sum is rounded. */
function logSum(row: Float64Array): { readonly largest: number; readonly rest: number } {
  const largest = row.reduce((most, x) => Math.max(most, x), Number.NEGATIVE_INFINITY);
  return { largest, rest: Math.log(row.reduce((sum, x) => sum + Math.exp(x - largest), 0)) };
}

const rowwise = (name: string): Operation["infer"] => {
  return (inputs) => {
    requireOperands(name, inputs, "f32");
    const [x] = inputs as [Node];
    if (x.shape.length === 0) throw new GraphError(name, "takes what has an axis", inputs);
    return { dtype: "f32", shape: x.shape };
  };
};

const softmax: Operation = {
  name: "softmax",
  infer: rowwise("softmax"),
  // y (g - sum(g y))
  derive: (graph, y, gradient) => [graph.mul(graph.sub(gradient, graph.sum(graph.mul(gradient, y), [-1], true)), y)],
  evaluate: ([x]) =>
    eachRow(x as Value, (row) => {
      const { largest, rest } = logSum(row);
      row.forEach((value, i) => {
        row[i] = Math.exp(value - largest - rest);
      });
    }),
};

const logSoftmax: Operation = {
  name: "logSoftmax",
  infer: rowwise("logSoftmax"),
  // g - softmax(x) sum(g)
  derive: (graph, y, gradient) => [graph.sub(gradient, graph.mul(graph.exp(y), graph.sum(gradient, [-1], true)))],
  evaluate: ([x]) =>
    eachRow(x as Value, (row) => {
      const { largest, rest } = logSum(row);
      row.forEach((value, i) => {
        row[i] = value - largest - rest;
      });
    }),
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
  evaluate: ([x, weight], { epsilon }) =>
    eachRow(x as Value, (row) => {
      const inverse = inverseOf(row, epsilon);
      row.forEach((value, i) => {
        row[i] = value * inverse * (weight?.data[i] as number);
      });
    }),
};

const inverseOf = (row: Float64Array, epsilon: number) =>
  1 / Math.sqrt(row.reduce((sum, x) => sum + x * x, 0) / row.length + epsilon);

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
  evaluate([value], { epsilon }) {
    const x = value as Value;
    const width = x.shape.at(-1) as number;
    const data = Float64Array.from({ length: x.data.length / width }, (_, row) =>
      inverseOf(x.data.subarray(row * width, (row + 1) * width), epsilon),
    );
    return { shape: [...x.shape.slice(0, -1), 1], data };
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
  // A rotation's derivative is the rotation back.
  derive: (graph, { inputs, attributes }, gradient, wanted) => {
    const [, positions, cos, sin] = inputs as [Node, Node, Node, Node];
    if (wanted[2] || wanted[3]) throw new GraphError("rope", "its tables are constants; they have no gradient", inputs);
    return [graph.rope(gradient, positions, cos, graph.neg(sin), attributes.interleaved as boolean)];
  },
  evaluate(inputs, { interleaved }) {
    const [x, positions, cos, sin] = inputs as [Value, Value, Value, Value];
    const [, heads, times] = x.shape as [number, number, number];
    const half = cos.shape[1] as number;
    return eachRow(x, (row, index) => {
      const batch = Math.floor(index / (heads * times));
      const position = positions.data[batch * times + (index % times)] as number;
      const at = indexBelow("rope", position, cos.shape[0] as number);
      for (let i = 0; i < half; i++) {
        const [p, q] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
        const [c, s] = [cos.data[at * half + i] as number, sin.data[at * half + i] as number];
        const [a, b] = [row[p] as number, row[q] as number];
        row[p] = a * c - b * s;
        row[q] = b * c + a * s;
      }
    });
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
  evaluate(inputs) {
    const [logits, labels] = inputs as [Value, Value];
    const width = logits.shape[1] as number;
    const data = labels.data.map((label, row) => {
      const scores = logits.data.subarray(row * width, (row + 1) * width);
      const { largest, rest } = logSum(scores);
      return largest - (scores[indexBelow("crossEntropy", label, width)] as number) + rest;
    });
    return { shape: [product(labels.shape)], data };
  },
};

export const NETWORK: readonly Operation[] = [softmax, logSoftmax, rmsNorm, inverseRms, rope, crossEntropy].map(
  (operation) => operation as unknown as Operation,
);
