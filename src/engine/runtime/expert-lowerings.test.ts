// Products of experts whose matrices are in files, in memory and fed; and which experts equal scores choose.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { evaluate } from "../../../test/support/graph-reference.js";
import { Converter } from "../../kernels/index.js";
import { bytesOf } from "../../kit/files/index.js";
import { Random } from "../../kit/index.js";
import { Graph } from "../graph/graph.js";
import { externalLocation } from "./external-paths.js";
import { lowerGraph, type Weight } from "./lower.js";
import { openSession, type TensorValue } from "./session.js";

const folder = mkdtempSync(join(tmpdir(), "experts-"));
afterAll(() => rmSync(folder, { recursive: true }));

const [EXPERTS, OUT, IN] = [5, 3, 4];
const IDS = [0, 2, 2, 4];

/** Values that bfloat16 has, too. Experts that nobody chooses are NaN. */
const random = Random.of(1, "experts");
const matrices = Array.from({ length: EXPERTS }, (_, expert) =>
  Float32Array.from({ length: OUT * IN }, () =>
    IDS.includes(expert) ? Math.round(8 * random.normal()) / 8 : Number.NaN,
  ),
);
const x = Float32Array.from({ length: IDS.length * IN }, () => random.normal());

const graph = new Graph();
const inputs = matrices.map((_, expert) => graph.input(`w${expert}`, "f32", [OUT, IN]));
const ids = graph.input("ids", "i64", ["n"]);
const y = graph.expertMatmul(graph.input("x", "f32", ["n", IN]), ids, graph.stack(inputs), true);

const shape = [OUT, IN];
const weightFeeds = (): Record<string, TensorValue> =>
  Object.fromEntries(matrices.map((data, expert) => [`w${expert}`, { dtype: "f32", shape, data }]));

async function productsWith(weights: ReadonlyMap<string, Weight>, more: Record<string, TensorValue> = {}) {
  const session = await openSession(lowerGraph({ y }, { weights }), { threads: 1 });
  const feeds: Record<string, TensorValue> = {
    x: { dtype: "f32", shape: [IDS.length, IN], data: x },
    ids: { dtype: "i64", shape: [IDS.length], data: BigInt64Array.from(IDS, BigInt) },
    ...more,
  };
  const found = [...(((await session.run(feeds, ["y"])).y?.data ?? []) as Float32Array)];
  await session.close();
  return found;
}

const wanted = () => {
  const values = new Map([
    ["x", { shape: [IDS.length, IN], data: Float64Array.from(x) }],
    ["ids", { shape: [IDS.length], data: Float64Array.from(IDS) }],
    ...matrices.map((data, expert) => [`w${expert}`, { shape, data: Float64Array.from(data) }] as const),
  ]);
  return [...(evaluate([y], values)[0]?.data ?? [])];
};

/** Matrices in files, some bytes apart and in another order. @param fileOf by expert */
async function stored(dtype: "f32" | "bf16", fileOf: (expert: number) => number): Promise<Map<string, Weight>> {
  const converter = new Converter();
  const weights = new Map<string, Weight>();
  for (const file of new Set(matrices.map((_, expert) => fileOf(expert)))) {
    const path = join(folder, `${dtype}-${file}-${fileOf(4)}`);
    const parts = [Buffer.alloc(6)];
    const places = new Map<number, number>();
    for (let expert = EXPERTS - 1; expert >= 0; expert--) {
      if (fileOf(expert) !== file) continue;
      places.set(expert, Buffer.concat(parts).length);
      const data = matrices[expert] as Float32Array;
      parts.push(Buffer.from(dtype === "f32" ? bytesOf(data) : converter.encode("BF16", data).bytes), Buffer.alloc(4));
    }
    writeFileSync(path, Buffer.concat(parts));
    const { location } = await externalLocation(path);
    const length = OUT * IN * (dtype === "f32" ? 4 : 2);
    for (const [expert, offset] of places) weights.set(`w${expert}`, { dtype, values: { location, offset, length } });
  }
  return weights;
}

it.each([
  ["one file", "f32", () => 0],
  ["one file", "bf16", () => 0],
  ["three files", "f32", (expert: number) => expert % 3],
  ["three files", "bf16", (expert: number) => expert % 3],
] as const)("experts in %s as %s: those that nobody chooses are not computed", async (_, dtype, fileOf) => {
  const found = await productsWith(await stored(dtype, fileOf));
  for (const [i, value] of wanted().entries()) expect(found[i]).toBeCloseTo(value, 5);
});

it("experts in memory, and fed", async () => {
  const inMemory = new Map(
    matrices.map((data, expert): [string, Weight] => [`w${expert}`, { dtype: "f32", values: bytesOf(data) }]),
  );
  const fed = await productsWith(new Map(), weightFeeds());
  expect(await productsWith(inMemory)).toEqual(fed);
  for (const [i, value] of wanted().entries()) expect(fed[i]).toBeCloseTo(value, 5);
});

it("of equal scores, the lower number is chosen", async () => {
  const scores = new Graph();
  const chosen = scores.largest(scores.input("x", "f32", ["n", 6]), 3);
  const session = await openSession(lowerGraph({ chosen }), { threads: 1 });
  const data = Float32Array.from([1, 1, 1, 1, 1, 1, 0, 2, 1, 2, 1, 1, -Infinity, 3, -Infinity, 3, 3, 3]);
  const found = await session.run({ x: { dtype: "f32", shape: [3, 6], data } }, ["chosen"]);
  expect([...((found.chosen?.data ?? []) as BigInt64Array)].map(Number)).toEqual([0, 1, 2, 1, 3, 2, 1, 3, 4]);
  await session.close();
});
