// Decoders that learn, in ONNX Runtime, against PyTorch: the loss, and its derivative by every weight.
// @module-tag slow
import { join } from "node:path";
import { expect, it } from "vitest";
import { readTensors, type Values } from "../../test/support/decoder-fixtures.js";
import { allGoldens, type Golden, golden, noteDifference, specOf } from "../../test/support/golden-decoders.js";
import type { DecoderSpec } from "../families/index.js";
import { gradients, reachable } from "./graph/gradients.js";
import { buildDecoder } from "./model/decoder-graph.js";
import { FEEDS } from "./model/feeds.js";
import { locateWeights } from "./model/weight-names.js";
import { RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type TensorValue } from "./runtime/session.js";

// Relative to a gradient's norm: float32 in both, sums in another order.
const GRADIENT = 1e-4;
const LOSS = 1e-5;

/** The norm of the difference, relative to that of what is wanted. */
function relativeDistance(found: readonly number[], wanted: readonly number[]): number {
  if (found.length !== wanted.length) return Number.POSITIVE_INFINITY;
  return Math.hypot(...found.map((value, i) => value - (wanted[i] as number))) / Math.hypot(...wanted);
}
const integers = (shape: readonly number[], values: readonly number[]): TensorValue => ({
  dtype: "i64",
  shape,
  data: BigInt64Array.from(values, BigInt),
});
const floats = (shape: readonly number[], values: readonly number[]): TensorValue => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});

const floatsOf = (value: TensorValue | undefined) => [...((value?.data ?? []) as Float32Array)];

/** The batch as transformers had it: padding on the left, labels one to the left of their tokens. */
function batchOf({ rows, padding, width, labels }: Golden): Record<string, TensorValue> {
  const shape = [rows.length, width];
  const padded = (of: (row: number, at: number) => number, none: number) =>
    rows.flatMap((row, i) => [...Array(padding[i]).fill(none), ...row.map((_, at) => of(i, at))]);
  const next = labels.flatMap((row) => [...row.slice(1), -100]);
  const count = next.filter((label) => label !== -100).length;
  return {
    [FEEDS.ids]: integers(
      shape,
      padded((row, at) => rows[row]?.[at] as number, 0),
    ),
    [FEEDS.positions]: integers(
      shape,
      padded((_, at) => at, 0),
    ),
    [FEEDS.segments]: integers(
      shape,
      padded(() => 1, 0),
    ),
    [FEEDS.rows]: integers([next.length], [...next.keys()]),
    labels: integers(
      [next.length],
      next.map((label) => Math.max(0, label)),
    ),
    shares: floats(
      [next.length],
      next.map((label) => (label === -100 ? 0 : 1 / count)),
    ),
  };
}

/** Names of the tensors that a decoder's inputs are, and the values of each input. */
async function weightsOf(folder: string, spec: DecoderSpec, inputs: ReturnType<typeof buildDecoder>["weights"]) {
  const tensors = readTensors(join(folder, "model.safetensors"));
  const { stored } = locateWeights(spec, tensors.keys(), folder);
  return [...inputs].map(([input, { name, shape, rows, isConstant = false }]) => {
    const tensor = stored.get(name) ?? "";
    const { values } = tensors.get(tensor) as Values;
    const from = rows ? (values.length / rows.of) * rows.from : 0;
    const count = shape.reduce((a, b) => a * b, 1);
    return { input, tensor, from, isConstant, value: floats(shape, values.slice(from, from + count)) };
  });
}

/** The loss, and its derivative by those stored tensors that are wanted: parts of fused ones together again. */
async function learn(expected: Golden, isWanted: (tensor: string) => boolean) {
  const spec = specOf(expected.folder);
  const { graph, weights, logits, balance } = buildDecoder(spec);
  const labels = graph.input("labels", "i64", ["rows"]);
  const shares = graph.input("shares", "f32", ["rows"]);
  const ofLabels = graph.sum(graph.mul(graph.crossEntropy(logits, labels), shares), [0]);
  const loss = balance ? graph.add(ofLabels, balance) : ofLabels;
  const bound = await weightsOf(expected.folder, spec, weights);
  const wanted = bound.filter(({ tensor, isConstant }) => !isConstant && isWanted(tensor));
  const nodes = gradients(
    graph,
    loss,
    wanted.map(({ input }) => graph.inputs.get(input) as NonNullable<ReturnType<typeof graph.inputs.get>>),
  );
  const outputs = Object.fromEntries(nodes.flatMap((node, i) => (node ? [[`d ${wanted[i]?.input}`, node]] : [])));
  expect(Object.keys(outputs).length).toBe(wanted.length);
  const session = await openSession(lowerGraph({ loss, ...outputs }), { threads: 1 });
  const feeds: Record<string, TensorValue> = {
    ...batchOf(expected),
    ...new RopeTables(spec.ropes).feeds(expected.width),
    ...Object.fromEntries(bound.map(({ input, value }) => [input, value])),
  };
  const results = await session.run(feeds, ["loss", ...Object.keys(outputs)]);
  await session.close();
  const found = new Map<string, number[]>();
  for (const { input, tensor } of wanted.sort((a, b) => a.from - b.from)) {
    found.set(tensor, [...(found.get(tensor) ?? []), ...floatsOf(results[`d ${input}`])]);
  }
  return { loss: results.loss?.data[0] as number, found, nodes: reachable([loss, ...Object.values(outputs)]) };
}

it.each(allGoldens())("$name has the loss of PyTorch, and its gradients by all weights", async (expected: Golden) => {
  // What corrects scores only chooses experts.
  const { loss, found } = await learn(expected, (tensor) => !tensor.endsWith("e_score_correction_bias"));
  expect(Math.abs(loss - expected.loss)).toBeLessThan(LOSS);
  expect([...found.keys()].sort()).toEqual([...expected.gradients.keys()].sort());
  for (const [name, { values }] of expected.gradients) {
    const apart = relativeDistance(found.get(name) ?? [], values);
    noteDifference(expected.name, "gradients", apart);
    expect(apart, name).toBeLessThan(GRADIENT);
  }
});

// Fused and tied weights, norms of several places, biases.
it.each(["phi3", "gemma3", "starcoder2"])("%s has the same gradients by some of its weights", async (name) => {
  const expected = golden(name);
  const last = Math.max(...[...expected.gradients.keys()].map((key) => Number(/layers\.(\d+)\./.exec(key)?.[1] ?? 0)));
  const sizes: number[] = [];
  for (const pattern of [/norm/, /layers\.0\./, new RegExp(`layers\\.${last}\\.`)]) {
    const { loss, found, nodes } = await learn(expected, (tensor) => pattern.test(tensor));
    expect(Math.abs(loss - expected.loss)).toBeLessThan(LOSS);
    const wanted = [...expected.gradients].filter(([tensor]) => pattern.test(tensor));
    expect([...found.keys()].sort()).toEqual(wanted.map(([tensor]) => tensor).sort());
    for (const [tensor, { values }] of wanted) {
      expect(relativeDistance(found.get(tensor) ?? [], values), tensor).toBeLessThan(GRADIENT);
    }
    sizes.push(nodes.length);
  }
  // Below the lowest layer that learns, nothing is derived.
  expect(sizes[2]).toBeLessThan(sizes[1] as number);
});
