// What is computed in chunks of rows, against the same graph without chunks.
import { expect, it } from "vitest";
import { Random } from "../../kit/index.js";
import { gradients, reachable } from "../graph/gradients.js";
import { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";
import { chunksOfLogits, planChunks } from "./chunks.js";
import { endsOf, type LowerOptions, lowerGraph } from "./lower.js";
import { openSession, type TensorValue } from "./session.js";

// Up to a width of 64, ONNX Runtime adds longer blocks.
const [D, V] = [72, 300];

/** The loss of rows of a stream and a head, with a scale and a cap, and its derivatives. */
function lossGraph() {
  const graph = new Graph();
  const stream = graph.input("stream", "f32", ["positions", D]);
  const [norm, head] = [graph.input("norm", "f32", [D]), graph.input("head", "f32", [V, D])];
  const labels = graph.input("labels", "i64", ["rows"]);
  const read = graph.rmsNorm(graph.gather(stream, graph.input("rows", "i64", ["rows"])), norm, 1e-6);
  const scaled = graph.mul(graph.matmul(read, head, { transB: true }), 0.5);
  const logits = graph.mul(graph.tanh(graph.mul(scaled, 1 / 30)), 30);
  const loss = graph.sum(graph.crossEntropy(logits, labels), [0]);
  const [ofStream, ofNorm, ofHead] = gradients(graph, loss, [stream, norm, head]) as [Node, Node, Node];
  return { logits, outputs: { loss, ofStream, ofNorm, ofHead } };
}

function feedsOf(rows: number): Record<string, TensorValue> {
  const random = Random.of(rows, "chunks");
  const floats = (shape: readonly number[]): TensorValue => {
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.normal());
    return { dtype: "f32", shape, data };
  };
  const integers = (values: readonly number[]): TensorValue => {
    return { dtype: "i64", shape: [values.length], data: BigInt64Array.from(values, BigInt) };
  };
  const each = Array.from({ length: rows }, (_, row) => row);
  return {
    stream: floats([rows + 3, D]),
    norm: floats([D]),
    head: floats([V, D]),
    labels: integers(each.map(() => Math.floor(random.float() * V))),
    rows: integers(each.map((row) => row + 1)),
  };
}

async function run(options: LowerOptions, sizes: readonly number[]) {
  const { outputs } = lossGraph();
  const session = await openSession(lowerGraph(outputs, options), { threads: 1 });
  const found = [];
  for (const rows of sizes) found.push(await session.run(feedsOf(rows), Object.keys(outputs)));
  await session.close();
  return found;
}

// No whole chunk, one row in the last, several chunks.
const SIZES = [1, 2, 127, 128, 129, 130, 256, 257, 700];

it("gives the bits of all rows at once in chunks of 128", async () => {
  expect(await run({ chunks: { axis: "rows", rows: 128 } }, SIZES)).toEqual(await run({}, SIZES));
});

it("differs only in sums over rows in chunks of other sizes", async () => {
  const [chunked, whole] = [await run({ chunks: { axis: "rows", rows: 5 } }, SIZES), await run({}, SIZES)];
  for (const [i, { ofHead, ...rest }] of chunked.entries()) {
    const { ofHead: wanted, ...others } = whole[i] as (typeof whole)[number];
    expect(rest).toEqual(others);
    const values = wanted?.data as Float32Array;
    const found = ofHead?.data as Float32Array;
    const differences = found.map((value, at) => Math.abs(value - (values[at] as number)));
    expect(differences.reduce((most, one) => Math.max(most, one), 0)).toBeLessThan(1e-4);
  }
});

it("computes logits and nothing as large as they are inside of the loop", () => {
  const { logits, outputs } = lossGraph();
  const nodes = Object.values(outputs);
  // Of one-hot matrices, only the places of the ones are read.
  const computed = reachable(nodes).filter(({ op }) => op !== "input" && op !== "oneHot");
  const plan = planChunks(computed, chunksOfLogits(logits), nodes);
  const isWide = ({ shape }: Node) => shape.join() === `rows,${V}`;
  expect([...(plan?.before ?? []), ...(plan?.after ?? []), ...(plan?.joined ?? [])].filter(isWide)).toEqual([]);
  expect(plan?.inside.filter(isWide).length).toBeGreaterThan(3);
  expect(plan?.sums).toEqual([outputs.ofHead]);
});

it("takes 256 MiB of logits at once, and not less than 128 rows", () => {
  const rowsOf = (vocabulary: number) => {
    return chunksOfLogits(new Graph().input("logits", "f32", ["rows", vocabulary])).rows;
  };
  expect([262_144, 151_936, 49_152, 1_000_000].map(rowsOf)).toEqual([256, 384, 1280, 128]);
});

it("writes gradients that nothing reads in reverse, after all other nodes", () => {
  const graph = new Graph();
  const [x, lower, upper] = [
    graph.input("x", "f32", [4, 2]),
    graph.input("a", "f32", [2, 2]),
    graph.input("b", "f32", [2, 2]),
  ];
  const loss = graph.sum(graph.matmul(graph.tanh(graph.matmul(x, lower)), upper), [0, 1]);
  const [ofLower, ofUpper] = gradients(graph, loss, [lower, upper]) as [Node, Node];
  const outputs = [loss, ofLower, ofUpper];
  expect(endsOf(reachable(outputs), outputs)).toEqual([loss, ofLower, ofUpper].sort((a, b) => b.id - a.id));
  // What another gradient reads cannot come after it.
  const read = ofUpper.inputs[0] as Node;
  expect(endsOf(reachable(outputs), [...outputs, read])).not.toContain(read);
});
