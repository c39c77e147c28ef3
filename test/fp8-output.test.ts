// What a merge writes as FP8: codes and scales against plain arithmetic, copies against the bytes of their source.
// @module-tag slow
import { cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { type TensorData, writeSharded } from "../src/formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { summarizePlan } from "../src/merge/output/index.js";
import { encodeValues, type ReadTensor, seededTensor } from "./support/checkpoints.js";
import { Bench } from "./support/merging.js";
import { readFolder, roundTo, toNumbers } from "./support/numbers.js";

const FIXTURES = join(import.meta.dirname, "fixtures/quantised");
const WEIGHT = "model.layers.1.mlp.down_proj.weight";
const bench = new Bench();
const configOf = (folder: string) => JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));

const finite = (code: number) => ((code & 127) === 127 ? code - 1 : code);

/** A case of the fixtures, with other codes if wanted. */
async function model(name: string, flip = 0): Promise<string> {
  const folder = bench.next(name);
  cpSync(join(FIXTURES, name), folder, { recursive: true, filter: (path) => !path.endsWith("values.safetensors") });
  const tensors = [...(await readFolder(folder))].map(([tensor, { dtype, shape, data }]): TensorData => {
    const isCoded = String(dtype) === "F8_E4M3";
    return {
      ...{ name: tensor, dtype: dtype as TensorData["dtype"], shape },
      data: isCoded ? data.map((byte) => finite(byte ^ flip)) : data,
    };
  });
  await writeSharded(folder, tensors);
  return folder;
}

const valuesIn = async (model: string, name: string) => {
  const { out } = await bench.merge({ method: "soup", models: [model], dtype: "float32" });
  return toNumbers((await readFolder(out)).get(name) as ReadTensor);
};

const MAGNITUDES = Array.from({ length: 127 }, (_, code) =>
  code < 8 ? code * 2 ** -9 : (1 + (code & 7) / 8) * 2 ** ((code >> 3) - 7),
);

/** The code of the nearest value; of two, the even one. */
function codeOf(x: number): number {
  const size = Math.min(Math.abs(x), 448);
  const above = MAGNITUDES.findIndex((magnitude) => magnitude >= size);
  const below = Math.max(0, above - 1);
  const [up, down] = [(MAGNITUDES[above] as number) - size, size - (MAGNITUDES[below] as number)];
  const code = up < down || (up === down && above % 2 === 0) ? above : below;
  return code + (x < 0 || Object.is(x, -0) ? 128 : 0);
}

type Rounding = (scale: number) => number;
const powerOfTwo: Rounding = (scale) => 2 ** Math.ceil(Math.log2(scale));

/** Codes and scales of one matrix. */
function encode(values: readonly number[], columns: number, [m, n]: readonly [number, number], round: Rounding) {
  const across = Math.ceil(columns / n);
  const blockOf = (i: number) => Math.floor(Math.floor(i / columns) / m) * across + Math.floor((i % columns) / n);
  const largest: number[] = [];
  for (const [i, x] of values.entries()) largest[blockOf(i)] = Math.max(largest[blockOf(i)] ?? 0, Math.abs(x));
  const scales = largest.map((most) => (most === 0 ? 1 : round(Math.fround(most / 448))));
  return { scales, codes: values.map((x, i) => codeOf(Math.fround(x / (scales[blockOf(i)] as number)))) };
}

it.each([
  ["fp8-block", "_scale_inv", [128, 128], Math.fround],
  ["fp8-powers", "_scale_inv", [16, 32], powerOfTwo],
  ["fp8-tensor", "_scale_inv", [24, 40], (scale: number) => roundTo("BF16", scale)],
  ["ct-fp8-tensor", "_scale", [24, 64], (scale: number) => roundTo("BF16", scale)],
  ["ct-fp8-channel", "_scale", [1, 64], (scale: number) => roundTo("BF16", scale)],
  ["fp8-experts", "_scale_inv", [16, 32], Math.fround, "model.layers.1.mlp.experts.1.up_proj.weight"],
  ["fp8-stacked", "_scale_inv", [16, 32], Math.fround, "model.layers.1.mlp.experts.gate_up_proj"],
] as const)(
  "%s is averaged and encoded again in its form",
  async (name, suffix, block, round, matrix: string = WEIGHT) => {
    const models = [await model(name), await model(name, 16 + 2)];
    const source = await readFolder(models[0] as string);
    const { tensors, out } = await bench.merge({ method: "soup", models, dtype: "fp8" });
    const described = (all: typeof tensors) =>
      [...all].map(([tensor, { dtype, shape }]) => [tensor, dtype, shape]).sort();
    expect(described(tensors)).toEqual(described(source));
    expect(configOf(out)).toEqual(configOf(models[0] as string));
    const [a = [], b = []] = await Promise.all(models.map((one) => valuesIn(one, matrix)));
    const averages = a.map((x, i) => Math.fround((x + (b[i] as number)) / 2));
    const wanted = encode(averages, source.get(matrix)?.shape.at(-1) as number, block, round);
    const scales = tensors.get(matrix + suffix) as ReadTensor;
    const isPower = String(scales.dtype) === "F8_E8M0";
    expect(isPower ? [...scales.data].map((bits) => 2 ** (bits - 127)) : toNumbers(scales)).toEqual(wanted.scales);
    expect([...(tensors.get(matrix)?.data ?? [])]).toEqual(wanted.codes);
  },
);

const coded = (tensors: TensorData[], suffix: string) =>
  tensors.flatMap((tensor): TensorData[] => {
    if (!tensor.name.includes("proj")) return [tensor];
    const codes = tensor.data.filter((_, i) => i % 2 === 0).map((byte) => byte & 0xbf);
    const scale = encodeValues([0.5], "F32");
    const scales: TensorData = { name: tensor.name + suffix, dtype: "F32", shape: [1, 1], data: scale };
    return [{ ...tensor, dtype: "F8_E4M3", data: codes }, scales];
  });
const config = { quantization_config: { quant_method: "fp8", weight_block_size: [128, 128] } };

it("copied layers keep their bytes beside computed ones", async () => {
  const [task = "", language = ""] = await bench.models(2, { edit: (all) => coded(all, "_scale_inv"), config });
  const averaged = [{ layers: "1", value: 0.5 }, { value: 0 }];
  const models = [{ model: task }, { model: language, weight: averaged }];
  const { tensors, out } = await bench.merge({ method: "soup", models, dtype: "fp8" } as RecipeInput);
  const source = await readFolder(task);
  expect([...tensors.keys()].sort()).toEqual([...source.keys()].sort());
  const isSame = (name: string) =>
    Buffer.from(tensors.get(name)?.data ?? []).equals(source.get(name)?.data ?? Buffer.of());
  const differing = [...source.keys()].filter((name) => !isSame(name));
  expect(differing.filter((name) => !name.startsWith("model.layers.1."))).toEqual([]);
  expect(differing.filter((name) => name.endsWith("proj.weight"))).toHaveLength(7);
  const wide = await bench.merge({ method: "soup", models, dtype: "float32" } as RecipeInput);
  const name = "model.layers.1.self_attn.k_proj.weight";
  const columns = source.get(name)?.shape[1] as number;
  const wanted = encode(toNumbers(wide.tensors.get(name) as ReadTensor), columns, [128, 128], Math.fround);
  expect(toNumbers(tensors.get(`${name}_scale_inv`) as ReadTensor)).toEqual(wanted.scales);
  expect([...(tensors.get(name)?.data ?? [])]).toEqual(wanted.codes);
  expect(configOf(out)).toEqual(configOf(task));
  const summaryOf = async (dtype: "fp8" | "bfloat16") => {
    const opened = await planRecipe({ method: "soup", models, dtype } as RecipeInput);
    return summarizePlan(opened.asStored ?? opened);
  };
  expect((await summaryOf("fp8")).ownership).toEqual((await summaryOf("bfloat16")).ownership);
});

it("layers of a plain model, and of one in another form, take the form of the model that leads", async () => {
  const [task = ""] = await bench.models(1, { edit: (all) => coded(all, "_scale_inv"), config });
  const [other = ""] = await bench.models(1, {
    edit: (all) => coded(all, "_scale"),
    config: { quantization_config: { quant_method: "fp8" } },
  });
  const [plain = ""] = await bench.models(1);
  const described = (all: ReadonlyMap<string, ReadTensor>) =>
    [...all].map(([tensor, { dtype, shape }]) => [tensor, dtype, shape]).sort();
  for (const language of [plain, other]) {
    for (const [lead, beside] of [
      [task, language],
      [language, task],
    ] as const) {
      const recipe = { method: "swap", task: lead, language: beside, bottom: 0, top: 1, dtype: "fp8" } as const;
      const { tensors, out } = await bench.merge(recipe);
      const first = lead === plain ? task : lead;
      expect(described(tensors)).toEqual(described(await readFolder(first)));
      expect(configOf(out).quantization_config).toEqual(configOf(first).quantization_config);
    }
  }
});

it("a merge of plain models is written by blocks of 128", async () => {
  const sides: Record<string, number[]> = { "o_proj.weight": [256, 128], "down_proj.weight": [256, 512] };
  const edit = (all: TensorData[]) =>
    all.map((one, i) => {
      const [, shape] = Object.entries(sides).find(([name]) => one.name.endsWith(name)) ?? [];
      const isSmall = one.name.includes("_proj");
      return isSmall ? seededTensor(one.name, shape ?? [128, 128], i + one.data.length + (one.data[0] ?? 0)) : one;
    });
  const models = await bench.models(2, { layers: 1, edit });
  const { tensors, out } = await bench.merge({ method: "soup", models, dtype: "fp8" });
  const name = "model.layers.0.mlp.down_proj.weight";
  const wide = await bench.merge({ method: "soup", models, dtype: "float32" });
  const wanted = encode(toNumbers(wide.tensors.get(name) as ReadTensor), 512, [128, 128], Math.fround);
  expect(tensors.get(`${name}_scale_inv`)?.shape).toEqual([2, 4]);
  expect(toNumbers(tensors.get(`${name}_scale_inv`) as ReadTensor)).toEqual(wanted.scales);
  expect([...(tensors.get(name)?.data ?? [])]).toEqual(wanted.codes);
  const kept = [...tensors].flatMap(([tensor, { dtype }]) => (dtype === "BF16" ? [tensor] : []));
  expect(kept.sort()).toEqual([...wide.tensors.keys()].filter((tensor) => !tensor.includes("_proj")).sort());
  expect(configOf(out).quantization_config).toEqual({
    quant_method: "fp8",
    fmt: "e4m3",
    activation_scheme: "dynamic",
    weight_block_size: [128, 128],
    modules_to_not_convert: ["model.embed_tokens", "lm_head"],
  });
  const { plan, asStored } = await planRecipe({ method: "soup", models: [out], dtype: "fp8" });
  expect(plan.steps.every(({ dtype }) => dtype === "BF16")).toBe(true);
  // Read again, it is only copied.
  expect(asStored && summarizePlan(asStored).computed).toBe(0);
});

const ADAPTED = "model.layers.1.mlp.down_proj.weight";

/** A base and an adapter of one of its matrices. */
async function adapted(base: string, [rows = 0, columns = 0]: readonly number[]): Promise<string> {
  const adapter = bench.next("adapter");
  mkdirSync(adapter);
  const module = "base_model.model.model.layers.1.mlp.down_proj";
  await writeSharded(adapter, [
    seededTensor(`${module}.lora_A.weight`, [2, columns], 1, "F32"),
    seededTensor(`${module}.lora_B.weight`, [rows, 2], 2, "F32"),
  ]);
  renameSync(join(adapter, "model.safetensors"), join(adapter, "adapter_model.safetensors"));
  const settings = { peft_type: "LORA", r: 2, lora_alpha: 4, target_modules: ["down_proj"] };
  writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify(settings));
  return `${base}+${adapter}`;
}

it("an adapter on an FP8 base is added, and encoded again", async () => {
  const [base = ""] = await bench.models(1, { edit: (all) => coded(all, "_scale_inv"), config });
  const source = await readFolder(base);
  const shape = source.get(ADAPTED)?.shape ?? [];
  const model = await adapted(base, shape);
  const { tensors } = await bench.merge({ method: "soup", models: [model], dtype: "fp8" });
  const wanted = encode(await valuesIn(model, ADAPTED), shape[1] as number, [128, 128], Math.fround);
  expect([...(tensors.get(ADAPTED)?.data ?? [])]).toEqual(wanted.codes);
  for (const [tensor, { data }] of source) {
    if (tensor.includes("layers.1.mlp.down_proj")) continue;
    expect(Buffer.from(data).equals(tensors.get(tensor)?.data ?? Buffer.of()), tensor).toBe(true);
  }
});

it.each(["ct-int4", "gptq"])("%s has no sides of whole blocks, so it is refused once", async (name) => {
  const models = [await model(name), await model(name)];
  await expect(planRecipe({ method: "soup", models, dtype: "fp8" })).rejects.toThrow(
    /^This merge cannot be written as fp8:\n {2}- model\.layers\.\d\.\S+, model\.layers\.\S+: sides that are not multiples of 128/,
  );
});

it("NaN is refused by the tensor that holds it", async () => {
  const edit = (all: TensorData[]) =>
    coded(all, "_scale_inv").map(
      (one): TensorData => (one.name === WEIGHT ? { ...one, data: one.data.fill(127, 7, 8) } : one),
    );
  const models = await bench.models(2, { edit, config });
  const recipe = { method: "soup", models, dtype: "fp8" } as const;
  await expect(bench.merge(recipe)).rejects.toThrow(
    /infinite or NaN values in model\.layers\.1\.mlp\.down_proj\.weight/,
  );
});

it("an adapter is not written as fp8", async () => {
  const [base = ""] = await bench.models(1);
  const models = [await adapted(base, (await readFolder(base)).get(ADAPTED)?.shape ?? [])];
  const recipe = { method: "soup", models, as: "adapter", dtype: "fp8" } as const;
  await expect(planRecipe(recipe)).rejects.toThrow("an adapter is not written as fp8. Choose bfloat16.");
});
