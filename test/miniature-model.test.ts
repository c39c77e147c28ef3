// The untrained model: a checkpoint folder as others write them, and weights that begin as they should.
// @module-tag slow
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { initialWeights, MINIATURE, writeInitialModel } from "../examples/miniature/world/untrained-model.js";
import { openEngine } from "../src/engine/index.js";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";

const scratch = mkdtempSync(join(tmpdir(), "layergraft-demo-"));
afterAll(() => rmSync(scratch, { recursive: true }));

const valuesOf = (name: string, seed = 0): number[] => {
  const data = initialWeights(MINIATURE, seed).find((tensor) => tensor.name === name)?.data ?? new Uint8Array();
  return [...new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4)];
};
const deviation = (values: number[]) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);

// By transformers 5.24, which finds no tensor missing or unexpected: the number of parameters, and log-probabilities.
it.each([
  ["llama", 879_072, [-7.25918, -7.84229, -5.11607]],
  ["moe", 1_325_024, [-6.9306, -8.83881, -6.25049]],
  ["delta", 963_524, [-6.18107, -8.77663, -6.81211]],
] as const)("is a decoder that transformers opens: %s", async (kind, parameters, logprobs) => {
  const folder = join(scratch, kind);
  await writeInitialModel(folder, 0, MINIATURE, kind);
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) expect(existsSync(join(folder, name))).toBe(true);
  const { tensors } = await openCheckpoint(folder);
  const sizes = [...tensors.values()].map(({ shape }) => shape.reduce((a, b) => a * b, 1));
  expect(sizes.reduce((a, b) => a + b)).toBe(parameters);
  const engine = await openEngine(folder, { threads: 1 });
  const [found = []] = await engine.score([[1, 15, 27, 100]]);
  await engine.close();
  for (const [at, logprob] of logprobs.entries()) expect(found[at]).toBeCloseTo(logprob, 4);
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
