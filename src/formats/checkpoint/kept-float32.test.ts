import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import { seededTensor } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { toNumbers } from "../../../test/support/numbers.js";
import type { DType } from "../../kit/index.js";
import { planRecipe } from "../../merge/index.js";
import { type Checkpoint, keepsFloat32, parseConfig } from "./index.js";

interface Saved {
  type: string;
  /** Names with `*` for each number. */
  tensors: string[];
  /** Those that are float32 in what transformers saves of a model opened in this dtype. */
  bfloat16: string[];
  float16: string[];
}

const fixture = join(import.meta.dirname, "../../../test/fixtures/float32.json");
const families = Object.entries(JSON.parse(readFileSync(fixture, "utf8")) as Record<string, Saved>);
const configured = (model_type: string) => ({ config: parseConfig({ model_type }, "config.json") });

/** A checkpoint of matrices of one dtype and vectors of another. */
function stored(matrix: DType, vector: DType, folder = "model"): Pick<Checkpoint, "tensors" | "folder"> {
  const tensors = new Map([
    ["matrix", { dtype: matrix, shape: [8, 8] }],
    ["vector", { dtype: vector, shape: [8] }],
  ]);
  return { folder, tensors: tensors as unknown as Checkpoint["tensors"] };
}

test("what transformers keeps is known of more than 40 families", () => {
  expect(families.length).toBeGreaterThan(40);
  expect(families.filter(([, { bfloat16 }]) => bfloat16.length > 0).length).toBeGreaterThan(30);
});

describe.each(families)("%s stays float32 as transformers saves it", (_, { type, tensors, ...saved }) => {
  it.each([["bfloat16", "BF16"] as const, ["float16", "F16"] as const])("in %s", (name, dtype) => {
    const stays = keepsFloat32(configured(type), dtype);
    const checkpoint = stored("F32", "F32");
    const kept = tensors.filter((tensor) => stays(tensor.replaceAll("*", "1"), [{ checkpoint, tensor: "vector" }]));
    expect(kept).toEqual(saved[name]);
  });
});

describe("of a family without a list", () => {
  const stays = keepsFloat32(configured("x"), "BF16");
  const of = (...sources: Pick<Checkpoint, "tensors" | "folder">[]) =>
    sources.map((checkpoint) => ({ checkpoint, tensor: "vector" }));

  it.each([
    ["wider than its matrices", of(stored("BF16", "F32")), true],
    ["beside a model that is float32 as a whole", of(stored("F32", "F32"), stored("F16", "F32")), true],
    ["in models of float32", of(stored("F32", "F32"), stored("F32", "F32")), false],
    ["of which one model has 16 bits", of(stored("BF16", "F32"), stored("BF16", "BF16")), false],
    ["of a GGUF file, whose vectors are always float32", of(stored("F16", "F32", "model.gguf")), false],
    ["of no model", [], false],
  ])("a tensor %s", (_, sources, wanted) => {
    expect(stays("model.layers.0.router.bias", sources)).toBe(wanted);
  });

  it("a tensor of 16 bits stays as narrow as it is, also of a family with a list", () => {
    const narrow = keepsFloat32(configured("deepseek_v3"), "BF16");
    expect(narrow("model.layers.1.mlp.gate.weight", of(stored("BF16", "BF16")))).toBe(false);
  });
});

test("a merge to 16 bits averages such a tensor in float32, with a note", async () => {
  const bench = new Bench();
  const bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  const of = (seed: number) => seededTensor(bias, [8], seed, "F32");
  const models = await Promise.all(
    [1, 2].map((seed) => bench.model({ seed, dtype: "BF16", edit: (tensors) => [...tensors, of(seed)] })),
  );
  const recipe = { method: "soup", models, dtype: "float16" } as const;
  const { plan } = await planRecipe(recipe);
  const { tensors } = await bench.merge(recipe);
  const [a, b] = [1, 2].map((seed) => toNumbers(of(seed)));
  const mean = a?.map((value, i) => Math.fround(Math.fround(value + (b?.[i] ?? Number.NaN)) / 2));
  expect([tensors.get(bias)?.dtype, [...toNumbers(tensors.get(bias) as never)]]).toEqual(["F32", [...(mean ?? [])]]);
  expect(tensors.get("model.norm.weight")?.dtype).toBe("F16");
  expect(plan.notes).toContain(`1 tensor stays float32, as float16 is too coarse for it (${bias})`);
});
