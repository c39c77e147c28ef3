// The builder: equal nodes are shared, simplification keeps values, and operands that do not fit are refused.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Choose, draw } from "../../../test/support/graph-cases.js";
import { EVALUATIONS, evaluate, resolveDim, type Value } from "../../../test/support/graph-reference.js";
import { Random } from "../../kit/random.js";
import type { Dim } from "./dim.js";
import { Graph } from "./graph.js";
import { type Attributes, GraphError, type Node } from "./node.js";

const scalar = (node: Node) => (node.attributes.values as readonly number[])[0];

describe("equal nodes", () => {
  it("are one node", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["batch", 4]);
    const y = graph.input("y", "f32", [4]);
    const build = () => graph.softmax(graph.matmul(graph.mul(x, y), graph.transpose(x, [1, 0]), { alpha: 0.5 }));
    const once = build();
    const size = graph.size;
    expect(build()).toBe(once);
    expect(graph.size).toBe(size);
    expect(graph.input("x", "f32", ["batch", 4])).toBe(x);
    expect(graph.constant([1, 2], [2])).toBe(graph.constant([1, 2], [2]));
  });

  it("need the same operands, attributes, values and types", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", [2, 2]);
    const y = graph.input("y", "f32", [2, 2]);
    const different = [
      graph.sub(x, y),
      graph.sub(y, x),
      graph.matmul(x, y),
      graph.matmul(x, y, { transA: true }),
      graph.matmul(x, y, { transB: true }),
      ...[2, -2, 0, -0, Infinity, -Infinity, Number.NaN].map((alpha) => graph.matmul(x, y, { alpha })),
      ...[0, -0, 1, 2 ** -24, Infinity, Number.NaN].map((value) => graph.constant(value)),
      graph.constant([1]), // as 1
      graph.constant([1], [1]),
      graph.constant([1, 2], [2]),
      graph.constant([12], [1]),
      graph.constant([1, 2], [1, 2]),
      graph.constant([1, 2], [2], "i64"),
      graph.sum(x, [0]),
      graph.sum(x, [1]),
      graph.sum(x, [1], true),
      graph.gelu(x),
      graph.gelu(x, "tanh"),
      graph.slice(x, 0, 0, 1),
      graph.slice(x, 0, 1, 2),
      graph.slice(x, 1, 0, 1),
      graph.pad(x, 1, 0, 3),
      graph.pad(x, 1, 1, 3),
      graph.reshape(x, [4]),
      graph.reshape(x, [1, 4]),
      graph.cast(x, "i64"),
      graph.cast(x, "bool"),
    ];
    expect(new Set(different).size).toBe(different.length - 1);
  });

  it("have equal sizes in any notation", () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["time*batch", 3]);
    expect(graph.input("x", "f32", ["batch*time", 3])).toBe(x);
    const apart = graph.reshape(x, ["batch", "time", "3"]);
    expect(apart.shape).toEqual(["batch", "time", 3]);
    expect(graph.reshape(apart, ["time*3*batch"])).toBe(graph.reshape(apart, ["3*batch*time"]));
    const y = graph.input("y", "f32", ["time+past"]);
    expect(graph.slice(y, 0, "past", "time+past").shape).toEqual(["time"]);
    expect(graph.slice(y, -1, 0, "past+time")).toBe(y);
    expect(graph.expand(graph.constant(1), ["time+past"])).toBe(graph.expand(graph.constant(1), ["past+time"]));
  });
});

describe("shapes under broadcasting", () => {
  const shapeOf = (...shapes: Dim[][]) => {
    const graph = new Graph();
    const [a, b, c] = shapes.map((shape, i) => graph.input(`x${i}`, "f32", shape)) as [Node, Node, Node | undefined];
    const flag = graph.less(a, b);
    return c ? graph.where(flag, c, c).shape : flag.shape;
  };

  it("are those of NumPy", () => {
    expect(shapeOf([], [])).toEqual([]);
    expect(shapeOf([2, 1, 3], ["time", 1])).toEqual([2, "time", 3]);
    expect(shapeOf(["batch", 1], [1, "batch"])).toEqual(["batch", "batch"]);
    expect(shapeOf([1, 1], [5])).toEqual([1, 5]);
    expect(shapeOf([0, 1], [1, 3])).toEqual([0, 3]);
    expect(shapeOf([3], [2, 1], [4, 1, 1])).toEqual([4, 2, 3]);
  });

  it("exist only where sizes are equal or 1", () => {
    for (const shapes of [
      [[2], [3]],
      [[0], [2]],
      [["batch"], ["time"]],
      [["batch"], [2]],
      [["2*batch"], ["batch"]],
    ]) {
      expect(() => shapeOf(...(shapes as Dim[][]))).toThrow("less: the shapes do not fit together");
    }
  });
});

describe("simplification", () => {
  const graph = new Graph();
  const x = graph.input("x", "f32", ["batch", 3]);
  const row = graph.input("row", "f32", [3]);
  const block = graph.input("block", "f32", [2, 3, 4]);

  it("returns the operand where nothing changes", () => {
    const same: [string, Node][] = [
      ["x + 0", graph.add(x, 0)],
      ["0 + x", graph.add(graph.constant(0), x)],
      ["x - 0", graph.sub(x, 0)],
      ["1 x", graph.mul(graph.constant(1), x)],
      ["x 1", graph.mul(x, 1)],
      ["x / 1", graph.div(x, 1)],
      ["(x 4) 0.25", graph.mul(graph.mul(x, 4), 0.25)],
      ["cast", graph.cast(x, "f32")],
      ["sum over nothing", graph.sum(x, [])],
      ["sum over axes of size 1", graph.reshape(graph.sum(graph.reshape(x, ["batch", 1, 3]), [1]), ["batch", 3])],
      ["reshape", graph.reshape(graph.reshape(x, [3, "batch", 1]), ["batch", 3])],
      ["transpose", graph.transpose(graph.transpose(x, [1, 0]), [1, 0])],
      ["slice", graph.slice(x, 0, 0, "batch")],
      ["pad", graph.pad(x, 1, 0, 3)],
      ["concat", graph.concat([x], 0)],
      ["expand", graph.expand(x, ["batch", 3])],
      ["sumTo", graph.sumTo(x, ["batch", 3])],
    ];
    for (const [what, node] of same) expect([what, node]).toEqual([what, x]);
  });

  it("joins two steps", () => {
    expect(graph.mul(graph.mul(x, 2), 3).inputs[0]).toBe(x);
    expect(graph.reshape(graph.reshape(x, ["3*batch"]), [3, "batch"]).inputs[0]).toBe(x);
    const turned = graph.transpose(graph.transpose(block, [1, 2, 0]), [0, 2, 1]);
    expect([turned.inputs[0], turned.attributes.axes, turned.shape]).toEqual([block, [1, 0, 2], [3, 2, 4]]);
    expect(graph.mul(x, graph.expand(row, ["batch", 3]))).toBe(graph.mul(x, row));
    expect(graph.less(graph.expand(row, ["batch", 3]), x)).toBe(graph.less(row, x));
  });

  it("keeps shape and value", () => {
    expect(graph.add(row, graph.constant([0, 0, 0, 0, 0, 0], [2, 3])).shape).toEqual([2, 3]);
    expect(graph.mul(graph.constant(1), graph.constant([1], [1])).shape).toEqual([1]);
    expect(graph.mul(row, graph.expand(graph.constant(2), ["batch", 3])).shape).toEqual(["batch", 3]);
    // 1e-30 1e30 1e30 is 1e30; the product of the last two is infinite, and that of two small ones 0.
    const feeds = (value: number) => new Map([["row", { shape: [3], data: new Float64Array(3).fill(value) }]]);
    const grown = graph.mul(graph.mul(row, 1e30), 1e30);
    expect(evaluate([grown], feeds(1e-30))[0]?.data[0]).toBeCloseTo(1e30, -20);
    const shrunk = graph.mul(graph.mul(row, 1e-30), 1e-30);
    expect(evaluate([shrunk], feeds(1e30))[0]?.data[0]).toBeCloseTo(1e-30, 40);
  });

  it("folds constants in float32", () => {
    expect(scalar(graph.exp(graph.constant(1)))).toBe(Math.fround(Math.E));
    expect(scalar(graph.sub(1, 3))).toBe(-2);
    expect(scalar(graph.div(1, 3))).toBe(Math.fround(1 / 3));
    expect(scalar(graph.div(-1, 0))).toBe(Number.NEGATIVE_INFINITY);
    expect(scalar(graph.log(graph.constant(-1)))).toBe(Number.NaN);
    expect(scalar(graph.sqrt(graph.add(graph.constant(2), 2)))).toBe(2);
    expect(scalar(graph.neg(graph.constant(0)))).toBe(-0);
    expect(graph.less(graph.constant(1), graph.constant(2)).op).toBe("less");
  });
});

/** A node, and its value computed operation by operation, with nothing simplified. */
interface Both {
  readonly node: Node;
  readonly value: Value;
}

it("keeps the value of random graphs", () => {
  // As nothing but constants is rounded, to 6e-8 of their value, and nothing here takes differences of large numbers.
  const tolerance = 1e-5;
  let simplified = 0;
  const property = fc.property(fc.gen(), fc.integer({ min: 1, max: 3 }), fc.nat(), (generator, batch, seed) => {
    const choose = new Choose(generator);
    const graph = new Graph();
    const sizes = new Map([["batch", batch]]);
    const size = (dim: Dim) => resolveDim(dim, sizes);
    const feeds = new Map<string, Value>();
    const input = (name: string, shape: Dim[]): Both => {
      const value = draw({ shape, contents: "positive" }, sizes, Random.of(seed, name));
      feeds.set(name, value);
      return { node: graph.input(name, "f32", shape), value };
    };
    let steps = 0;
    const apply = (op: string, operands: readonly Both[], attributes: Attributes = {}): Both => {
      const inputs = operands.map(({ value }) => value);
      const node = graph.apply(
        op,
        operands.map((operand) => operand.node),
        attributes,
      );
      steps++;
      return { node, value: EVALUATIONS[op]?.(inputs, attributes as never, size) as Value };
    };
    const constant = (value: number): Both => {
      return { node: graph.constant(value), value: { shape: [], data: Float64Array.of(value) } };
    };
    const row = input("row", [3, 1]);
    let x = input("x", ["batch", 3, 2]);
    for (let step = choose.number(1, 12); step > 0; step--) {
      const number = () => {
        const plain = constant(choose.of([0, 1, 2, 0.5, -1, 3]));
        return choose.flag() ? plain : apply(choose.of(["neg", "tanh", "relu", "sigmoid"]), [plain]);
      };
      const either = (a: Both, b: Both) => (choose.flag() ? [a, b] : [b, a]);
      const [full, width] = [x.node.shape, x.node.shape.length];
      const isWhole = full.join() === "batch,3,2";
      const kind = choose.number(0, 8);
      if (kind <= 1) x = apply(choose.of(["add", "mul", "sub"]), either(x, number()));
      else if (kind === 2) x = apply("div", [x, constant(choose.of([1, 2, -0.5]))]);
      else if (kind === 3 && isWhole)
        x = apply(choose.of(["add", "mul"]), either(x, apply("expand", [row], { shape: full })));
      else if (kind === 4) x = apply("transpose", [x], { axes: choose.order(width) });
      else if (kind === 5) x = apply("reshape", [x], { shape: choose.regrouped(full) });
      else if (kind === 6 && width > 0) {
        const axis = choose.number(0, width - 1);
        x = apply(choose.of(["slice", "pad"]), [x], { axis, range: [0, full[axis] as Dim] });
      } else if (kind === 7) {
        const axes = full.flatMap((dim, axis) => (dim === 1 && choose.flag() ? [axis] : []));
        x = apply("sum", [x], { axes, keep: choose.flag() });
      } else if (kind === 8) x = apply("cast", [apply("expand", [x], { shape: full })], { to: "f32" });
    }
    const [value] = evaluate([x.node], feeds);
    expect(value?.shape).toEqual(x.value.shape);
    const wrong = [...x.value.data].filter((wanted, i) => {
      return !(Math.abs((value?.data[i] as number) - wanted) <= tolerance * (1 + Math.abs(wanted)));
    });
    expect(wrong).toEqual([]);
    if (graph.size < steps) simplified++;
  });
  fc.assert(property, { numRuns: 150 });
  expect(simplified).toBeGreaterThan(20);
});

describe("errors", () => {
  const graph = new Graph();
  const float = graph.input("float", "f32", ["batch", 4]);
  const whole = graph.input("whole", "i64", ["batch"]);
  const flag = graph.input("flag", "bool", ["batch", 4]);
  const rank4 = graph.input("rank4", "f32", ["batch", 2, "time", 4]);
  const places = graph.input("places", "i64", ["batch", "time"]);
  const table = graph.input("table", "f32", ["rows", 2]);
  const of = (op: string, inputs: Node[], attributes: Attributes = {}) => graph.apply(op, inputs, attributes);

  const problems: [string, () => unknown][] = [
    ["nothing: there is no such operation", () => of("nothing", [])],
    [
      "input: float is declared twice, with different types (f32[batch, 4], i64[batch, 4])",
      () => graph.input("float", "i64", ["batch", 4]),
    ],
    [
      "input: -1 is not a size; a size is a whole number or an expression such as 2*batch",
      () => graph.input("y", "f32", [-1]),
    ],
    [
      "reshape: 1.5 is not a size; a size is a whole number or an expression such as 2*batch",
      () => graph.reshape(float, [1.5]),
    ],
    [
      "slice: -1 is not a size; a size is a whole number or an expression such as 2*batch",
      () => graph.slice(float, 1, -1, 2),
    ],
    ["constant: 2 values do not fill [3]", () => graph.constant([1, 2], [3])],
    ["constant: 6 values do not fill [-2, -3]", () => graph.constant([1, 2, 3, 4, 5, 6], [-2, -3])],
    ["constant: i64 takes whole numbers, not 0.5", () => graph.constant(0.5, [], "i64")],
    ["exp: takes 1 operand, not 2 (f32[batch, 4], i64[batch])", () => of("exp", [float, whole])],
    ["exp: operand 1 is i64; it takes f32 there (i64[batch])", () => graph.exp(whole)],
    ["softmax: takes 1 operand, not 0", () => of("softmax", [])],
    ["add: takes 2 operands, not 1 (f32[batch, 4])", () => of("add", [float])],
    ["add: operand 1 is i64; it takes f32 there (i64[batch], f32[])", () => graph.add(whole, 1)],
    [
      "less: operand 2 is bool; it takes f32 or i64 there (f32[batch, 4], bool[batch, 4])",
      () => graph.less(float, flag),
    ],
    ["less: the operands have different types (f32[batch, 4], i64[batch])", () => graph.less(float, whole)],
    ["and: operand 1 is f32; it takes bool there (f32[batch, 4], bool[batch, 4])", () => graph.and(float, flag)],
    ["add: the shapes do not fit together (f32[batch, 4], f32[rows, 2])", () => graph.add(float, table)],
    ["where: operand 1 is f32; it takes bool there (f32[batch, 4], f32[], f32[])", () => graph.where(float, 1, 2)],
    ["where: the operands have different types (bool[batch, 4], i64[batch], f32[])", () => graph.where(flag, whole, 1)],
    ["cast: there is no type f64 (f32[batch, 4])", () => of("cast", [float], { to: "f64" })],
    ["gelu: there is no approximation erf (f32[batch, 4])", () => of("gelu", [float], { approximate: "erf" })],
    ["gelu: operand 1 is i64; it takes f32 there (i64[batch])", () => graph.gelu(whole)],
    ["matmul: takes operands of two axes or more (f32[batch, 4], f32[])", () => graph.matmul(float, graph.constant(1))],
    ["matmul: the inner sizes 4 and rows differ (f32[batch, 4], f32[rows, 2])", () => graph.matmul(float, table)],
    [
      "matmul: the leading axes do not fit together (f32[batch, 2, time, 4], f32[2, batch, 4, 1])",
      () => graph.matmul(rank4, graph.input("m", "f32", [2, "batch", 4, 1])),
    ],
    ["sum: [2] are not axes of it, each once (f32[batch, 4])", () => graph.sum(float, [2])],
    ["sum: [-1] are not axes of it, each once (f32[batch, 4])", () => graph.sum(float, [-3])],
    ["sum: [1, 1] are not axes of it, each once (f32[batch, 4])", () => graph.sum(float, [1, -1])],
    ["sum: operand 1 is i64; it takes f32 there (i64[batch])", () => graph.sum(whole, [0])],
    [
      "meanLast: the last axis has no fixed size (f32[batch])",
      () => graph.meanLast(graph.input("v", "f32", ["batch"])),
    ],
    ["softmax: takes a tensor with at least one axis (f32[])", () => graph.softmax(graph.constant(1))],
    ["reshape: [batch, 5] has another number of elements (f32[batch, 4])", () => graph.reshape(float, ["batch", 5])],
    ["transpose: [1, 1] is not an order of its axes (f32[batch, 4])", () => graph.transpose(float, [1, 1])],
    ["transpose: [0] is not an order of its axes (f32[batch, 4])", () => graph.transpose(float, [0])],
    ["slice: has no axis 2 (f32[batch, 4])", () => graph.slice(float, 2, 0, 1)],
    ["slice: has no axis -1 (f32[batch, 4])", () => graph.slice(float, -3, 0, 1)],
    ["slice: 2 to 5 is out of range (f32[batch, 4])", () => graph.slice(float, 1, 2, 5)],
    ["slice: 0 to 1+batch is out of range (f32[batch, 4])", () => graph.slice(float, 0, 0, "1+batch")],
    ["slice: the size from 3 to 2 is not known (f32[batch, 4])", () => graph.slice(float, 1, 3, 2)],
    ["slice: the size from 1 to batch is not known (f32[batch, 4])", () => graph.slice(float, 0, 1, "batch")],
    ["pad: has no axis 2 (f32[batch, 4])", () => graph.pad(float, 2, 0, 9)],
    ["pad: does not fit into 5 from 2 (f32[batch, 4])", () => graph.pad(float, -1, 2, 5)],
    ["pad: does not fit into batch from 1 (f32[batch, 4])", () => graph.pad(float, 0, 1, "batch")],
    ["pad: operand 1 is i64; it takes f32 there (i64[batch])", () => graph.pad(whole, 0, 0, "2*batch")],
    ["concat: there is no axis 0", () => graph.concat([], 0)],
    ["concat: there is no axis -1 (f32[batch, 4])", () => graph.concat([float], -3)],
    ["concat: the parts do not fit together (f32[batch, 4], f32[rows, 2])", () => graph.concat([float, table], 0)],
    ["concat: the parts do not fit together (f32[batch, 4], bool[batch, 4])", () => graph.concat([float, flag], 0)],
    ["expand: cannot fill [4] (f32[batch, 4])", () => graph.expand(float, [4])],
    ["expand: cannot fill [batch, 5] (f32[batch, 4])", () => graph.expand(float, ["batch", 5])],
    ["gather: operand 2 is f32; it takes i64 there (f32[rows, 2], f32[batch, 4])", () => graph.gather(table, float)],
    ["gather: takes a table of two axes (f32[batch, 2, time, 4], i64[batch])", () => graph.gather(rank4, whole)],
    ["scatterRows: takes ids [N] and rows [N, D] (i64[batch], f32[rows, 2])", () => graph.scatterRows(whole, table, 3)],
    ["pick: operand 1 is i64; it takes f32 there (i64[batch, time], i64[batch])", () => graph.pick(places, whole)],
    ["pick: takes rows [N, V], and ids [N] or [N, k] (f32[rows, 2], i64[batch])", () => graph.pick(table, whole)],
    ["argMax: takes a tensor with at least one axis (f32[])", () => graph.argMax(graph.constant(1))],
    ["oneHot: operand 1 is f32; it takes i64 there (f32[batch, 4])", () => graph.oneHot(float, 3)],
    [
      "rmsNorm: the weight does not fit the last axis (f32[batch, 4], f32[rows, 2])",
      () => graph.rmsNorm(float, table, 0),
    ],
    ["rmsNorm: operand 1 is i64; it takes f32 there (i64[batch], f32[batch, 4])", () => graph.rmsNorm(whole, float, 0)],
    [
      "inverseRms: takes a last axis whose size is a number, and not 0 (f32[4, batch])",
      () => graph.inverseRms(graph.transpose(float, [1, 0]), 0),
    ],
    [
      "inverseRms: takes a last axis whose size is a number, and not 0 (f32[0])",
      () => graph.inverseRms(graph.constant([], [0]), 0),
    ],
    [
      "inverseRms: takes a last axis whose size is a number, and not 0 (f32[])",
      () => graph.inverseRms(graph.constant(1), 0),
    ],
    [
      "crossEntropy: takes logits [N, V] and labels [N] (f32[rows, 2], i64[batch])",
      () => graph.crossEntropy(table, whole),
    ],
  ];

  it.each(problems)("%s", (message, build) => {
    expect(build).toThrow(GraphError);
    expect(build).toThrow(message);
  });

  it("rotations of other shapes", () => {
    const refusal = /^rope: takes x \[B, H, T, D\], positions \[B, T\] and tables \[P, R\/2\]/;
    const wide = graph.input("wide", "f32", ["rows", 3]);
    const other = graph.input("other", "f32", [7, 2]);
    expect(graph.rope(rank4, places, table, table, false).shape).toEqual(rank4.shape);
    expect(() => graph.rope(rank4, places, wide, wide, false)).toThrow(refusal);
    expect(() => graph.rope(rank4, places, table, other, false)).toThrow(refusal);
    expect(() => graph.rope(rank4, graph.transpose(places, [1, 0]), table, table, false)).toThrow(refusal);
    expect(() => graph.rope(rank4, graph.reshape(places, ["batch*time"]), table, table, false)).toThrow(refusal);
    expect(() => graph.rope(float, places, table, table, false)).toThrow(refusal);
  });

  it("has the code and the types of its operands", () => {
    const error = (() => {
      try {
        return graph.exp(whole);
      } catch (caught) {
        return caught;
      }
    })();
    expect(error).toMatchObject({ code: "graph", name: "GraphError", where: { actual: "i64[batch]" } });
  });
});
