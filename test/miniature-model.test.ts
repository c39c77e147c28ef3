// The untrained model: a checkpoint folder as others write them, and weights that begin as they should.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { initialWeights, MINIATURE, writeInitialModel } from "../examples/miniature/world/untrained-model.js";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-demo-"));
afterAll(() => rmSync(folder, { recursive: true }));

const valuesOf = (name: string, seed = 0): number[] => {
  const data = initialWeights(MINIATURE, seed).find((tensor) => tensor.name === name)?.data ?? new Uint8Array();
  return [...new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4)];
};
const deviation = (values: number[]) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);

it("is a Llama that opens", async () => {
  await writeInitialModel(folder, 0);
  const checkpoint = await openCheckpoint(folder);
  const { layers, width, feedForward } = MINIATURE;
  const inLayer = 4 * width * width + 3 * width * feedForward + 2 * width;
  const elements = [...checkpoint.tensors.values()].reduce(
    (sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1),
    0,
  );
  expect(elements).toBe(layers * inLayer + 2 * width * 730 + width);
  expect(checkpoint.layers).toBe(layers);
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json"]) {
    expect(existsSync(join(folder, name))).toBe(true);
  }
});

it("begins with the deviations that it says", () => {
  const { width, feedForward } = MINIATURE;
  // 9,216 values and more: five standard errors are under 4%.
  const parts: [string, number][] = [
    ["model.layers.0.self_attn.q_proj.weight", 1 / Math.sqrt(width)],
    ["model.layers.7.self_attn.o_proj.weight", 0.5 / Math.sqrt(width)],
    ["model.layers.3.mlp.up_proj.weight", 1 / Math.sqrt(width)],
    ["model.layers.3.mlp.down_proj.weight", 0.5 / Math.sqrt(feedForward)],
    ["model.embed_tokens.weight", 0.3],
    ["lm_head.weight", 1 / Math.sqrt(width)],
  ];
  for (const [name, expected] of parts) expect(deviation(valuesOf(name)) / expected).toBeCloseTo(1, 1);
  expect(new Set(valuesOf("model.layers.2.input_layernorm.weight"))).toEqual(new Set([1]));
});

it("depends on the seed", () => {
  const name = "model.layers.0.self_attn.q_proj.weight";
  expect(valuesOf(name)).toEqual(valuesOf(name));
  expect(valuesOf(name, 1)).not.toEqual(valuesOf(name));
});
