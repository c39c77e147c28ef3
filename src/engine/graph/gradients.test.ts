// Derivatives of graphs as a whole: what is derived and what is not, where several uses meet, rows apart from what is
// dense.
import { describe, expect, it } from "vitest";
import { draw } from "../../../test/support/graph-cases.js";
import { evaluate, type Value } from "../../../test/support/graph-reference.js";
import type { DecoderSpec } from "../../families/index.js";
import { Random } from "../../kit/random.js";
import { buildDecoder, type Decoder } from "../model/decoder-graph.js";
import { FEEDS } from "../model/feeds.js";
import { gradients, reachable, splitRows } from "./gradients.js";
import { Graph } from "./graph.js";
import type { Node } from "./node.js";

const vector = (...values: number[]): Value => ({ shape: [values.length], data: Float64Array.from(values) });
const all = (node: Node) => node.shape.map((_, axis) => axis);

describe("a gradient", () => {
  it("adds up over all uses of a tensor", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["n"]);
    const gradientOf = (y: Node) => {
      const [gradient] = gradients(graph, graph.sum(y, all(y)), [x]);
      // x too, as a gradient that is a number for all elements does not know how many they are.
      return [...(evaluate([gradient as Node, x], new Map([["x", vector(3, -2)]]))[0]?.data ?? [])];
    };
    expect(gradientOf(graph.add(x, x))).toEqual([2, 2]);
    expect(gradientOf(graph.sub(x, x))).toEqual([0, 0]);
    expect(gradientOf(graph.mul(x, x))).toEqual([6, -4]);
    expect(gradientOf(graph.div(x, x))).toEqual([0, 0]);
    expect(gradientOf(graph.mul(graph.mul(x, x), graph.add(x, 1)))).toEqual([33, 8]); // 3 x^2 + 2 x
    expect(gradientOf(graph.concat([x, x, x], 0))).toEqual([3, 3]);
    expect(gradientOf(graph.mul(graph.reshape(x, ["n", 1]), x))).toEqual([2, 2]); // (a + b)^2, and a + b = 1
  });

  it("of a tensor by itself is 1", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", []);
    const y = graph.exp(x);
    expect(gradients(graph, x, [x])).toEqual([graph.constant(1)]);
    expect(gradients(graph, y, [y, x])).toEqual([graph.constant(1), y]);
    expect(evaluate([x], new Map([["x", { shape: [], data: Float64Array.of(7) }]]))[0]?.data).toEqual(
      Float64Array.of(7),
    );
  });

  it("exists for intermediate tensors", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["n"]);
    const middle = graph.tanh(x);
    const loss = graph.sum(graph.mul(middle, middle), [0]);
    const [first, second, ofX] = gradients(graph, loss, [middle, middle, x]);
    expect(first).toBe(second);
    const found = evaluate([first as Node, ofX as Node], new Map([["x", vector(0.5)]]));
    const t = Math.tanh(0.5);
    expect(found[0]?.data[0]).toBeCloseTo(2 * t, 14);
    expect(found[1]?.data[0]).toBeCloseTo(2 * t * (1 - t * t), 14);
  });

  it("is undefined for tensors that the scalar does not depend on", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["n"]);
    const y = graph.input("y", "f32", ["n"]);
    const ids = graph.input("ids", "i64", ["n"]);
    const above = graph.add(graph.sum(x, [0]), 3);
    const loss = graph.mul(graph.sum(graph.mul(x, graph.cast(ids, "f32")), [0]), 2);
    expect(gradients(graph, loss, [y, ids, above, graph.constant(5)])).toEqual(Array(4).fill(undefined));
    expect(gradients(graph, loss, [])).toEqual([]);
    expect(gradients(graph, graph.constant(2), [x])).toEqual([undefined]);
    // Only through a comparison, which is flat.
    const steps = graph.sum(graph.where(graph.less(x, y), 1, 0), [0]);
    expect(gradients(graph, steps, [x, y])).toEqual([undefined, undefined]);
  });

  it("needs a scalar", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", [1]);
    expect(() => gradients(graph, x, [x])).toThrow("gradients: takes a scalar (f32[1])");
    const count = graph.input("count", "i64", []);
    expect(() => gradients(graph, count, [x])).toThrow("gradients: takes a scalar (i64[])");
  });

  it("does not exist for the tables of a rotation", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", [1, 1, 2, 2]);
    const table = graph.input("table", "f32", [2, 1]);
    const positions = graph.constant([0, 1], [1, 2], "i64");
    const loss = graph.sum(graph.rope(x, positions, table, graph.constant([0, 0], [2, 1]), false), [0, 1, 2, 3]);
    expect(() => gradients(graph, loss, [table])).toThrow("rope: its tables are constants; they have no gradient");
  });

  it("is finite where only the branch not taken is infinite", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["n"]);
    const safe = graph.where(
      graph.less(graph.constant(0), x),
      graph.log(graph.where(graph.less(graph.constant(0), x), x, 1)),
      0,
    );
    const [gradient] = gradients(graph, graph.sum(safe, [0]), [x]);
    expect(evaluate([gradient as Node], new Map([["x", vector(-1, 0, 4)]]))[0]?.data).toEqual(
      Float64Array.of(0, 0, 0.25),
    );
  });

  it("is precise far from zero", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["n"]);
    const at = vector(-1e17, -800, 30, 1e4, 1e17);
    const slopes = (y: Node) => {
      const [gradient] = gradients(graph, graph.sum(y, [0]), [x]);
      return [...(evaluate([gradient as Node], new Map([["x", at]]))[0]?.data ?? [])].map((slope) => slope + 0);
    };
    for (const y of [graph.silu(x), graph.gelu(x), graph.gelu(x, "tanh"), graph.relu(x)]) {
      const wanted = [0, 0, 1, 1, 1];
      for (const [i, slope] of slopes(y).entries()) expect(slope).toBeCloseTo(wanted[i] as number, 10);
    }
    for (const y of [graph.tanh(x), graph.erf(x), graph.sigmoid(x)]) {
      for (const slope of slopes(y)) expect(Math.abs(slope)).toBeLessThan(1e-12);
    }
  });
});

/** A decoder with grouped keys, norms of queries, caps and a tied head: as many operations as one can have. */
function specOf(layers: number, tied = true): DecoderSpec {
  const weight = (name: string, ...shape: number[]) => ({ weight: { name, shape } });
  return {
    family: "test",
    vocabularySize: 5,
    hidden: 4,
    heads: 2,
    kvHeads: 1,
    headDim: 2,
    feedForward: 3,
    contextLength: 8,
    embeddingScale: 2,
    norm: { kind: "rms", eps: 0.1, offset: 1 },
    layout: "sequential",
    attention: {
      scale: 0.5,
      softcap: 3,
      qkNorm: { kind: "rms", eps: 0.1, offset: 0, over: "head" },
      valueNorm: null,
      growth: { factor: 0.5, every: 2 },
      gated: false,
    },
    activation: "silu",
    residualScale: 0.5,
    logitScale: 0.5,
    logitSoftcap: 4,
    recurrence: null,
    routing: null,
    ropes: [
      { pairs: "half", dimensions: 2, frequencies: Float64Array.of(1), attentionFactor: 1, theta: 1, scaling: null },
    ],
    layers: Array.from({ length: layers }, (_, i) => ({
      window: i % 2 === 0 ? 2 : null,
      rope: 0,
      kvHeads: 1,
      headDim: 2,
      valueDim: 2,
      weights: {
        q: { ...weight(`${i}.q`, 4, 4), bias: { name: `${i}.q.bias`, shape: [4] } },
        k: weight(`${i}.k`, 2, 4),
        v: weight(`${i}.v`, 2, 4),
        o: weight(`${i}.o`, 4, 4),
        qNorm: weight(`${i}.qNorm`, 2),
        gate: weight(`${i}.gate`, 3, 4),
        up: weight(`${i}.up`, 3, 4),
        down: weight(`${i}.down`, 4, 3),
        beforeAttention: weight(`${i}.norm`, 4),
        beforeFeedForward: weight(`${i}.norm2`, 4),
      },
    })),
    embedding: { name: "embedding", shape: [5, 4] },
    finalNorm: weight("norm", 4),
    head: tied ? null : { name: "head", shape: [5, 4] },
  };
}

/** The mean loss of a decoder's rows. */
function lossOf({ graph, logits }: Decoder): Node {
  const losses = graph.crossEntropy(logits, graph.input("labels", "i64", ["rows"]));
  return graph.sum(graph.mul(losses, graph.input("shares", "f32", ["rows"])), [0]);
}

const weightsOf = ({ graph, weights }: Decoder, ofLayer = "") =>
  [...weights.keys()].filter((name) => name.startsWith(ofLayer)).map((name) => graph.inputs.get(name) as Node);

describe("derivatives of a decoder", () => {
  it("of the top layer cost the same for any number of layers below", () => {
    const costs = [1, 2, 5].map((layers) => {
      const decoder = buildDecoder(specOf(layers, false));
      const loss = lossOf(decoder);
      const forward = new Set(reachable([loss]));
      const before = decoder.graph.size;
      const found = gradients(decoder.graph, loss, weightsOf(decoder, `${layers - 1}.`)) as Node[];
      const derived = reachable(found).filter((node) => !forward.has(node));
      // Nothing of these goes down into the layers below or on to the embedding.
      const read = new Set(derived.flatMap(({ inputs }) => inputs.map(({ attributes }) => attributes.name)));
      const below = weightsOf(decoder).map(({ attributes }) => attributes.name as string);
      expect(
        below.filter((name) => read.has(name) && /^[0-9]/.test(name) && !name.startsWith(`${layers - 1}.`)),
      ).toEqual([]);
      expect([read.has("embedding"), read.has("head"), read.has(FEEDS.ids)]).toEqual([false, true, false]);
      return { derived: derived.length, made: decoder.graph.size - before };
    });
    expect(costs[1]).toEqual(costs[0]);
    expect(costs[2]).toEqual(costs[0]);
  });

  it("of a feed-forward part do not reach the attention below it", () => {
    const decoder = buildDecoder(specOf(2, false));
    const loss = lossOf(decoder);
    const forward = new Set(reachable([loss]));
    const [gradient] = gradients(decoder.graph, loss, [decoder.graph.inputs.get("1.down") as Node]);
    const derived = reachable([gradient as Node]).filter((node) => !forward.has(node));
    expect(derived.map(({ op }) => op)).not.toContain("rope");
    expect(derived.flatMap(({ inputs }) => inputs.map(({ attributes }) => attributes.name))).not.toContain("1.up");
  });
});

describe("rows of a gradient", () => {
  const graph = new Graph();
  const table = graph.input("table", "f32", [4, 2]);
  const ids = graph.input("ids", "i64", ["n"]);
  const more = graph.input("more", "i64", ["batch", "n"]);
  const feeds = new Map<string, Value>([
    ["table", draw({ shape: [4, 2], contents: "normal" }, new Map(), Random.of(1, "table"))],
    ["ids", { shape: [3], data: Float64Array.of(3, 1, 3) }],
    ["more", { shape: [2, 3], data: Float64Array.of(0, 1, 1, 1, 3, 0) }],
  ]);

  /** The gradient of a scalar by the table, apart, and whether the parts add up to the whole. */
  function split(scalar: Node) {
    const gradient = gradients(graph, scalar, [table])[0] as Node;
    const parts = splitRows(graph, gradient);
    const whole = evaluate([gradient], feeds)[0] as Value;
    const sum = Float64Array.from(
      parts.dense ? (evaluate([parts.dense], feeds)[0] as Value).data : new Float64Array(8),
    );
    for (const row of parts.rows) {
      const [at, values] = evaluate([row.ids, row.values], feeds) as [Value, Value];
      expect(row.ids.shape.length).toBe(1);
      at.data.forEach((id, i) => {
        for (let j = 0; j < 2; j++) sum[id * 2 + j] = (sum[id * 2 + j] as number) + (values.data[i * 2 + j] as number);
      });
    }
    for (const [i, value] of sum.entries()) expect(value).toBeCloseTo(whole.data[i] as number, 12);
    expect(whole.data.some((value) => value !== 0)).toBe(true);
    if (parts.dense) expect(reachable([parts.dense]).map(({ op }) => op)).not.toContain("scatterRows");
    return { rows: parts.rows.length, dense: parts.dense !== undefined };
  }

  const read = graph.gather(table, ids);
  const total = (x: Node) => graph.sum(graph.mul(x, x), all(x));

  it("are the whole gradient of an embedding", () => {
    expect(split(total(read))).toEqual({ rows: 1, dense: false });
    expect(split(graph.add(total(read), graph.sum(graph.tanh(graph.gather(table, more)), [0, 1, 2])))).toEqual({
      rows: 2,
      dense: false,
    });
  });

  it("come with a dense part for a table that is also the head", () => {
    const logits = graph.matmul(read, table, { transB: true });
    expect(split(graph.sum(graph.crossEntropy(logits, ids), [0]))).toEqual({ rows: 1, dense: true });
    const twice = graph.add(total(logits), graph.add(total(graph.gather(table, more)), total(graph.exp(table))));
    expect(split(twice)).toEqual({ rows: 2, dense: true });
  });

  it("do not exist without gather, or for a computed table", () => {
    expect(split(total(graph.tanh(table)))).toEqual({ rows: 0, dense: true });
    const gradient = gradients(graph, total(graph.gather(graph.tanh(table), ids)), [table])[0] as Node;
    expect(splitRows(graph, gradient)).toEqual({ dense: gradient, rows: [] });
  });

  it("are not separated from a sum that broadcasts", () => {
    const repeated = graph.add(graph.scatterRows(ids, read, 4), graph.input("row", "f32", [2]));
    expect(splitRows(graph, repeated)).toEqual({ dense: repeated, rows: [] });
  });
});
