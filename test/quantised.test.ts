// Quantised checkpoints as sources, against the values of the reference decoders (test/fixtures/quantised).
// @module-tag slow
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openSafetensors, readTensor, type TensorData, writeSharded } from "../src/formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { explain, exportModel, openModel } from "../src/verbs/index.js";
import { decodeValues, encodeValues, type ReadTensor, seededTensor } from "./support/checkpoints.js";
import { writeWide } from "./support/export-fixtures.js";
import { FakeHub } from "./support/fake-hub.js";
import { readGguf } from "./support/gguf-reader.js";
import { Bench } from "./support/merging.js";
import { readFolder, roundTo, toNumbers } from "./support/numbers.js";

const FIXTURES = join(import.meta.dirname, "fixtures/quantised");
const cases = readdirSync(FIXTURES, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? [one.name] : []));
const bench = new Bench();
const configOf = (folder: string) => JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));

/** The values by name, in float32. */
async function wantedOf(name: string): Promise<Map<string, { shape: readonly number[]; values: Float32Array }>> {
  const file = await openSafetensors(join(FIXTURES, name, "values.safetensors"));
  const read = file.tensors.map(async (tensor) => {
    const values = new Float32Array((await readTensor(file, tensor)).slice().buffer);
    return [tensor.name, { shape: tensor.shape, values }] as const;
  });
  return new Map(await Promise.all(read));
}

/** A copy of a case without its values, which would be a second weight file, and with other codes if wanted. */
async function model(name: string, flip = 0): Promise<string> {
  const folder = bench.next(name);
  cpSync(join(FIXTURES, name), folder, { recursive: true, filter: (path) => !path.endsWith("values.safetensors") });
  if (flip === 0) return folder;
  const tensors = [...(await readFolder(folder))].map(([tensor, { dtype, shape, data }]): TensorData => {
    const isCoded = /weight(_packed)?$|qweight$|_blocks$/.test(tensor) && !/^(BF16|F16)$/.test(dtype);
    return {
      name: tensor,
      dtype: dtype as TensorData["dtype"],
      shape,
      data: isCoded ? data.map((byte) => byte ^ flip) : data,
    };
  });
  await writeSharded(folder, tensors);
  return folder;
}

const WEIGHT = "model.layers.1.mlp.down_proj.weight";
const valuesIn = async (folder: string, name: string) => {
  const { out } = await bench.merge({ method: "soup", models: [folder], dtype: "float32" });
  return toNumbers((await readFolder(out)).get(name) as ReadTensor);
};

describe.each(cases)("%s", (name) => {
  it("has the values of its reference, to the bit", async () => {
    const { tensors, out } = await bench.merge({ method: "soup", models: [await model(name)], dtype: "float32" });
    const wanted = await wantedOf(name);
    const names = [...tensors.keys()].sort();
    expect(names).toEqual(
      [
        "model.embed_tokens.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.norm.weight",
        ...wanted.keys(),
      ].sort(),
    );
    for (const [tensor, { shape, values }] of wanted) {
      expect(tensors.get(tensor)?.shape).toEqual(shape);
      // Zeros have either sign: ModelOpt's table has no negative one.
      expect(toNumbers(tensors.get(tensor) as ReadTensor).map((x) => x + 0)).toEqual([...values].map((x) => x + 0));
    }
    expect(configOf(out).quantization_config).toBeUndefined();
  });

  it("is copied with its codes and scales where nothing is computed", async () => {
    const models = [await model(name), await model(name, 4)] as const;
    const result = await bench.merge({ method: "swap", task: models[0], language: models[1], top: 1, bottom: 0 });
    // The second layer is that of `language`.
    const source = await readFolder(models[1]);
    expect([...result.tensors.keys()].sort()).toEqual([...source.keys()].sort());
    for (const [tensor, { dtype, data }] of source) {
      expect([dtype, Buffer.from(data).equals(result.tensors.get(tensor)?.data ?? new Uint8Array())]).toEqual([
        dtype,
        true,
      ]);
    }
    expect(configOf(result.out)).toEqual(configOf(models[0]));
  });
});

it.each(["fp8-block", "ct-int4-zeros", "awq", "gptq-order"])(
  "%s is averaged as values, and written as such",
  async (name) => {
    const models = [await model(name), await model(name, 16 + 2)];
    const { tensors, out } = await bench.merge({ method: "soup", models });
    const [a = [], b = []] = await Promise.all(models.map((one) => valuesIn(one, WEIGHT)));
    const { dtype } = tensors.get(WEIGHT) as ReadTensor;
    expect(dtype).toBe(configOf(out).torch_dtype === "float16" ? "F16" : "BF16");
    expect(a).not.toEqual(b);
    const wanted = a.map((x, i) => roundTo(dtype as "F16" | "BF16", Math.fround((x + (b[i] as number)) / 2)) + 0);
    expect(toNumbers(tensors.get(WEIGHT) as ReadTensor).map((x) => x + 0)).toEqual(wanted);
    expect(configOf(out).quantization_config).toBeUndefined();
  },
);

it("a quantised model beside a plain one is read as its values", async () => {
  const language = await model("fp8-tensor");
  const { out: task } = await bench.merge({
    method: "soup",
    models: [await model("fp8-tensor", 4)],
    dtype: "bfloat16",
  });
  const { tensors, out } = await bench.merge({ method: "swap", task, language, bottom: 0, top: 1 });
  const wanted = (await valuesIn(language, WEIGHT)).map((x) => roundTo("BF16", x));
  expect(tensors.get(WEIGHT)?.dtype).toBe("BF16");
  expect(toNumbers(tensors.get(WEIGHT) as ReadTensor)).toEqual(wanted);
  expect(configOf(out).quantization_config).toBeUndefined();
});

it("what holds for both models is noted once", async () => {
  const { plan } = await planRecipe({ method: "soup", models: [await model("awq"), await model("awq", 18)] });
  expect(plan.notes.filter((note) => note.includes("quantised"))).toEqual([
    "models[0], models[1]: 1 quantised tensor (INT4) is read as F16 values; what is computed of them is written so, or as FP8 with dtype fp8",
  ]);
});

it("scales stay with their codes, whatever parts a recipe takes", async () => {
  const models = [await model("ct-fp8-channel"), await model("ct-fp8-channel", 4)];
  for (const part of ["down_proj", "mlp"]) {
    const weightOf = (value: number) => [{ parts: part, value }, { value: 1 - value }];
    const recipe = {
      method: "soup",
      models: models.map((one, i) => ({ model: one, weight: weightOf(i) })),
    } as RecipeInput;
    const { out } = await bench.merge(recipe);
    const found = await valuesIn(out, WEIGHT);
    const wanted = await Promise.all(models.map((one) => valuesIn(one, WEIGHT)));
    const isStored = configOf(out).quantization_config !== undefined;
    const rounded = wanted.map((values) => (isStored ? values : values.map((x) => roundTo("BF16", x))));
    expect(rounded).toContainEqual(found);
  }
});

it("the file of ModelOpt that says how weights are quantised goes with codes only", async () => {
  const models = [await model("modelopt-nvfp4"), await model("modelopt-nvfp4", 4)] as const;
  for (const folder of models) writeFileSync(join(folder, "hf_quant_config.json"), "{}");
  const merged = [
    await bench.merge({ method: "swap", task: models[0], language: models[1], top: 1, bottom: 0 }),
    await bench.merge({ method: "soup", models: [...models] }),
  ];
  expect(merged.map(({ out }) => existsSync(join(out, "hf_quant_config.json")))).toEqual([true, false]);
});

it("two models of bitsandbytes are not averaged", async () => {
  const edit = (tensors: TensorData[]) =>
    tensors.map((one): TensorData => {
      return one.name.includes("proj") ? { ...one, dtype: "U8", shape: [one.data.length, 1] } : one;
    });
  const config = { quantization_config: { quant_method: "bitsandbytes", load_in_4bit: true } };
  const models = await bench.models(2, { edit, config });
  await expect(planRecipe({ method: "soup", models })).rejects.toThrow(
    /quantised \(bitsandbytes\) and only copied, as codes of bitsandbytes are not read, so computing .* would be wrong; use the original model, or load this one in Python/,
  );
});

it.each([
  ["fp8-tensor", "model.layers.1.mlp.down_proj.weight_scale_inv", [3]],
  ["fp8-block", "model.layers.1.mlp.down_proj.weight_scale_inv", [1, 1]],
  ["gptq-order", "model.layers.1.mlp.down_proj.g_idx", [63]],
  ["mxfp4", "model.layers.1.mlp.experts.down_proj_scales", [3, 40, 2]],
  ["modelopt-nvfp4", "model.layers.1.mlp.down_proj.weight_scale_2", undefined],
  ["ct-nvfp4", "model.layers.1.mlp.down_proj.weight_global_scale", undefined],
  ["ct-int4-zeros", "model.layers.1.mlp.down_proj.weight_zero_point", undefined],
] as const)(
  "%s with %s of another shape, or without it, is only copied, and refused by name",
  async (name, part, shape) => {
    const folder = await model(name);
    const stored = await readFolder(folder);
    expect([...stored.keys()]).toContain(part);
    const tensors = [...stored].flatMap(([tensor, { data, ...rest }]): TensorData[] => {
      if (tensor !== part) return [{ name: tensor, dtype: rest.dtype as TensorData["dtype"], shape: rest.shape, data }];
      if (!shape) return [];
      const width = rest.dtype === "U8" ? 1 : /16$/.test(rest.dtype) ? 2 : 4;
      const bytes = shape.reduce<number>((product, extent) => product * extent, width);
      return [{ name: tensor, dtype: rest.dtype as TensorData["dtype"], shape, data: new Uint8Array(bytes) }];
    });
    await writeSharded(folder, tensors);
    const copied = await planRecipe({ method: "soup", models: [folder] });
    expect(copied.plan.notes.join()).toContain(
      `can only be copied, as ${part} ${shape ? "has the shape" : "is missing"}`,
    );
    await expect(planRecipe({ method: "soup", models: [folder, await model(name)] })).rejects.toThrow(
      /is quantised \([\w-]+\) and only copied, as model\.layers\.1\S+ (has|is) .* is read as values; for models\[0\], use the original model/,
    );
  },
);

it("codes that are not read are not converted either", async () => {
  const folder = await model("fp8-tensor");
  const tensors = [...(await readFolder(folder))].flatMap(([name, { dtype, ...rest }]): TensorData[] =>
    name.endsWith("_scale_inv") ? [] : [{ name, dtype: dtype as TensorData["dtype"], ...rest }],
  );
  await writeSharded(folder, tensors);
  await expect(planRecipe({ method: "soup", models: [folder], dtype: "float32" })).rejects.toThrow(
    /quantised \(fp8\) and only copied, as \S+_scale is missing, so computing or converting .* would be wrong; use the original model/,
  );
});

it.each([
  ["zeros", 0, undefined],
  ["a group that does not exist", 9, /g_idx gives column 5 the group 9 of 4; the file is damaged/],
] as const)("GPTQ in order, whose g_idx has %s", async (_, group, refusal) => {
  const folder = await model("gptq");
  const tensors = [...(await readFolder(folder))].map(([name, { dtype, data, shape }]): TensorData => {
    const groups = Int32Array.from({ length: data.length / 4 }, (_, i) => (i === 5 ? group : 0));
    const own = name.endsWith("g_idx") ? new Uint8Array(groups.buffer) : data;
    return { name, dtype: dtype as TensorData["dtype"], shape, data: own };
  });
  await writeSharded(folder, tensors);
  if (refusal) await expect(valuesIn(folder, WEIGHT)).rejects.toThrow(refusal);
  else expect(await valuesIn(folder, WEIGHT)).toEqual(await valuesIn(await model("gptq"), WEIGHT));
});

it.each<[string, object, RegExp, RegExp]>([
  ["gptq", { sym: true }, /x^/, /codes are symmetric, whose stored zeros are all 7 or all 8, but one is \d+/],
  ["gptq-v2", { sym: true }, /x^/, /codes are symmetric, whose stored zeros are all 8, but one is \d+/],
  ["awq", { zero_point: false }, /x^/, /codes are symmetric, whose stored zeros are all 8, but one is \d+/],
  ["gptq-order", {}, /g_idx$/, /g_idx is 0 for every column, but the configuration says desc_act/],
])("%s with settings %j that its values contradict is refused", async (name, change, zeroed, refusal) => {
  const folder = await model(name);
  const tensors = [...(await readFolder(folder))].map(([tensor, { dtype, shape, data }]): TensorData => {
    const own = zeroed.test(tensor) ? new Uint8Array(data.length) : data;
    return { name: tensor, dtype: dtype as TensorData["dtype"], shape, data: own };
  });
  await writeSharded(folder, tensors);
  const config = configOf(folder);
  const settings = { ...config.quantization_config, ...change };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, quantization_config: settings }));
  await expect(valuesIn(folder, WEIGHT)).rejects.toThrow(refusal);
});

it("symmetric GPTQ has its zero in the middle, stored as either version does", async () => {
  const folder = await model("gptq-symmetric");
  const tensors = [...(await readFolder(folder))].map(([tensor, { dtype, shape, data }]): TensorData => {
    const own = tensor.endsWith("qzeros") ? new Uint8Array(data.length).fill(0x77) : data;
    return { name: tensor, dtype: dtype as TensorData["dtype"], shape, data: own };
  });
  await writeSharded(folder, tensors);
  expect(await valuesIn(folder, WEIGHT)).toEqual(await valuesIn(await model("gptq-symmetric"), WEIGHT));
});

it("settings of a text tower that differ keep codes from being copied together", async () => {
  const folders = [await model("gptq"), await model("gptq-v2")];
  const wanted = await valuesIn(folders[1] as string, WEIGHT);
  for (const folder of folders) {
    const { architectures, ...text } = configOf(folder);
    writeFileSync(join(folder, "config.json"), JSON.stringify({ architectures, text_config: text }));
  }
  const [task, language] = folders as [string, string];
  const { tensors, out } = await bench.merge({ method: "swap", task, language, top: 1, bottom: 0 });
  expect(toNumbers(tensors.get(WEIGHT) as ReadTensor)).toEqual(wanted.map((x) => roundTo("F16", x)));
  expect(configOf(out).text_config.quantization_config).toBeUndefined();
});

it("one group for all columns is in order, although GPTQ says desc_act", async () => {
  const [plain, ordered] = [await model("gptq"), await model("gptq")];
  for (const [folder, order] of [
    [plain, false],
    [ordered, true],
  ] as const) {
    const tensors = [...(await readFolder(folder))].map(([name, { dtype, shape, data }]): TensorData => {
      const one = { name, dtype: dtype as TensorData["dtype"] };
      if (name.endsWith("g_idx")) return { ...one, shape, data: new Uint8Array(data.length) };
      if (!/(scales|qzeros)$/.test(name)) return { ...one, shape, data };
      return { ...one, shape: [1, shape[1] ?? 0], data: data.slice(0, data.length / (shape[0] ?? 1)) };
    });
    await writeSharded(folder, tensors);
    const config = configOf(folder);
    const settings = { ...config.quantization_config, group_size: -1, desc_act: order };
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, quantization_config: settings }));
  }
  expect(await valuesIn(ordered, WEIGHT)).toEqual(await valuesIn(plain, WEIGHT));
});

it("MLX is refused by name, and plain weights beside its settings are read", async () => {
  const edit = (tensors: TensorData[]) =>
    tensors.map((one): TensorData => {
      const isWide = one.name.includes("proj") && one.shape.length === 2;
      return isWide
        ? { ...one, dtype: "U32", shape: [one.shape[0] ?? 1, one.data.length / 4 / (one.shape[0] ?? 1)] }
        : one;
    });
  const settings = { bits: 4, group_size: 64 };
  const coded = await bench.models(2, { edit, config: { quantization: settings } });
  await expect(planRecipe({ method: "soup", models: coded })).rejects.toThrow(/as codes of MLX are not read/);
  const left = { quantization: settings, quantization_config: settings };
  const { out, tensors } = await bench.merge({ method: "soup", models: await bench.models(2, { config: left }) });
  expect(Object.keys(configOf(out)).filter((key) => key.startsWith("quant"))).toEqual([]);
  expect(tensors.size).toBeGreaterThan(0);
});

it("models that are only copied are not mixed where their settings differ", async () => {
  const models = [await model("gptq"), await model("gptq", 4)] as const;
  for (const [i, folder] of models.entries()) {
    const config = configOf(folder);
    const settings = { ...config.quantization_config, rotation: `seed ${i}` };
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, quantization_config: settings }));
  }
  const swap = { method: "swap", task: models[0], language: models[1], top: 1, bottom: 0 } as const;
  await expect(planRecipe(swap)).rejects.toThrow(/quantised with different settings \(gptq\) and only copied/);
});

it("plain weights keep the settings of a cache and run; those of BitNet are merged, but not run", async () => {
  const cache = { quant_method: "compressed-tensors", config_groups: {}, kv_cache_scheme: { num_bits: 8 } };
  const online = { quant_method: "bitnet", linear_class: "autobitlinear", quantization_mode: "online" };
  for (const [settings, runs] of [
    [cache, true],
    [online, false],
  ] as const) {
    const models = [await writeWide(bench.next("plain"), 1), await writeWide(bench.next("plain"), 2)];
    const plain = await openModel(models[0] as string);
    const wanted = await plain.score("abcdefg");
    await plain.close();
    for (const folder of models) {
      writeFileSync(
        join(folder, "config.json"),
        JSON.stringify({ ...configOf(folder), quantization_config: settings }),
      );
    }
    const { out } = await bench.merge({ method: "soup", models });
    expect(configOf(out).quantization_config).toEqual(settings);
    for (const source of [models[0] as string, { method: "soup", models: [models[0] as string] } as RecipeInput]) {
      if (runs) {
        await using opened = await openModel(source);
        expect(await opened.score("abcdefg")).toEqual(wanted);
      } else
        await expect(openModel(source)).rejects.toThrow(/bitnet quantises its weights and their inputs while it runs/);
    }
  }
});

it("explain names what to do with a merged model that is quantised", async () => {
  const [merged, one, other] = [await model("fp8-block"), await model("fp8-block", 1), await model("fp8-block", 2)];
  await expect(explain(merged, { from: [one, other] })).rejects.toThrow(
    /is quantised: its codes cannot be sums of others\. Write it as values first: layergraft export \S+ --format hf --type bfloat16 --out FOLDER$/,
  );
});

it("a stack of layers keeps codes, a mixture, whose experts have other names, is written as values", async () => {
  const edit = (tensors: TensorData[]) =>
    tensors.flatMap((tensor): TensorData[] => {
      if (!tensor.name.includes("proj")) return [tensor];
      const codes = tensor.data.filter((_, i) => i % 2 === 0).map((byte) => byte & 0xbf);
      const scale = encodeValues([0.5], "F32");
      const scales: TensorData = { name: `${tensor.name}_scale_inv`, dtype: "F32", shape: [1, 1], data: scale };
      return [{ ...tensor, dtype: "F8_E4M3", data: codes }, scales];
    });
  const models = await bench.models(2, { edit, config: { quantization_config: { quant_method: "fp8" } } });
  const [backbone = "", other = ""] = models;
  const slices = [
    { model: backbone, layers: "0-1" },
    { model: other, layers: "0" },
  ];
  const stack = await planRecipe({ method: "passthrough", slices });
  expect(stack.asStored?.plan.steps.filter(({ tensor }) => tensor.endsWith("_scale_inv"))).toHaveLength(3 * 7);
  const moe = await planRecipe({
    method: "moe",
    backbone,
    models: [backbone, other],
    gate_mode: "random",
  } as RecipeInput);
  expect(moe.asStored).toBeUndefined();
  expect(new Set(moe.plan.steps.map(({ dtype }) => dtype))).toEqual(new Set(["BF16"]));
});

it("AWQ weights of more rows than are read at once", async () => {
  const [rows, columns, size] = [72, 65_536, 32_768];
  const codes = (seed: number, count: number) =>
    Uint8Array.from({ length: count / 2 }, (_, i) => (i * seed) ^ (i >> 7));
  const [weights, zeros] = [codes(37, rows * columns), codes(11, rows * 2)];
  const scales = encodeValues(
    Array.from({ length: rows * 2 }, (_, i) => (i + 1) / 512),
    "F16",
  );
  const folder = bench.next("awq");
  mkdirSync(folder);
  const stem = "model.layers.1.mlp.down_proj";
  await writeSharded(folder, [
    { name: "model.layers.0.mlp.down_proj.weight", dtype: "F16", shape: [1, 1], data: new Uint8Array(2) },
    { name: `${stem}.qweight`, dtype: "I32", shape: [columns, rows / 8], data: weights },
    { name: `${stem}.qzeros`, dtype: "I32", shape: [2, rows / 8], data: zeros },
    { name: `${stem}.scales`, dtype: "F16", shape: [2, rows], data: scales },
  ]);
  const settings = { quant_method: "awq", bits: 4, group_size: size, version: "gemm" };
  const config = { model_type: "llama", num_hidden_layers: 2, torch_dtype: "float16", quantization_config: settings };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const { tensors } = await bench.merge({ method: "soup", models: [folder], dtype: "float16" });
  const halves = new Uint16Array(tensors.get(WEIGHT)?.data.slice().buffer as ArrayBuffer);
  const scaleOf = decodeValues(scales, "F16");
  const nibble = (bytes: Uint8Array, line: number, row: number) => {
    const place = line * rows + (row & ~7) + ([0, 4, 1, 5, 2, 6, 3, 7][row & 7] as number);
    return ((bytes[place >> 1] as number) >> (4 * (place & 1))) & 15;
  };
  const wrong: number[] = [];
  for (let row = 0; row < rows; row++) {
    for (let column = row % 7; column < columns; column += 61) {
      const group = Math.floor(column / size);
      const value =
        (nibble(weights, column, row) - nibble(zeros, group, row)) * (scaleOf[group * rows + row] as number);
      const [found] = decodeValues(
        new Uint8Array(halves.slice(row * columns + column, row * columns + column + 1).buffer),
        "F16",
      );
      if (found !== roundTo("F16", value)) wrong.push(row);
    }
  }
  expect(wrong).toEqual([]);
});

it("an adapter is added to the values of a quantised base", async () => {
  const quantised = await model("fp8-block");
  const { out: plain } = await bench.merge({ method: "soup", models: [quantised], dtype: "float32" });
  const adapter = bench.next("adapter");
  const module = "base_model.model.model.layers.1.mlp.down_proj";
  mkdirSync(adapter);
  await writeSharded(adapter, [
    seededTensor(`${module}.lora_A.weight`, [2, 136], 1, "F32"),
    seededTensor(`${module}.lora_B.weight`, [130, 2], 2, "F32"),
  ]);
  renameSync(join(adapter, "model.safetensors"), join(adapter, "adapter_model.safetensors"));
  const settings = { peft_type: "LORA", r: 2, lora_alpha: 4, target_modules: ["down_proj"] };
  writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify(settings));
  const [a, b] = await Promise.all([quantised, plain].map((base) => valuesIn(`${base}+${adapter}`, WEIGHT)));
  expect(a).toEqual(b);
  expect(a).not.toEqual(await valuesIn(plain, WEIGHT));
});

it("a quantised model is scored and exported as its values are", async () => {
  const folder = await writeWide(bench.next("wide"), 1);
  const quantised = [...(await readFolder(folder))].flatMap(([name, { dtype, shape, data }]): TensorData[] => {
    if (!name.includes("proj")) return [{ name, dtype: dtype as TensorData["dtype"], shape, data }];
    const codes = data.filter((_, i) => i % 2 === 0).map((byte) => byte & 0xbf);
    const scale = encodeValues([0.0137], "F32");
    return [
      { name, dtype: "F8_E4M3", shape, data: codes },
      { name: `${name}_scale`, dtype: "F32", shape: [], data: scale },
    ];
  });
  await writeSharded(folder, quantised);
  const settings = { torch_dtype: "bfloat16", quantization_config: { quant_method: "fp8" } };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...configOf(folder), ...settings }));
  const { out: plain } = await bench.merge({ method: "soup", models: [folder], dtype: "bfloat16" });
  const [a, b] = await Promise.all(
    [folder, plain].map(async (source) => {
      const { out } = await exportModel({ source, type: "bf16", out: `${bench.next("export")}.gguf` });
      await using opened = await openModel(source);
      return { tensors: readGguf(out).tensors, score: await opened.score("abcdefg") };
    }),
  );
  expect(a?.tensors).toEqual(b?.tensors);
  expect(a?.score).toEqual(b?.score);
});

describe("on the hub", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  // Of the ways to store codes; others of a way differ in what their numbers mean.
  const ways = ["awq", "gptq-order", "ct-int4-zeros", "fp8-block", "mxfp4", "ct-nvfp4"];
  const areStreamed = async (names: readonly string[]) => {
    const hub = await FakeHub.start();
    const endpoint = {
      HF_ENDPOINT: hub.endpoint,
      HF_HOME: bench.next("home"),
      HF_HUB_OFFLINE: "0",
      HF_HUB_CACHE: "",
      HF_TOKEN: "",
    };
    for (const [variable, value] of Object.entries(endpoint)) vi.stubEnv(variable, value);
    for (const name of names) {
      const here = await model(name);
      hub.push(`org/${name}`, here);
      const plan = await planRecipe(
        { method: "soup", models: [`org/${name}`], dtype: "float32" },
        { folder: bench.folder, hub: { fetch: "stream", retryDelay: 1 } },
      );
      const { out } = await executePlan(plan, { out: bench.next("streamed") });
      const { tensors } = await bench.merge({ method: "soup", models: [here], dtype: "float32" });
      const streamed = await readFolder(out);
      expect([...streamed.keys()]).toEqual([...tensors.keys()]);
      for (const [tensor, { data }] of tensors) {
        expect(Buffer.from(data).equals(streamed.get(tensor)?.data ?? new Uint8Array()), `${name} ${tensor}`).toBe(
          true,
        );
      }
    }
  };
  it("quantised models are streamed to the same values", () => areStreamed(ways));
  it("others are, too", { tags: ["slow"] }, () => areStreamed(cases.filter((name) => !ways.includes(name))));
});
