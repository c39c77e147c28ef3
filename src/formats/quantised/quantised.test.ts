// What settings say against what tensors are, by headers alone. Values of whole files: test/quantised.test.ts.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { elementCount, type JsonObject } from "../../kit/index.js";
import { openSafetensors } from "../safetensors/index.js";
import type { QuantisedTensor } from "./coded.js";
import { isCodes } from "./parts.js";
import { readQuantised, readShapes, WRITERS } from "./quantised.js";
import { matches } from "./scheme.js";
import { describeKnown } from "./settings.js";

const MODULE = "model.layers.1.mlp.down_proj";
const FIXTURES = join(import.meta.dirname, "../../../test/fixtures/quantised");
const cases = readdirSync(FIXTURES, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? [one.name] : []));

async function load(name: string) {
  const file = await openSafetensors(join(FIXTURES, name, "model.safetensors"));
  const stored = file.tensors.map((tensor): QuantisedTensor => ({ ...tensor, file }));
  const { quantization_config: settings } = JSON.parse(readFileSync(join(FIXTURES, name, "config.json"), "utf8"));
  return { stored, settings: settings as JsonObject | undefined, shapes: await readShapes(stored) };
}

type Loaded = Awaited<ReturnType<typeof load>>;
const read = ({ stored, settings, shapes }: Loaded) => readQuantised(stored, settings, "BF16", shapes);
function problemOf(loaded: Loaded): string {
  const found = read(loaded);
  return found && "problem" in found ? found.problem : `read: ${JSON.stringify(found && Object.keys(found))}`;
}
const withSettings = (loaded: Loaded, change: JsonObject): Loaded => ({
  ...loaded,
  settings: { ...loaded.settings, ...change },
});
const changed = (loaded: Loaded, part: string, change: (one: QuantisedTensor) => QuantisedTensor[]): Loaded => {
  const names = loaded.stored.filter(({ name }) => name.endsWith(part));
  expect(names).not.toEqual([]);
  return { ...loaded, stored: loaded.stored.flatMap((one) => (one.name.endsWith(part) ? change(one) : [one])) };
};

describe.each(cases)("%s", (name) => {
  it("is read, and each unknown key is refused by name", async () => {
    const loaded = await load(name);
    expect(problemOf(loaded)).toBe('read: ["tensors","note"]');
    if (!loaded.settings) return;
    expect(problemOf(withSettings(loaded, { rotation_config: { hadamard: 64 } }))).toContain("rotation_config");
    const groups = Object.entries((loaded.settings.config_groups ?? {}) as Record<string, JsonObject>);
    for (const [key, group] of groups) {
      const inGroup = { ...group, transform: "hadamard" };
      const inWeights = { ...group, weights: { ...(group.weights as JsonObject), permuted: true } };
      for (const [what, where] of [
        [inGroup, "transform"],
        [inWeights, "weights.permuted"],
      ] as const) {
        const config_groups = { ...(loaded.settings.config_groups as JsonObject), [key]: what };
        expect(problemOf(withSettings(loaded, { config_groups }))).toContain(`config_groups.${key}.${where}`);
      }
    }
  });

  it("a part of another dtype or shape, or none, is refused by name", async () => {
    const loaded = await load(name);
    const modules = new Set(loaded.stored.filter(isCodes).map((one) => one.name.replace(/[^.]+$/, "")));
    const parts = loaded.stored.filter((one) => {
      const isPlain = /(activation_scale|input_scale|k_scale|gate\.weight)$/.test(one.name);
      return !isPlain && modules.has(one.name.replace(/[^.]+$/, ""));
    });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) {
      const to = (one: Partial<QuantisedTensor>): Loaded => changed(loaded, part.name, (old) => [{ ...old, ...one }]);
      expect(problemOf(to({ dtype: "I64", ...(part.dtype === "I64" ? { dtype: "F32" } : {}) }))).toContain(part.name);
      if (!isCodes(part)) expect(problemOf(to({ dtype: "F64" }))).toContain(part.name);
      expect(problemOf(to({ shape: [...part.shape, 3] }))).toContain(part.name);
      const isOptional = /weight_shape$|g_idx$/.test(part.name) && name !== "gptq-order";
      if (!isOptional) expect(problemOf(changed(loaded, part.name, () => []))).toMatch(/is missing|finds no codes for/);
    }
    const [codes] = loaded.stored.filter(isCodes);
    const flat = changed(loaded, codes?.name ?? "", (one) => [{ ...one, shape: [elementCount(one.shape)] }]);
    expect(problemOf(flat)).toMatch(/has the shape|finds no codes for|does not know what/);
    const beside = `${codes?.name.replace(/_(packed|blocks)$/, "")}_permutation`;
    const more = {
      ...loaded,
      stored: [...loaded.stored, { ...(codes as QuantisedTensor), name: beside, dtype: "F32" as const }],
    };
    expect(problemOf(more)).toContain(beside);
  });
});

it.each<[string, JsonObject, RegExp]>([
  ["gptq", { checkpoint_format: "marlin" }, /checkpoint_format "marlin"/],
  ["gptq", { checkpoint_format: "gptq", format: "gptq_v2" }, /gptq and gptq_v2/],
  ["gptq", { bits: 3 }, /bits 3/],
  ["gptq", { bits: 8 }, /scales has the shape/],
  ["gptq", { sym: null }, /no sym/],
  ["gptq", { group_size: 32 }, /scales has the shape \[4, 40\], not \[2, 40\]/],
  ["gptq", { dynamic: { "-:.*down_proj": {} } }, /leaves out model\.layers\.1\.mlp\.down_proj/],
  ["gptq", { dynamic: { "(.*)*": {} } }, /does not try the pattern/],
  ["gptq", { adapter: { name: "lora" } }, /adapter \{"name":"lora"\}/],
  ["awq", { version: "gemv" }, /version "gemv"/],
  ["awq", { group_size: 24 }, /64 columns, which do not fill groups of 24/],
  ["auto-round-4", { packing_format: "auto_round:marlin" }, /packing_format "auto_round:marlin"/],
  ["auto-round-4", { packing_format: null }, /no packing_format/],
  ["auto-round-4", { extra_config: { "model.layers.1.mlp.down_proj": { bits: 16 } } }, /leaves out/],
  ["ct-int4", { transform_config: { config_groups: { u: {} } } }, /transform_config/],
  ["ct-int4", { sparsity_config: { format: "sparse-24-bitmask" } }, /sparsity_config/],
  ["ct-int4", { ignore: ["re:.*down_proj"] }, /ignore of the configuration names .*down_proj/],
  ["fp8-block", { weight_block_size: [64, 64] }, /weight_scale_inv has the shape \[2, 2\], not \[3, 3\]/],
  ["fp8-block", { expert_dtype: "fp4" }, /expert_dtype "fp4"/],
  ["modelopt-nvfp4", { quant_algo: "W4A16_AWQ" }, /quant_algo "W4A16_AWQ"/],
  ["gptq", { quant_method: "hqq" }, /does not know how hqq stores weights/],
  ["gptq", { quant_method: "torchao" }, /does not know how torchao stores weights/],
  ["ct-int4", { ignore: ["re:(a+)+"] }, /does not try the pattern "\(a\+\)\+"/],
  ["ct-int4", { sparsity_config: { format: "dense", mask: "2:4" } }, /sparsity_config\.mask/],
  ["fp8-block", { modules_to_not_convert: [MODULE] }, /modules_to_not_convert of the configuration names/],
  ["modelopt-nvfp4", { exclude_modules: ["lm_head*", "*.down_proj"] }, /exclude_modules of the configuration names/],
  ["modelopt-nvfp4", { quant_algo: "MXFP8" }, /quant_algo "MXFP8"/],
  ["gptq", { quant_method: null }, /no quant_method/],
])("%s with %j is refused by what is unknown or contradicts", async (name, change, problem) => {
  expect(problemOf(withSettings(await load(name), change))).toMatch(problem);
});

/** As transformers 5 writes of every GPTQ and AWQ. */
const ALWAYS = {
  ...{ tokenizer: null, dataset: null, damp_percent: 0.1, desc_act: false, act_group_aware: true, sym: true },
  ...{ true_sequential: true, meta: null, backend: "auto", batch_size: 1, cache_block_outputs: true },
};
const FROM_AUTO_ROUND = {
  ...{ autoround_version: "0.9.0", iters: 200, low_gpu_mem_usage: true, provider: "auto-round", data_type: "int" },
};
const DENSE = { format: "dense", global_sparsity: 0.14, sparsity_structure: "unstructured", targets: [], ignore: [] };

it.each<[string, JsonObject]>([
  ["awq", { ...ALWAYS, format: "gemm", version: "gemm" }],
  ["awq", FROM_AUTO_ROUND],
  ["gptq", { ...ALWAYS, sym: false, format: "gptq", checkpoint_format: "gptq" }],
  ["gptq", FROM_AUTO_ROUND],
  ["auto-round-gptq", { iters: 0, model_free: true, extra_config: { "layers.0.ffn.gate": { bits: 16 } } }],
  ["ct-int4", { sparsity_config: DENSE, transform_config: {} }],
  ["modelopt-nvfp4", { quant_algo: "W4A16_NVFP4", exclude_modules: ["lm_head*", "*.q_proj"] }],
])("%s with %j, as it is published, is read", async (name, change) => {
  expect(problemOf(withSettings(await load(name), change))).toBe('read: ["tensors","note"]');
});

it("codes of MLX, whose settings name no writer, are refused", async () => {
  const { stored, ...loaded } = await load("awq");
  const codes = stored.map((one) => ({ ...one, name: one.name.replace("qweight", "weight") }));
  expect(problemOf({ ...loaded, stored: codes, settings: { bits: 4, group_size: 64 } })).toBe(
    "codes of MLX are not read",
  );
});

it("NVFP4 that is stored transposed is refused by its scales", async () => {
  const codes = changed(await load("modelopt-nvfp4"), "down_proj.weight", (one) => [{ ...one, shape: [32, 24] }]);
  expect(problemOf(codes)).toMatch(/weight_scale has the shape \[24, 4\], not \[32, 3\]/);
});

it("scales of a square matrix that are transposed are refused", async () => {
  const loaded = await load("ct-int4");
  const square = { ...loaded, shapes: new Map([["model.layers.1.mlp.down_proj.weight", [64, 64]]]) };
  const resized = (scales: readonly number[]) =>
    changed(
      changed(square, "weight_packed", (one) => [{ ...one, shape: [64, 8] }]),
      "weight_scale",
      (one) => [{ ...one, shape: [...scales] }],
    );
  expect(problemOf(resized([64, 4]))).toContain("read");
  expect(problemOf(resized([4, 64]))).toMatch(/weight_scale has the shape \[4, 64\], not \[64, 4\]/);
});

it("scales by column, and rows whose length nothing states, are refused for plain matrices", async () => {
  const channel = await load("ct-fp8-channel");
  const fbgemm = { ...channel, settings: { quant_method: "fbgemm_fp8" } };
  expect(problemOf(fbgemm)).toContain("read");
  const transposed = changed(fbgemm, "weight_scale", (one) => [{ ...one, shape: [1, 64] }]);
  expect(problemOf(transposed)).toMatch(/weight_scale has the shape \[1, 64\], not \[24, 1\]/);
  const padded = changed(await load("ct-int4-padded"), "weight_shape", () => []);
  expect(problemOf({ ...padded, shapes: new Map() })).toBe(`${MODULE}.weight_shape is missing`);
});

it("one of several modules without the order of its columns is refused", async () => {
  const { stored, ...others } = await load("gptq-order");
  const twice = stored.flatMap((one) =>
    one.name.includes("layers.1") ? [one, { ...one, name: one.name.replace("layers.1", "layers.2") }] : [one],
  );
  expect(problemOf({ ...others, stored: twice })).toContain("read");
  const lacking = changed({ ...others, stored: twice }, "layers.2.mlp.down_proj.g_idx", () => []);
  expect(problemOf(lacking)).toBe("model.layers.2.mlp.down_proj.g_idx is missing");
});

it("modules that are left out do not stand for others whose names begin alike", async () => {
  const loaded = await load("fp8-block");
  expect(problemOf(withSettings(loaded, { modules_to_not_convert: ["mlp.down", "model.layers.1"] }))).toContain("read");
});

describe("settings without codes", () => {
  const plain = async (settings: JsonObject, scales = false): Promise<Loaded> => {
    const { stored, shapes } = await load("gptq");
    const own = stored.filter(({ name }) => !/down_proj\.(qweight|qzeros|scales|g_idx)$/.test(name));
    const [one] = own;
    const more = scales && one ? [{ ...one, name: "model.layers.0.mlp.down_proj.weight_scale" }] : [];
    return { stored: [...own, ...more], settings, shapes };
  };

  it.each<[JsonObject, boolean]>([
    [{ quant_method: "bitnet", linear_class: "autobitlinear", quantization_mode: "online" }, true],
    [
      { quant_method: "compressed-tensors", format: "dense", config_groups: {}, kv_cache_scheme: { num_bits: 8 } },
      true,
    ],
    [{ quant_method: "modelopt", kv_cache_quant_algo: "FP8" }, true],
    [{ quant_method: "gptq", bits: 4 }, false],
    [{ quant_method: "bitsandbytes", load_in_4bit: true }, false],
    [{ bits: 4, group_size: 64 }, false],
  ])("%j are read as plain weights", async (settings, keeps) => {
    expect(read(await plain(settings))).toMatchObject({ plain: true, keeps });
  });

  it("an unknown key is refused all the same, and scales of plain weights", async () => {
    expect(problemOf(await plain({ quant_method: "gptq", rotation: "hadamard" }))).toMatch(/rotation "hadamard"/);
    expect(problemOf(await plain({ quant_method: "fp8" }, true))).toMatch(/finds no codes for .*weight_scale/);
  });
});

it("patterns that could take exponential time are not tried", () => {
  for (const pattern of ["(a+)+$", "a["]) expect(() => matches(pattern, "aaaa")).toThrow(/does not try the pattern/);
  expect([matches(".*q_proj", "model.q_proj"), matches("q_proj", "model.q_proj")]).toEqual([true, false]);
});

it("every key of every page has words for the table", () => {
  for (const { keys } of WRITERS) {
    for (const known of Object.values(keys)) expect(describeKnown(known)).not.toBe("");
  }
});
