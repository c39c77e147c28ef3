// Attention without a softmax: a state of fixed size that decays, is corrected (delta rule) or only added to, and is read.
// Letters in shapes: B rows, T positions, H heads of values, G of keys, K and V their widths, N chunks, C positions of one.
import { type Dim, divideDim, multiplyDims, sameDims } from "./dim.js";
import { pullBack } from "./gradients.js";
import type { Graph } from "./graph.js";
import { GraphError, type Node } from "./node.js";
import { type Operation, requireOperands } from "./operation.js";

export type LinearAttentionAttributes = {
  /** H, a multiple of G: value head h reads key head floor(h / (H / G)). */
  readonly heads: number;
  /** G. */
  readonly keyHeads: number;
  /** Multiplies what is read. */
  readonly scale: number;
  /** C of the derivative. */
  readonly chunk: number;
  /** Whether the state is corrected by what it already predicts. */
  readonly delta: boolean;
  /** What the node is: [B, T, H V], or the state after the last position, [B, H, K, V]. */
  readonly part: "values" | "state";
};

/**
 * S = exp(decay) S + key^T value; or, with a rate b, + b key^T (value - key exp(decay) S). Read as scale query S.
 * Operands: query and key [B, T, G K], value [B, T, H V], decay [B, T, H], with the delta rule rate [B, T, H], and, where
 * there is one, the state before the first position [B, H, K, V].
 */
const linearAttention: Operation<LinearAttentionAttributes> = {
  name: "linearAttention",
  infer(inputs, { heads, keyHeads, delta, part }) {
    requireOperands("linearAttention", inputs, ...inputs.map(() => "f32" as const));
    const [query, key, value, ...rates] = inputs as [Node, Node, Node, ...Node[]];
    const state = rates[delta ? 2 : 1];
    const [batch, time, wide] = value.shape as [Dim, Dim, number];
    const [K, V] = [(key.shape[2] as number) / keyHeads, wide / heads];
    const fits =
      inputs.length >= (delta ? 5 : 4) &&
      sameDims(query.shape, key.shape) &&
      sameDims(key.shape, [batch, time, K * keyHeads]) &&
      [K, V, heads / keyHeads].every(Number.isInteger) &&
      rates.slice(0, delta ? 2 : 1).every(({ shape }) => sameDims(shape, [batch, time, heads])) &&
      (!state || sameDims(state.shape, [batch, heads, K, V]));
    if (!fits) throw new GraphError("linearAttention", "the operands do not fit together", inputs);
    return { dtype: "f32", shape: part === "values" ? [batch, time, wide] : [batch, heads, K, V] };
  },
  derive(graph, node, gradient) {
    const attributes = node.attributes as LinearAttentionAttributes;
    if (attributes.part === "state" || node.inputs.length > (attributes.delta ? 5 : 4)) {
      throw new GraphError("linearAttention", "has no derivative through its state", node.inputs);
    }
    return pullBack(graph, chunked(graph, node.inputs, attributes), gradient, node.inputs);
  },
};

/**
 * The same values from products of matrices: within chunks all at once, and one step of a recurrence for each chunk
 * (Yang et al. 2024, arXiv 2412.06464, section 3.3; Dao and Gu 2024, arXiv 2405.21060, section 6). Decays are sums of
 * logarithms, never differences of sums, so that a decay to nothing, where a text ends, leaves the others exact.
 */
function chunked(graph: Graph, inputs: readonly Node[], attributes: LinearAttentionAttributes): Node {
  const { heads, keyHeads, scale, chunk: C, delta } = attributes;
  const [batch, time, wide] = (inputs[2] as Node).shape as [Dim, Dim, number];
  const N = divideDim(time, C);
  const group = heads / keyHeads;
  /** [B, T, ...] as [N, B, G, group or 1, C, width], padded with zeros. */
  const cut = (x: Node, perKey: number) => {
    const width = (x.shape[2] as number) / (keyHeads * perKey);
    const padded = graph.pad(x, 1, 0, multiplyDims(N, C));
    return graph.transpose(graph.reshape(padded, [batch, N, C, keyHeads, perKey, width]), [1, 0, 3, 4, 2, 5]);
  };
  const [query, key] = [cut(inputs[0] as Node, 1), cut(inputs[1] as Node, 1)];
  const [value, decay] = [cut(inputs[2] as Node, group), cut(inputs[3] as Node, group)];
  const lower = (from: number) => triangle(graph, C, (i, j) => i - j >= from);
  const [until, after] = [lower(0), lower(1)];
  const fromStart = graph.exp(graph.matmul(until, decay));
  const toEnd = graph.exp(graph.matmul(after, decay, { transA: true }));
  const between = graph.matmul(graph.mul(until, graph.transpose(decay, [0, 1, 2, 3, 5, 4])), after);
  const seen = graph.mul(graph.exp(between), until);
  const whole = graph.exp(graph.sum(decay, [-2], true));
  const shares = graph.mul(graph.matmul(query, key, { transB: true, alpha: scale }), seen);
  const reading = graph.mul(graph.mul(query, scale), fromStart);
  const writing = graph.mul(key, toEnd);
  const write = (values: Node) => graph.matmul(writing, values, { transA: true });

  let read: Node;
  if (delta) {
    const rate = cut(inputs[4] as Node, group);
    const overlap = graph.matmul(key, key, { transB: true });
    const solve = inverseOfUnit(graph, graph.mul(graph.mul(overlap, graph.mul(seen, after)), rate), C);
    const added = graph.matmul(solve, graph.mul(value, rate));
    const predicting = graph.matmul(solve, graph.mul(graph.mul(key, rate), fromStart));
    const kept = graph.mul(
      whole,
      triangle(graph, key.shape[5] as number, (i, j) => i === j),
    );
    const states = graph.recurrence(graph.sub(kept, write(predicting)), write(added));
    const corrected = graph.sub(added, graph.matmul(predicting, states));
    read = graph.add(graph.matmul(shares, corrected), graph.matmul(reading, states));
  } else {
    const states = graph.recurrence(whole, write(value));
    read = graph.add(graph.matmul(shares, value), graph.matmul(reading, states));
  }
  const joined = graph.reshape(graph.transpose(read, [1, 0, 4, 2, 3, 5]), [batch, multiplyDims(N, C), wide]);
  return graph.slice(joined, 1, 0, time);
}

/** A matrix of ones and zeros. */
function triangle(graph: Graph, size: number, isOne: (row: number, column: number) => boolean): Node {
  const at = (i: number) => Number(isOne(Math.floor(i / size), i % size));
  return graph.constant(
    Array.from({ length: size * size }, (_, i) => at(i)),
    [size, size],
  );
}

/**
 * The inverse of I + A for a strictly lower A, from inverses of its diagonal blocks: [P 0; Q R]^-1 has -R^-1 Q P^-1 below.
 * As stable as substitution row by row, where powers of A would overflow.
 */
function inverseOfUnit(graph: Graph, a: Node, size: number): Node {
  let inverse = graph.sub(
    triangle(graph, size, (i, j) => i === j),
    graph.mul(a, blocksBelow(graph, size, 1)),
  );
  for (let block = 2; block < size; block *= 2) {
    const below = graph.mul(a, blocksBelow(graph, size, block));
    inverse = graph.sub(inverse, graph.matmul(graph.matmul(inverse, below), inverse));
  }
  return inverse;
}

/** Ones in the lower left of each pair of diagonal blocks. */
function blocksBelow(graph: Graph, size: number, block: number): Node {
  const of = (i: number) => Math.floor(i / block);
  return triangle(graph, size, (i, j) => of(i) === of(j) + 1 && of(j) % 2 === 0);
}

type RecurrenceAttributes = { readonly reverse: boolean };

/**
 * States before each step of S = M S + B along the first axis, from zero; of the last step first where `reverse`. M is
 * [N, ..., A, A], or [N, ..., 1, 1] where it only scales; B is [N, ..., A, E].
 */
const recurrence: Operation<RecurrenceAttributes> = {
  name: "recurrence",
  infer(inputs) {
    requireOperands("recurrence", inputs, "f32", "f32");
    const [m, b] = inputs as [Node, Node];
    const size = m.shape.at(-1) as Dim;
    const wanted = [...b.shape.slice(0, -2), size, size];
    if (b.shape.length < 3 || !sameDims(m.shape, wanted) || (size !== 1 && size !== b.shape.at(-2))) {
      throw new GraphError("recurrence", "the operands do not fit together", inputs);
    }
    return { dtype: "f32", shape: b.shape };
  },
  // With a_n the derivative by the state before step n: a_n = g_n + M^T a_(n+1), a recurrence from the other end.
  derive(graph, node, gradient, wanted) {
    const [m] = node.inputs as [Node];
    const axes = m.shape.map((_, axis) => axis);
    const turned = graph.transpose(m, [...axes.slice(0, -2), axes.length - 1, axes.length - 2]);
    const back = graph.recurrence(turned, gradient, !node.attributes.reverse);
    const byMatrix = () =>
      m.shape.at(-1) === 1 ? graph.sumTo(graph.mul(back, node), m.shape) : graph.matmul(back, node, { transB: true });
    return [wanted[0] ? byMatrix() : undefined, back];
  },
};

export const LINEAR_ATTENTION: readonly Operation[] = [linearAttention, recurrence].map(
  (operation) => operation as unknown as Operation,
);
