// The reference against values computed by hand or with Python's math module. runtime/lower.test.ts compares it with ONNX
// Runtime on random values.
import { describe, expect, it } from "vitest";
import { erf, evaluate, type Value } from "../../../test/support/graph-reference.js";
import { Graph } from "./graph.js";
import type { Node } from "./node.js";

/** A small graph of constants, and what it is. */
function computed(build: (graph: Graph) => Node): { shape: readonly number[]; data: number[] } {
  const { shape, data } = evaluate([build(new Graph())], new Map())[0] as Value;
  return { shape, data: [...data] };
}

describe("values of", () => {
  const matrix = [1, 2, 3, 4, 5, 6];
  const cases: [string, (graph: Graph) => Node, number[], number[]][] = [
    [
      "sums that are broadcast",
      (g) => g.add(g.constant([1, 2], [2, 1]), g.constant([10, 20, 30], [3])),
      [2, 3],
      [11, 21, 31, 12, 22, 32],
    ],
    ["differences", (g) => g.sub(g.constant([1, 2], [2]), g.constant([5, 7], [2])), [2], [-4, -5]],
    ["quotients", (g) => g.div(g.constant([1, -1, 0], [3]), 0), [3], [Infinity, -Infinity, Number.NaN]],
    [
      "comparisons",
      (g) =>
        g.and(
          g.lessOrEqual(g.constant([1, 2, 3], [3]), g.constant(2)),
          g.less(g.constant(1), g.constant([1, 2, 3], [3])),
        ),
      [3],
      [0, 1, 0],
    ],
    [
      "equal indices",
      (g) => g.equal(g.constant([1, 2], [2, 1], "i64"), g.constant([2, 1, 1], [3], "i64")),
      [2, 3],
      [0, 1, 1, 1, 0, 0],
    ],
    [
      "choices",
      (g) => g.where(g.constant([1, 0], [2, 1], "bool"), g.constant([1, 2], [2]), -1),
      [2, 2],
      [1, 2, -1, -1],
    ],
    ["casts to indices", (g) => g.cast(g.constant([1.7, -1.7, 0.2], [3]), "i64"), [3], [1, -1, 0]],
    ["casts to conditions", (g) => g.cast(g.constant([0.3, 0, -0, -2], [4]), "bool"), [4], [1, 0, 0, 1]],
    ["a product", (g) => g.matmul(g.constant(matrix, [2, 3]), g.constant(matrix, [3, 2])), [2, 2], [22, 28, 49, 64]],
    [
      "a product, both turned",
      (g) =>
        g.matmul(g.constant(matrix, [3, 2]), g.constant(matrix, [2, 3]), { transA: true, transB: true, alpha: -1 }),
      [2, 2],
      [-22, -49, -28, -64],
    ],
    [
      "products of a batch with one",
      (g) => g.matmul(g.constant(matrix, [3, 1, 2]), g.constant([1, 10], [1, 2]), { transB: true }),
      [3, 1, 1],
      [21, 43, 65],
    ],
    ["a product over nothing", (g) => g.matmul(g.constant([], [2, 0]), g.constant([], [0, 1])), [2, 1], [0, 0]],
    ["a sum", (g) => g.sum(g.constant(matrix, [1, 2, 3]), [0, -1]), [2], [6, 15]],
    ["a sum, kept", (g) => g.sum(g.constant(matrix, [2, 3]), [0], true), [1, 3], [5, 7, 9]],
    ["a sum of nothing", (g) => g.sum(g.constant([], [2, 0]), [1]), [2], [0, 0]],
    ["a mean", (g) => g.meanLast(g.constant(matrix, [2, 3])), [2, 1], [2, 5]],
    ["turned axes", (g) => g.transpose(g.constant(matrix, [1, 2, 3]), [2, 0, 1]), [3, 1, 2], [1, 4, 2, 5, 3, 6]],
    ["a slice", (g) => g.slice(g.constant(matrix, [2, 3]), -1, 1, 3), [2, 2], [2, 3, 5, 6]],
    ["padding", (g) => g.pad(g.constant([1, 2], [2, 1]), 1, 1, 3), [2, 3], [0, 1, 0, 0, 2, 0]],
    [
      "joined parts",
      (g) => g.concat([g.constant([1, 2], [2, 1]), g.constant(matrix.slice(2), [2, 2])], 1),
      [2, 3],
      [1, 3, 4, 2, 5, 6],
    ],
    ["an expansion", (g) => g.expand(g.constant([1, 2], [2, 1]), [2, 2, 2]), [2, 2, 2], [1, 1, 2, 2, 1, 1, 2, 2]],
    [
      "rows",
      (g) => g.gather(g.constant(matrix, [3, 2]), g.constant([2, 0, 2], [3, 1], "i64")),
      [3, 1, 2],
      [5, 6, 1, 2, 5, 6],
    ],
    [
      "added rows",
      (g) => g.scatterRows(g.constant([2, 0, 2], [3], "i64"), g.constant(matrix, [3, 2]), 4),
      [4, 2],
      [3, 4, 0, 0, 6, 8, 0, 0],
    ],
    ["one of each row", (g) => g.pick(g.constant(matrix, [2, 3]), g.constant([2, 0], [2], "i64")), [2], [3, 4]],
    ["one-hot rows", (g) => g.oneHot(g.constant([1, 0], [2], "i64"), 2), [2, 2], [0, 1, 1, 0]],
    ["the best", (g) => g.argMax(g.constant([1, 3, 3, -1, -2, -3], [2, 3])), [2], [1, 0]],
    [
      "the best of what is no number",
      (g) => g.argMax(g.constant([1, Number.NaN, 0, -Infinity, -Infinity, -Infinity], [2, 3])),
      [2],
      [0, 0],
    ],
    ["a norm", (g) => g.rmsNorm(g.constant([3, 4], [2]), g.constant([1, 10], [2]), 12.5), [2], [0.6, 8]],
    [
      "1 over the root mean square",
      (g) => g.inverseRms(g.constant([3, 4, 0, 0], [2, 2]), 3.5),
      [2, 1],
      [0.25, 1 / Math.sqrt(3.5)],
    ],
    // Turns by 90 degrees at position 1, and by none at position 0; the third dimension stays.
    ["halves that turn", (g) => turned(g, false), [1, 1, 2, 5], [-3, -4, 1, 2, 5, 6, 7, 8, 9, 10]],
    ["neighbours that turn", (g) => turned(g, true), [1, 1, 2, 5], [-2, 1, -4, 3, 5, 6, 7, 8, 9, 10]],
  ];

  function turned(g: Graph, interleaved: boolean): Node {
    const [cos, sin] = [g.constant([1, 1, 0, 0], [2, 2]), g.constant([0, 0, 1, 1], [2, 2])];
    const x = g.constant([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [1, 1, 2, 5]);
    return g.rope(x, g.constant([1, 0], [1, 2], "i64"), cos, sin, interleaved);
  }

  it.each(cases)("%s", (_, build, shape, data) => {
    const found = computed(build);
    expect(found.shape).toEqual(shape);
    expect(found.data.length).toBe(data.length);
    for (const [i, x] of found.data.entries()) {
      if (Number.isFinite(data[i])) expect(x).toBeCloseTo(data[i] as number, 12);
      else expect(x).toBe(data[i]);
    }
  });
});

describe("functions", () => {
  it("erf is Python's, to 1e-14", () => {
    const wanted: [number, number][] = [
      [0, 0],
      [1e-300, 1.1283791670955126e-300],
      [0.1, 0.1124629160182849],
      [0.5, 0.5204998778130465],
      [1, 0.8427007929497149],
      [2, 0.9953222650189527],
      [2.49, 0.9995707121322661],
      [2.5, 0.999593047982555],
      [3, 0.9999779095030014],
      [4.5, 0.9999999998033839],
      [6.5, 1],
      [Infinity, 1],
    ];
    for (const [x, y] of wanted) {
      expect(Math.abs(erf(x) - y)).toBeLessThanOrEqual(1e-14 * y);
      expect(erf(-x)).toBe(-erf(x));
    }
    expect(erf(-0)).toBe(-0);
    expect(erf(Number.NaN)).toBe(Number.NaN);
  });

  it("activations have the values of their definitions", () => {
    const graph = new Graph();
    const x = graph.constant([-2, 0, 1, 3], [4]);
    const found = evaluate([graph.gelu(x), graph.gelu(x, "tanh"), graph.silu(x), graph.relu(x)], new Map());
    // x (1 + erf(x / sqrt 2)) / 2; x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; x / (1 + exp(-x)): Python's math
    const wanted = [
      [-0.04550026389635842, 0, 0.8413447460685429, 2.99595030590511],
      [-0.04540230591222494, 0, 0.8411919906082768, 2.996362607918227],
      [-0.23840584404423515, 0, 0.7310585786300049, 2.8577223804672998],
      [0, 0, 1, 3],
    ];
    for (const [i, { data }] of found.entries()) {
      for (const [j, y] of data.entries()) expect(y).toBeCloseTo(wanted[i]?.[j] as number, 14);
    }
  });

  it("softmax and what is made of it hold for numbers of any size", () => {
    const rows = [1000, 1000, 1e30, 1e30, -1e30, -1e30, 1e8, 1e8 - Math.log(3), -1e30, 0];
    const graph = new Graph();
    const x = graph.constant(rows, [5, 2]);
    const labels = graph.constant([0, 1, 0, 1, 1], [5], "i64");
    const outputs = [graph.softmax(x), graph.logSoftmax(x), graph.crossEntropy(x, labels)];
    const [shares, logs, losses] = evaluate(outputs, new Map()).map(({ data }) => [...data]) as [
      number[],
      number[],
      number[],
    ];
    const wanted = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 0.25, 0, 1];
    // ln 3 beside 1e8 is rounded to 1e-8.
    for (const [i, share] of shares.entries()) expect(share).toBeCloseTo(wanted[i] as number, 8);
    expect(logs.slice(0, 6)).toEqual(Array(6).fill(-Math.log(2)));
    expect(losses[3]).toBeCloseTo(Math.log(4), 7);
    expect([losses[0], losses[1], losses[2], losses[4]]).toEqual([Math.log(2), Math.log(2), Math.log(2), 0]);
  });

  it("softmax of what is no number, or infinite, is no number; of -infinity beside a number 0", () => {
    const rows = [Number.NaN, 0, -Infinity, -Infinity, Infinity, 0, -Infinity, 0];
    const { data } = computed((graph) => graph.softmax(graph.constant(rows, [4, 2])));
    expect(data.slice(0, 5).every(Number.isNaN)).toBe(true);
    expect(data.slice(6)).toEqual([0, 1]);
  });
});
