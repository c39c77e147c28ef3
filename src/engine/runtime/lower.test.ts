// Every operation and its derivative as ONNX Runtime computes them, against the reference in float64: on symbolic shapes
// that are bound to several sizes in one session. And what graphs and weights cannot be written.
// @module-tag slow

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CASES, casesOf, draw, dtypeOf, type Operand, TABLE } from "../../../test/support/graph-cases.js";
import { EVALUATIONS, evaluate, type Value } from "../../../test/support/graph-reference.js";
import { bytesOf } from "../../kit/files/index.js";
import { RuntimeError } from "../../kit/index.js";
import { Random } from "../../kit/random.js";
import { gradients, reachable } from "../graph/gradients.js";
import { Graph, OPERATIONS } from "../graph/graph.js";
import type { Node } from "../graph/node.js";
import { lowerGraph, type Weight } from "./lower.js";
import { LOWERINGS } from "./lowerings.js";
import { openSession, type Session, type TensorValue } from "./session.js";

const thread = { threads: 1 };

/** A value as it is fed. */
function tensorOf({ shape, data }: Value, dtype: Node["dtype"]): TensorValue {
  if (dtype === "f32") return { dtype, shape, data: Float32Array.from(data) };
  if (dtype === "i64") return { dtype, shape, data: BigInt64Array.from(data, BigInt) };
  return { dtype, shape, data: Uint8Array.from(data) };
}

const numbersOf = ({ shape, data }: TensorValue): Value => ({ shape, data: Float64Array.from(data as never, Number) });

/** How far values are apart, relative to those above 1; infinite where only one of them is a number. */
function distance(found: Value, wanted: Value): number {
  if (found.shape.join() !== wanted.shape.join()) return Number.POSITIVE_INFINITY;
  return Math.max(
    0,
    ...Array.from(wanted.data, (y, i) => {
      const x = found.data[i] as number;
      if (Object.is(x, Math.fround(y))) return 0;
      return Number.isFinite(x - y) ? Math.abs(x - y) / Math.max(1, Math.abs(y)) : Number.POSITIVE_INFINITY;
    }),
  );
}

/** Outputs of a session and of the reference that are not alike. */
async function differences(
  session: Session,
  outputs: Readonly<Record<string, Node>>,
  feeds: ReadonlyMap<string, TensorValue>,
  tolerance: number,
): Promise<string[]> {
  const wanted = evaluate(Object.values(outputs), new Map([...feeds].map(([name, value]) => [name, numbersOf(value)])));
  const found = await session.run(Object.fromEntries(feeds), Object.keys(outputs));
  return Object.keys(outputs).flatMap((name, i) => {
    const [x, y] = [numbersOf(found[name] as TensorValue), wanted[i] as Value];
    const apart = distance(x, y);
    return apart <= tolerance ? [] : [`${name} [${x.shape}] is not [${y.shape}], apart by ${apart}`];
  });
}

it("has a lowering, a case and a reference for every operation", () => {
  expect(Object.keys(LOWERINGS).sort()).toEqual([...OPERATIONS.keys()].sort());
  expect(Object.keys(CASES).sort()).toEqual([...OPERATIONS.keys()].sort());
  expect(Object.keys(EVALUATIONS).sort()).toEqual([...OPERATIONS.keys()].sort());
});

/** Cases of operations and their derivatives, as outputs of one graph that is one session. */
class Together {
  readonly outputs: Record<string, Node> = {};
  readonly #operands = new Map<string, Operand>();
  readonly #session: Promise<Session>;

  constructor(names: readonly string[], cases: number) {
    const graph = new Graph();
    for (const name of names) {
      for (const [k, one] of fc.sample(casesOf(name), { seed: 2, numRuns: cases }).entries()) {
        const inputs = one.operands.map((operand, i) => {
          this.#operands.set(`${name}.${k}.${i}`, operand);
          return graph.input(`${name}.${k}.${i}`, dtypeOf(operand), operand.shape);
        });
        const result = one.build(graph, inputs);
        this.outputs[`${name}.${k}`] = result;
        const floats = graph.cast(result, "f32");
        const axes = result.shape.map((_, axis) => axis);
        const scalar = graph.sum(graph.mul(floats, floats), axes);
        const flowing = inputs.filter((_, i) => !one.constant?.includes(i));
        for (const [i, gradient] of gradients(graph, scalar, flowing).entries()) {
          if (gradient) this.outputs[`${name}.${k} by ${i}`] = gradient;
        }
      }
    }
    this.#session = openSession(lowerGraph(this.outputs), thread);
  }

  // Values are about 1 to 100, sums have up to 30 terms, and float32 has 6e-8: 1e-5 is above the rounding of all.
  async differences(batch: number, time: number): Promise<string[]> {
    const sizes = new Map(Object.entries({ batch, time, [TABLE]: 4 }));
    const random = Random.of(batch * 10 + time, "lowered");
    const feeds = [...this.#operands].map(([name, operand]): [string, TensorValue] => {
      return [name, tensorOf(draw(operand, sizes, random), dtypeOf(operand))];
    });
    return differences(await this.#session, this.outputs, new Map(feeds), 1e-5);
  }

  async close(): Promise<void> {
    await (await this.#session).close();
  }
}

/** Products of matrices, which cannot be of no elements. */
const PRODUCTS = ["matmul", "linearAttention", "recurrence"];

describe("operations and their derivatives match the reference", () => {
  let products: Together;
  let rest: Together;
  beforeAll(() => {
    products = new Together(PRODUCTS, 16);
    rest = new Together(
      [...OPERATIONS.keys()].filter((name) => !PRODUCTS.includes(name)),
      6,
    );
  });
  afterAll(() => Promise.all([products.close(), rest.close()]));

  it("and all of them are tested", () => {
    const ops = new Set(reachable(Object.values({ ...rest.outputs, ...products.outputs })).map(({ op }) => op));
    expect([...OPERATIONS.keys()].filter((name) => !ops.has(name))).toEqual([]);
  });

  it.each([
    [2, 3],
    [1, 1],
    [3, 1],
    [1, 2],
  ])("with batch %i and time %i", async (batch, time) => {
    expect(await products.differences(batch, time)).toEqual([]);
    expect(await rest.differences(batch, time)).toEqual([]);
  });

  // Products are said to need elements: see lowerGraph.
  it.each([
    [0, 2],
    [2, 0],
    [0, 0],
  ])("with batch %i and time %i, but for products", async (batch, time) => {
    expect(await rest.differences(batch, time)).toEqual([]);
  });
});

/** One graph, run once, and the reference. */
async function compare(
  outputs: Readonly<Record<string, Node>>,
  feeds: Readonly<Record<string, TensorValue>>,
  tolerance = 0,
): Promise<string[]> {
  const session = await openSession(lowerGraph(outputs), thread);
  const found = await differences(session, outputs, new Map(Object.entries(feeds)), tolerance);
  await session.close();
  return found;
}

const f32 = (shape: number[], ...values: number[]): TensorValue => {
  return { dtype: "f32", shape, data: Float32Array.from(values) };
};
const i64 = (shape: number[], ...values: number[]): TensorValue => {
  return { dtype: "i64", shape, data: BigInt64Array.from(values, BigInt) };
};

it("NaN, infinities, -0 and large numbers match the reference", async () => {
  const graph = new Graph();
  const x = graph.input("x", "f32", ["n"]);
  const rows = graph.input("rows", "f32", ["m", 3]);
  const zero = graph.constant(0);
  const outputs: Record<string, Node> = {
    ...Object.fromEntries(
      ["neg", "exp", "log", "sqrt", "reciprocal", "tanh", "sigmoid", "erf", "relu", "silu", "gelu"].map((op) => [
        op,
        graph.apply(op, [x], op === "gelu" ? { approximate: "none" } : {}),
      ]),
    ),
    geluTanh: graph.gelu(x, "tanh"),
    cast: graph.cast(x, "bool"),
    equal: graph.equal(x, x),
    less: graph.less(x, zero),
    lessOrEqual: graph.lessOrEqual(x, zero),
    product: graph.mul(x, zero),
    quotient: graph.div(x, zero),
    chosen: graph.where(graph.less(x, zero), x, graph.neg(x)),
    sum: graph.sum(rows, [1]),
    argMax: graph.argMax(rows),
    softmax: graph.softmax(rows),
    logSoftmax: graph.logSoftmax(rows),
    crossEntropy: graph.crossEntropy(rows, graph.input("labels", "i64", ["m"])),
  };
  const special = [NaN, Infinity, -Infinity, 0, -0, 1e30, -1e30, 100, -100, 3.4e38, 1e-30, 1e10, -1e10];
  const rowValues = [
    [NaN, 1, 2],
    [1, NaN, 0],
    [NaN, NaN, NaN],
    [-Infinity, -Infinity, -Infinity],
    [Infinity, 1, Infinity],
    [-Infinity, 0, 1],
    [1e30, 1e30, 0],
    [-1e30, -1e30, -1e30],
    [3e38, -3e38, 0],
    [-0, 0, -0],
    [2, 2, 1],
  ];
  const feeds = {
    x: f32([special.length], ...special),
    rows: f32([rowValues.length, 3], ...rowValues.flat()),
    labels: i64([rowValues.length], ...rowValues.map(() => 1)),
  };
  expect(await compare(outputs, feeds, 2e-7)).toEqual([]);
});

it("constants, inputs and elements of every type can be outputs", async () => {
  const graph = new Graph();
  const feeds: Record<string, TensorValue> = {
    f32: f32([2, 3], 1, -2, 3, 4, -0, 6),
    i64: i64([2, 3], 1, 2, -3, 4, 5, 6),
    bool: { dtype: "bool", shape: [2, 3], data: Uint8Array.of(1, 0, 1, 0, 0, 1) },
  };
  const outputs: Record<string, Node> = {
    none: graph.constant([], [0, 2]),
    large: graph.constant(2 ** 53 - 1, [], "i64"),
  };
  for (const dtype of ["f32", "i64", "bool"] as const) {
    const x = graph.input(dtype, dtype, ["n", 3]);
    const one = graph.constant([1, 0], [2], dtype);
    Object.assign(outputs, {
      [`${dtype} itself`]: x,
      [`${dtype} constant`]: one,
      [`${dtype} concat`]: graph.concat([x, graph.slice(x, 0, 0, 1)], 0),
      [`${dtype} transpose`]: graph.transpose(graph.expand(x, [2, "n", 3]), [2, 0, 1]),
      [`${dtype} reshape`]: graph.reshape(x, [1, "3*n"]),
      [`${dtype} gather`]: graph.gather(x, graph.constant([1, 0, 1], [1, 3], "i64")),
      [`${dtype} cast`]: graph.cast(x, dtype === "f32" ? "i64" : "f32"),
    });
  }
  const i = graph.input("i64", "i64", ["n", 3]);
  outputs.where = graph.where(graph.input("bool", "bool", ["n", 3]), i, graph.constant(7, [], "i64"));
  outputs.again = outputs.where;
  const ones = graph.input("f32", "f32", ["n", 3]);
  outputs.overZero = graph.div(ones, 0);
  outputs.overMinusZero = graph.div(ones, -0);
  expect(await compare(outputs, feeds)).toEqual([]);
});

describe("a norm and 1 over its root mean square", () => {
  it("are one node of ONNX where both are needed, in either order", async () => {
    const feeds = { x: f32([2, 3], 1, -2, 3, 0.5, 0, 0.25), w: f32([3], 1, 2, 0.5) };
    for (const first of ["norm", "inverse"]) {
      const graph = new Graph();
      const [x, w] = [graph.input("x", "f32", ["n", 3]), graph.input("w", "f32", [3])];
      const other = graph.inverseRms(x, 0.5);
      if (first === "inverse") graph.inverseRms(x, 0.01);
      const norm = graph.rmsNorm(x, w, 0.01);
      const outputs = {
        norm,
        scaled: graph.mul(graph.inverseRms(x, 0.01), norm),
        other,
        gradient: gradients(graph, graph.sum(norm, [0, 1]), [x])[0] as Node,
      };
      expect(await compare(outputs, feeds, 1e-6)).toEqual([]);
    }
  });
});

describe("weights", () => {
  // 1, -2, 0.5, 3, 0.25, -1.5: exact in all three types.
  const stored: Record<string, Weight> = {
    f32: { dtype: "f32", values: bytesOf(Float32Array.of(1, -2, 0.5, 3, 0.25, -1.5)) },
    bf16: { dtype: "bf16", values: bytesOf(Uint16Array.of(0x3f80, 0xc000, 0x3f00, 0x4040, 0x3e80, 0xbfc0)) },
    f16: { dtype: "f16", values: bytesOf(Uint16Array.of(0x3c00, 0xc000, 0x3800, 0x4200, 0x3400, 0xbe00)) },
  };

  it("are part of the model, and converted to float32 for computation", async () => {
    const graph = new Graph();
    const ids = graph.input("ids", "i64", ["n"]);
    const outputs: Record<string, Node> = {};
    for (const dtype of Object.keys(stored)) {
      const table = graph.input(dtype, "f32", [3, 2]);
      outputs[`${dtype} rows`] = graph.gather(table, ids);
      outputs[`${dtype} logits`] = graph.matmul(graph.gather(table, ids), table, { transB: true });
      outputs[`${dtype} itself`] = table;
    }
    const session = await openSession(lowerGraph(outputs, { weights: new Map(Object.entries(stored)) }), thread);
    const found = await session.run({ ids: i64([2], 2, 0) }, Object.keys(outputs));
    for (const dtype of Object.keys(stored)) {
      expect(found[`${dtype} itself`]).toEqual(f32([3, 2], 1, -2, 0.5, 3, 0.25, -1.5));
      expect(found[`${dtype} rows`]).toEqual(f32([2, 2], 0.25, -1.5, 1, -2));
      expect(found[`${dtype} logits`]).toEqual(f32([2, 3], 3.25, -4.375, 2.3125, 5, -5.5, 3.25));
    }
    await session.close();
  });

  it("need fixed shapes", () => {
    const graph = new Graph();
    const weights = new Map([["w", stored.f32 as Weight]]);
    const outputs = { y: graph.neg(graph.input("w", "f32", ["rows", 2])) };
    expect(() => lowerGraph(outputs, { weights })).toThrow("the weight w has no fixed shape");
  });
});

describe("sizes", () => {
  it("are computed from the feeds, including sums and products", async () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["a", 2]);
    const y = graph.input("y", "f32", ["b", "c"]);
    const outputs = {
      sum: graph.expand(graph.constant(3), ["a+b", "2*b*c+1"]),
      padded: graph.pad(x, 0, "b", "a+b+c"),
      paddedMore: graph.pad(y, 1, "b", "a+b+c"),
      cut: graph.slice(graph.concat([x, graph.transpose(x, [0, 1]), x], 0), 0, "a", "3*a"),
      reshaped: graph.reshape(graph.mul(x, graph.reshape(y, ["b", "c", 1, 1])), ["c", "2*b", "a"]),
      rows: graph.scatterRows(graph.constant([0], [1], "i64"), graph.constant([1, 2], [1, 2]), "a*c"),
      hot: graph.oneHot(graph.constant(1, [], "i64"), "a+c"),
    };
    const feeds = { x: f32([2, 2], 1, 2, 3, 4), y: f32([1, 3], 5, 6, 7) };
    expect(await compare(outputs, feeds)).toEqual([]);
  });

  it("may be 0 in a computed shape", async () => {
    const graph = new Graph();
    const x = graph.input("x", "f32", ["batch", 2, "2*time", "past"]);
    const y = graph.input("y", "f32", ["batch", "time"]);
    // The scores of queries that share a key, with a cache that is empty: what they add is nothing.
    const before = graph.reshape(x, ["batch", 4, "time", "past"]);
    const now = graph.reshape(graph.expand(graph.reshape(y, ["batch", 1, "time", 1]), ["batch", 4, "time", 1]), [
      "batch",
      4,
      "time",
      1,
    ]);
    const shares = graph.softmax(graph.concat([before, now], -1));
    const outputs = {
      before,
      sum: graph.sum(x, [3]),
      shares,
      mixed: graph.matmul(graph.slice(shares, -1, 0, "past"), graph.reshape(x, ["batch", 4, "past", "time"])),
      turned: graph.reshape(x, ["past", "2*time", "2*batch"]),
      joined: graph.reshape(x, ["4*batch*past*time"]),
      none: graph.reshape(graph.slice(y, 1, 0, 0), ["time", 0, "batch", 5]),
    };
    const shapes: [number, number, number][] = [
      [2, 3, 0],
      [2, 1, 2],
      [0, 3, 2],
    ];
    const session = await openSession(lowerGraph(outputs), thread);
    for (const [batch, time, past] of shapes) {
      const values = (count: number) => Array.from({ length: count }, (_, i) => Math.sin(i));
      const feeds = new Map([
        ["x", f32([batch, 2, 2 * time, past], ...values(4 * batch * time * past))],
        ["y", f32([batch, time], ...values(batch * time))],
      ]);
      expect(await differences(session, outputs, feeds, 1e-6)).toEqual([]);
    }
    await session.close();
  });

  it("may be 0 where one-hot vectors are subtracted, which are only computed for other readers", async () => {
    const graph = new Graph();
    const [x, one] = [graph.input("x", "f32", ["n", 3]), graph.input("one", "f32", [1, 3])];
    const ids = graph.input("ids", "i64", ["n"]);
    const hot = graph.oneHot(ids, 3);
    const outputs = { less: graph.sub(x, hot), wider: graph.sub(one, hot), hot, turned: graph.sub(hot, x) };
    for (const n of [2, 0]) {
      const feeds = {
        ...{ x: f32([n, 3], ...[1, 2, 3, 4, 5, 6].slice(0, 3 * n)), one: f32([1, 3], 7, 8, 9) },
        ids: i64([n], ...[2, 0].slice(0, n)),
      };
      expect(await compare(outputs, feeds)).toEqual([]);
      expect(await compare({ less: outputs.less }, { x: feeds.x, ids: feeds.ids })).toEqual([]);
    }
    const ops = (nodes: Record<string, Node>) => Buffer.from(lowerGraph(nodes)).toString("latin1").includes("OneHot");
    expect([ops({ less: outputs.less }), ops({ wider: outputs.wider })]).toEqual([false, true]);
  });

  it("are refused if no feed has them", () => {
    const graph = new Graph();
    const alone = { y: graph.expand(graph.constant(1), ["time"]) };
    expect(() => lowerGraph(alone)).toThrow(new RuntimeError("no feed has the size time, so the model cannot know it"));
    const product = { y: graph.expand(graph.sum(graph.input("x", "f32", ["batch"]), [0]), ["batch*time"]) };
    expect(() => lowerGraph(product)).toThrow("no feed has the size time");
    const joined = {
      y: graph.add(graph.input("z", "f32", ["2*items"]), graph.expand(graph.constant(1), ["items", 1, 1])),
    };
    expect(() => lowerGraph(joined)).toThrow("no feed has the size items");
  });
});

it("an operation without a lowering is refused", () => {
  const node: Node = { id: 0, op: "fold", inputs: [], attributes: {}, dtype: "f32", shape: [] };
  expect(() => lowerGraph({ y: node })).toThrow(new RuntimeError("the operation fold has no lowering to ONNX"));
});
