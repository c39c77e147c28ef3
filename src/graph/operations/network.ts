// The operations that decoders are made of and runtimes have fast code for: softmax, norms, rotary positions, the loss.
import { product } from "../broadcast.js";
import type { Dim } from "../dim.js";
import { GraphError, type Node } from "../node.js";
import type { Operation, Value } from "../operation.js";

/** Calls a function with each row of the last axis, which it may change. */
function eachRow({ shape, data }: Value, change: (row: Float64Array, index: number) => void): Value {
  const width = shape.at(-1) ?? 1;
  const copy = data.slice();
  for (let row = 0; row < copy.length / width; row++) change(copy.subarray(row * width, (row + 1) * width), row);
  return { shape, data: copy };
}

function logSum(row: Float64Array): number {
  const largest = row.reduce((most, x) => Math.max(most, x), Number.NEGATIVE_INFINITY);
  return largest + Math.log(row.reduce((sum, x) => sum + Math.exp(x - largest), 0));
}

const rowwise = (name: string): Operation["infer"] => {
  return (inputs) => {
    const [x] = inputs as [Node];
    if (x.dtype !== "f32" || x.shape.length === 0) throw new GraphError(name, "takes floats with an axis", inputs);
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
      const total = logSum(row);
      row.forEach((value, i) => {
        row[i] = Math.exp(value - total);
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
      const total = logSum(row);
      row.forEach((value, i) => {
        row[i] = value - total;
      });
    }),
};

type EpsilonAttributes = { readonly epsilon: number };

const rmsNorm: Operation<EpsilonAttributes> = {
  name: "rmsNorm",
  infer(inputs) {
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
    const [x] = inputs as [Node];
    return { dtype: "f32", shape: [...x.shape.slice(0, -1), 1] };
  },
  // d(1 / rms)/dx = -x / (D rms^3)
  derive: (graph, r, gradient) => {
    const [x] = r.inputs as [Node];
    const extent = x.shape.at(-1);
    if (typeof extent !== "number") throw new GraphError("inverseRms", "the last axis has no fixed size", [x]);
    const cube = graph.mul(graph.mul(r, r), r);
    return [graph.mul(x, graph.mul(graph.mul(cube, gradient), -1 / extent))];
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
    const [x, positions, cos, sin] = inputs as [Node, Node, Node, Node];
    const half = cos.shape[1];
    const width = x.shape.at(-1);
    const fits =
      x.shape.length === 4 &&
      positions.dtype === "i64" &&
      positions.shape.length === 2 &&
      typeof half === "number" &&
      typeof width === "number" &&
      2 * half <= width &&
      sin.shape[1] === half;
    if (!fits) throw new GraphError("rope", "takes x [B, H, T, D], positions [B, T] and tables [P, R/2]", inputs);
    return { dtype: "f32", shape: x.shape };
  },
  // A rotation's derivative is the rotation back.
  derive: (graph, { inputs, attributes }, gradient) => {
    const [, positions, cos, sin] = inputs as [Node, Node, Node, Node];
    return [graph.rope(gradient, positions, cos, graph.neg(sin), attributes.interleaved as boolean)];
  },
  evaluate(inputs, { interleaved }) {
    const [x, positions, cos, sin] = inputs as [Value, Value, Value, Value];
    const [, heads, times] = x.shape as [number, number, number];
    const half = cos.shape[1] as number;
    return eachRow(x, (row, index) => {
      const batch = Math.floor(index / (heads * times));
      const at = positions.data[batch * times + (index % times)] as number;
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
    const [logits, labels] = inputs as [Node, Node];
    if (
      logits.shape.length !== 2 ||
      labels.dtype !== "i64" ||
      labels.shape.length !== 1 ||
      logits.shape[0] !== labels.shape[0]
    ) {
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
      return logSum(scores) - (scores[label] as number);
    });
    return { shape: [product(labels.shape)], data };
  },
};

export const NETWORK: readonly Operation[] = [softmax, logSoftmax, rmsNorm, inverseRms, rope, crossEntropy].map(
  (operation) => operation as unknown as Operation,
);
