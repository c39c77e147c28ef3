// FOLDER+ADAPTER against PEFT's merges and plain arithmetic, and rejected adapters.
// @module-tag slow
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type FloatDType, type ReadTensor, seededTensor } from "../../../test/support/checkpoints.js";
import { Bench, type Tensors } from "../../../test/support/merging.js";
import { readFolder, roundTo, toNumbers } from "../../../test/support/numbers.js";
import { addLowRank } from "../../../test/support/plain-kernels.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor, type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "./planner.js";

const bench = new Bench();
const fixture = (...path: string[]) => join(fileURLToPath(new URL("../../../test/fixtures", import.meta.url)), ...path);

async function readFile(path: string): Promise<Map<string, ReadTensor>> {
  const file = await openSafetensors(path);
  const all = new Map<string, ReadTensor>();
  for (const tensor of file.tensors) all.set(tensor.name, { ...tensor, data: await readTensor(file, tensor) });
  return all;
}

// ---- adapters of our own ----

const PREFIX = "base_model.model.";

interface Factors {
  readonly module: string;
  readonly input: number;
  readonly output: number;
  readonly rank: number;
  readonly embedding?: boolean;
}

/** The two factors as PEFT names them. */
function factors({ module, input, output, rank, embedding }: Factors, seed: number, dtype: FloatDType = "F32") {
  const name = (side: string) => `${PREFIX}${module}.lora_${embedding ? `embedding_${side}` : `${side}.weight`}`;
  return [
    seededTensor(name("A"), [rank, input], seed, dtype),
    seededTensor(name("B"), [output, rank], seed + 1, dtype),
  ];
}

async function writeAdapter(tensors: readonly TensorData[], config: Record<string, unknown> = {}): Promise<string> {
  const folder = bench.next("adapter");
  mkdirSync(folder);
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  const defaults = { peft_type: "LORA", r: 2, lora_alpha: 3, use_dora: false, layer_replication: null, bias: "none" };
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...defaults, ...config }));
  return folder;
}

/** W + scale * (B A), or its transpose, with the plain kernel; then rounded. */
function adapted(weight: ReadTensor, [a, b]: readonly ReadTensor[], scale: number, transposed: boolean): number[] {
  const [rows, columns] = weight.shape as [number, number];
  const rank = a?.shape[0] as number;
  const [flatA, flatB] = [toNumbers(a as ReadTensor), toNumbers(b as ReadTensor)];
  // The plain kernel takes [rows, rank] and [rank, columns].
  const left = Float32Array.from({ length: rows * rank }, (_, i) =>
    transposed ? (flatA[(i % rank) * rows + Math.floor(i / rank)] as number) : (flatB[i] as number),
  );
  const right = Float32Array.from({ length: rank * columns }, (_, i) =>
    transposed ? (flatB[(i % columns) * rank + Math.floor(i / columns)] as number) : (flatA[i] as number),
  );
  const sum = Float32Array.from(toNumbers(weight));
  addLowRank(sum, left, right, rows, columns, rank, scale);
  return Array.from(sum, (x) => roundTo(weight.dtype as FloatDType, x));
}

function expectAdapted(
  found: Tensors,
  base: Tensors,
  adapter: Tensors,
  scaleOf: (name: string) => number,
  fanInFanOut = false,
) {
  expect([...found.keys()]).toEqual([...base.keys()]);
  let count = 0;
  for (const [name, tensor] of found) {
    const weight = base.get(name) as ReadTensor;
    const module = `${PREFIX}${name.replace(/\.weight$/, "")}`;
    const pick = (side: string) =>
      ["", "embedding_"].map((kind) => adapter.get(`${module}.lora_${kind}${side}${kind ? "" : ".weight"}`));
    const [a, b] = [pick("A").find(Boolean), pick("B").find(Boolean)];
    if (!a || !b) {
      expect(Buffer.compare(tensor.data, weight.data), `${name}, copied`).toBe(0);
      continue;
    }
    count++;
    const transposed = fanInFanOut || adapter.has(`${module}.lora_embedding_A`);
    const wanted = adapted(weight, [a, b], scaleOf(name), transposed);
    expect(
      toNumbers(tensor).findIndex((x, i) => !Object.is(x, wanted[i])),
      name,
    ).toBe(-1);
  }
  expect(count).toBe([...adapter.keys()].filter((name) => /lora_(embedding_)?A/.test(name)).length);
}

const mergeOne = async (base: string, adapter: string) =>
  (await bench.merge({ method: "soup", models: [`${base}+${adapter}`] })).tensors;

describe("what PEFT merges", () => {
  // PEFT multiplies with the machine's matrix product, whose order of summation is its own; the rest is rounding of
  // float32 (6e-8). Per case: the largest error, in proportion to the largest value of its tensor, as measured.
  it.each([
    ["plain scale", "lora/base", "lora", 21, 1e-7],
    ["rank-stabilised scale", "lora/base", "rslora", 21, 1e-7],
    ["GPT-2: [in, out] weights, square ones too, and an embedding", "peft/gpt2/base", "peft/gpt2", 9, 1.6e-7],
    [
      "ranks and scales by pattern, an embedding, a head saved whole",
      "peft/patterns/base",
      "peft/patterns",
      14,
      2.7e-7,
    ],
    ["a multimodal model, whose names in memory are others", "peft/wrapper/base", "peft/wrapper", 7, 1e-6],
    ["DoRA", "peft/dora/base", "peft/dora", 7, 1e-6],
    ["all experts' matrices, stored one by one", "peft/experts/base", "peft/experts", 20, 1e-6],
    ["all experts' matrices, [in, out], square ones too", "peft/experts-in-out/base", "peft/experts-in-out", 4, 1e-6],
    ["an enlarged vocabulary, with original_module", "peft/enlarged/base", "peft/enlarged", 4, 1e-6],
    ["an enlarged vocabulary of tied embeddings", "peft/enlarged-tied/base", "peft/enlarged-tied", 3, 1e-6],
    ["rows of trained tokens", "peft/tokens/base", "peft/tokens", 3, 1e-6],
  ])("%s", async (_, base, folder, changed, tolerance) => {
    const found = await mergeOne(fixture(base), fixture(folder, "adapter"));
    const wanted = await readFile(fixture(folder, "expected.safetensors"));
    const before = await readFolder(fixture(base));
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    const differing = [...found].filter(
      ([name, { data }]) => Buffer.compare(data, before.get(name)?.data ?? data) !== 0,
    );
    expect(differing.length).toBe(changed);
    for (const [name, tensor] of found) {
      const [x, y] = [toNumbers(tensor), toNumbers(wanted.get(name) as ReadTensor)];
      expect([tensor.dtype, tensor.shape]).toEqual(["F32", wanted.get(name)?.shape]);
      const largest = y.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const worst = x.reduce((most, value, i) => Math.max(most, Math.abs(value - (y[i] as number))), 0);
      expect(worst, name).toBeLessThanOrEqual(tolerance * largest);
    }
  });
});

describe("the arithmetic of an adapter", () => {
  const q = (layer: number, rank = 2): Factors => ({
    module: `model.layers.${layer}.self_attn.q_proj`,
    input: 8,
    output: 8,
    rank,
  });
  const down: Factors = { module: "model.layers.1.mlp.down_proj", input: 12, output: 8, rank: 2 };
  const k: Factors = { module: "model.layers.0.self_attn.k_proj", input: 8, output: 4, rank: 2 };

  it.each([
    ["BF16", "BF16"],
    ["BF16", "F32"],
    ["F16", "F16"],
    ["F32", "BF16"],
  ] as const)("on %s with factors in %s is float32, rounded once", async (dtype, factorDType) => {
    const base = await bench.model({ dtype });
    const adapter = await writeAdapter([q(0), q(1), down, k].flatMap((at, i) => factors(at, 50 + 2 * i, factorDType)));
    const [before, added] = [await readFolder(base), await readFolder(adapter)];
    expectAdapted(await mergeOne(base, adapter), before, added, () => 1.5);
  });

  it("is added before a conversion, with one rounding", async () => {
    const base = await bench.model({ dtype: "F32" });
    const adapter = await writeAdapter(factors(down, 9), { use_rslora: true });
    const { tensors } = await bench.merge({ method: "soup", models: [`${base}+${adapter}`], dtype: "bfloat16" });
    const [weight, [a, b]] = [
      (await readFolder(base)).get(`${down.module}.weight`),
      [...(await readFolder(adapter)).values()],
    ];
    const exact = adapted(weight as ReadTensor, [a, b] as ReadTensor[], 3 / Math.sqrt(2), false);
    expect(toNumbers(tensors.get(`${down.module}.weight`) as ReadTensor)).toEqual(exact.map((x) => roundTo("BF16", x)));
  });

  const expectInBothOrders = async (rows: number, columns: number, rank: number, dtype: FloatDType) => {
    const module = "model.layers.1.mlp.up_proj";
    const edit = (tensors: TensorData[]) =>
      tensors.map((tensor) =>
        tensor.name === `${module}.weight` ? seededTensor(tensor.name, [rows, columns], 77, dtype) : tensor,
      );
    const base = await bench.model({ dtype, edit });
    const before = await readFolder(base);
    for (const transposed of [false, true]) {
      const [input, output] = transposed ? [rows, columns] : [columns, rows];
      const config = { r: rank, fan_in_fan_out: transposed };
      const adapter = await writeAdapter(factors({ module, input, output, rank }, 5, dtype), config);
      const opened = await planRecipe({ method: "soup", models: [`${base}+${adapter}`] });
      const { out } = await executePlan(opened, { out: bench.next("out"), threads: transposed ? 1 : 3 });
      expectAdapted(await readFolder(out), before, await readFolder(adapter), () => 3 / rank, transposed);
    }
  };

  // Larger than one block of 65,536 elements.
  it("on a weight of several blocks in rows, and as [in, out], on several threads", () =>
    expectInBothOrders(300, 512, 8, "BF16"));
  it("on a long weight, and on one that is larger than one piece of 2,097,152 elements", {
    tags: ["slow"],
  }, async () => {
    await expectInBothOrders(70_000, 4, 3, "F32");
    await expectInBothOrders(5000, 450, 2, "BF16");
  });

  it("of an embedding is transposed, with any fan_in_fan_out", async () => {
    const embedding: Factors = { module: "model.embed_tokens", input: 20_000, output: 8, rank: 4, embedding: true };
    const base = await bench.model({ vocabulary: 20_000, tied: true });
    for (const fan_in_fan_out of [false, true]) {
      const adapter = await writeAdapter(factors(embedding, 3), { r: 4, lora_alpha: 8, fan_in_fan_out });
      expectAdapted(await mergeOne(base, adapter), await readFolder(base), await readFolder(adapter), () => 2);
    }
  });

  it("replaces tensors saved whole, such as a head or a bias, under every name PEFT uses", async () => {
    const bias = "model.layers.0.self_attn.q_proj.bias";
    const base = await bench.model({ edit: (tensors) => [...tensors, seededTensor(bias, [8], 1)] });
    const head = (name: string) => seededTensor(`${PREFIX}${name}`, [24, 8], 31);
    for (const [headName, biasName] of [
      ["lm_head.weight", "model.layers.0.self_attn.q_proj.base_layer.bias"],
      ["lm_head.modules_to_save.weight", bias],
      ["lm_head.modules_to_save.default.weight", bias],
      ["lm_head.base_layer.weight", bias],
    ] as const) {
      const tensors = [head(headName), seededTensor(`${PREFIX}${biasName}`, [8], 32), ...factors(q(0), 4)];
      const found = await mergeOne(base, await writeAdapter(tensors));
      expect(found.get("lm_head.weight")?.data, headName).toEqual(tensors[0]?.data);
      expect(found.get(bias)?.data, biasName).toEqual(tensors[1]?.data);
    }
  });

  it("may be on either side of a swap, and in a soup by magnitude", async () => {
    const base = await bench.model({ dtype: "F32" });
    const sides = [
      await writeAdapter([q(0), q(1), down].flatMap((at, i) => factors(at, 60 + i))),
      await writeAdapter(factors(q(0, 4), 70), { r: 4 }),
    ];
    const [task = "", language = ""] = sides.map((adapter) => `${base}+${adapter}`);
    const before = await readFolder(base);
    const value = async (side: number, name: string) => {
      const added = await readFolder(sides[side] as string);
      const pair = ["A", "B"].map((x) => added.get(`${PREFIX}${name.replace(".weight", "")}.lora_${x}.weight`));
      const weight = before.get(name) as ReadTensor;
      return pair[0] ? adapted(weight, pair as ReadTensor[], side ? 0.75 : 1.5, false) : toNumbers(weight);
    };
    const swapped = await bench.merge({ method: "swap", task, language, bottom: 1, top: 0 });
    for (const [name, tensor] of swapped.tensors) {
      const wanted = await value(name.includes("layers.0.") ? 1 : 0, name);
      expect(toNumbers(tensor), name).toEqual(wanted);
    }
    const transition = { method: "swap" as const, task, language, bottom: 0, bottom_transition: 1, top: 0 };
    const averaged = (await bench.merge({ ...transition, weights: [2, 1] })).tensors.get(`${q(0).module}.weight`);
    const [x, y] = [await value(0, `${q(0).module}.weight`), await value(1, `${q(0).module}.weight`)];
    const f = Math.fround;
    expect(toNumbers(averaged as ReadTensor)).toEqual(x.map((a, i) => f(f(f(2 * a) + (y[i] as number)) / 3)));

    const { measured } = await bench.merge({ method: "soup", models: [task, language], base, weights: "magnitude" });
    let [rows, sum] = [0, 0];
    for (const [name, tensor] of before) {
      const [out, columns] =
        tensor.shape.length > 1 ? (tensor.shape as [number, number]) : [tensor.shape[0] as number, 1];
      const [w, moved] = [toNumbers(tensor), await value(0, name)];
      sum += moved.reduce((total, v, i) => total + Math.abs(v - (w[i] as number)), 0) / out;
      rows += columns;
    }
    expect(Math.abs((measured["magnitude of models[0] against base"]?.[0] ?? 0) / (sum / rows) - 1)).toBeLessThan(1e-6);
  });

  it.each([
    [{ "layers.1.self_attn.q_proj": 5 }, [3, 5, 3]],
    [{ q_proj: 5 }, [5, 5, 5]],
    [{ _proj: 5, roj: 5, "model.layers.1.self_attn": 5 }, [3, 3, 3]], // whole components, to the end
    [{ "layers\\.[02]\\..*": 5 }, [5, 3, 5]],
    [{ "model.layers.(0|1).self_attn.(q|k)_proj": 5 }, [5, 5, 3]],
    [{ "^model.layers.2.self_attn.q_proj": 5 }, [3, 3, 5]],
    [{ "(model\\.)?layers\\.\\d+\\.(self_attn\\.)*q_proj": 5 }, [5, 5, 5]],
    [{ "k_proj|layers.2.*": 5 }, [3, 3, 5]],
    [{ "layers.1.*": 7, q_proj: 5 }, [5, 7, 5]], // the first that matches
  ])("takes the scale of the pattern %j", async (alpha_pattern, alphas) => {
    const base = await bench.model({ layers: 3 });
    const tensors = [0, 1, 2].flatMap((layer) => factors(q(layer), layer));
    const opened = await openCheckpoint(`${base}+${await writeAdapter(tensors, { alpha_pattern })}`);
    const scales = [0, 1, 2].map((layer) => opened.tensors.get(`${q(layer).module}.weight`)?.lowRank?.scale);
    expect(scales).toEqual(alphas.map((alpha) => alpha / 2));
    const rank = [0, 1, 2].flatMap((layer) => factors(q(layer, alphas[layer]), layer));
    const ranked = await openCheckpoint(
      `${base}+${await writeAdapter(rank, { r: 3, rank_pattern: alpha_pattern, use_rslora: true })}`,
    );
    const roots = [0, 1, 2].map((layer) => ranked.tensors.get(`${q(layer).module}.weight`)?.lowRank?.scale);
    expect(roots).toEqual(alphas.map((r) => 3 / Math.sqrt(r)));
  });
});

describe("refused adapters", () => {
  const module = "model.layers.0.self_attn.q_proj";
  const good = factors({ module, input: 8, output: 8, rank: 2 }, 1);
  const [a, b] = good as [TensorData, TensorData];
  const named = (name: string, shape: number[]) => seededTensor(PREFIX + name, shape, 1, "F32");
  const plan = async (adapter: string) => planRecipe({ method: "soup", models: [`${await bench.model()}+${adapter}`] });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ["DoRA without magnitudes", { use_dora: true }, /has no lora_magnitude_vector for .*q_proj, but use_dora is true/],
    ["a bias on B", { lora_bias: true }, /uses a bias on the second factor \(lora_bias\)/],
    ["replicated layers", { layer_replication: [[0, 2]] }, /uses layer replication/],
    ["PiSSA", { init_lora_weights: "pissa_niter_4" }, /init_lora_weights is "pissa_niter_4", which changes the base's/],
    ["OLoRA", { init_lora_weights: "olora" }, /init_lora_weights is "olora", which changes the base's weights too/],
    ["LoftQ", { init_lora_weights: "loftq" }, /init_lora_weights is "loftq"/],
    ["IA3", { peft_type: "IA3" }, /peft_type is "IA3"; only LORA adapters can be added/],
    ["no type", { peft_type: undefined }, /peft_type is null; only LORA/],
    ["no rank", { r: undefined }, /r is null, not a positive number/],
    ["alpha of 0", { lora_alpha: 0 }, /lora_alpha is 0, not a positive number/],
    ["a scale that is text", { alpha_pattern: { q_proj: "4" } }, /alpha_pattern\.q_proj is "4", not a positive number/],
    ["a list of patterns", { rank_pattern: ["q_proj"] }, /rank_pattern is not an object/],
    ["another rank", { r: 4 }, /have rank 2, but .*adapter_config\.json says 4, so its scale is unclear; correct r/],
    ["another rank by pattern", { rank_pattern: { q_proj: 8 } }, /have rank 2, but .* says 8/],
    [
      "exponential matching",
      { alpha_pattern: { "([a-z_.0-9]+)+!": 1 } },
      /the pattern "\(\[a-z_\.0-9\]\+\)\+!" is not supported/,
    ],
    [
      "endless matching",
      { rank_pattern: { [`${".*".repeat(40)}!`]: 1 } },
      /the pattern "(\.\*){40}!" is not supported/,
    ],
    ["no pattern", { alpha_pattern: { "q_(proj": 1 } }, /the pattern "q_\(proj" is not supported/],
    ["Python's end", { alpha_pattern: { "q_proj\\Z": 1 } }, /the pattern "q_proj\\\\Z" is not supported/],
    ["Python's count", { alpha_pattern: { "q_proj{,2}": 1 } }, /the pattern "q_proj\{,2\}" is not supported/],
  ])("%s", async (_, config, message) => {
    await expect(plan(await writeAdapter(good, config))).rejects.toThrow(message);
  });

  it.each<[string, readonly TensorData[], RegExp]>([
    [
      "magnitudes without DoRA",
      [...good, named(`${module}.lora_magnitude_vector`, [8])],
      /has a lora_magnitude_vector for .*q_proj, but use_dora is false in .*adapter_config\.json; correct use_dora/,
    ],
    [
      "a larger vocabulary without rows of the head",
      [...good, named("model.embed_tokens.weight", [26, 8])],
      /is \[26, 8\], but .* is \[24, 8\]; the vocabulary was enlarged before training, and the adapter has no rows for lm_head/,
    ],
    [
      "rows of tokens that are not there",
      [...good, named("model.embed_tokens.token_adapter.trainable_tokens_delta", [2, 8])],
      /is \[2, 8\] for 0 trainable_token_indices, which do not fit model\.embed_tokens\.weight \[24, 8\]/,
    ],
    [
      "a tensor of another model",
      [...good, named("model.layers.9.norm.weight", [8])],
      /do not match the base: .*layers\.9\.norm\.weight/,
    ],
    [
      "a module of another model",
      [named("h.0.q.lora_A.weight", [2, 8]), named("h.0.q.lora_B.weight", [8, 2])],
      /adapts h\.0\.q, which the base does not have/,
    ],
    ["half a pair", [a], /has only one of the two factors of model\.layers\.0\.self_attn\.q_proj/],
    [
      "another width",
      [{ ...a, shape: [2, 4], data: a.data.subarray(32) }, b],
      /are \[2, 4\] and \[8, 2\], which do not fit its weight \[8, 8\]/,
    ],
    ["two ranks", [a, { ...b, shape: [16, 1] }], /are \[2, 8\] and \[16, 1\], which do not fit/],
    ["a convolution", [{ ...a, shape: [2, 8, 1] }, b], /are \[2, 8, 1\] and \[8, 2\], which do not fit/],
    ["two dtypes", [a, seededTensor(b.name, [8, 2], 1, "BF16")], /are F32 and BF16; both must be F32, F16 or BF16/],
    ["integers", good.map((t) => ({ ...t, dtype: "I32" as const })), /are I32 and I32; both must be F32, F16 or BF16/],
    [
      "a head of another size",
      [...good, named("lm_head.weight", [25, 8])],
      /lm_head\.weight is \[25, 8\], but .* of the base is \[24, 8\]/,
    ],
  ])("%s", async (_, tensors, message) => {
    await expect(plan(await writeAdapter(tensors))).rejects.toThrow(message);
  });

  it.each<[string, Record<string, unknown>, readonly TensorData[], RegExp]>([
    [
      "magnitudes of other rows",
      { use_dora: true },
      [...good, named(`${module}.lora_magnitude_vector`, [7])],
      /lora_magnitude_vector is \[7\], but .*q_proj\.weight has 8 rows/,
    ],
    [
      "DoRA of matrices stored [in, out]",
      { use_dora: true, fan_in_fan_out: true },
      [...good, named(`${module}.lora_magnitude_vector`, [8])],
      /uses DoRA on .*q_proj, a matrix stored as \[in, out\], which is not supported/,
    ],
    [
      "DoRA of an embedding",
      { use_dora: true },
      [
        ...factors({ module: "model.embed_tokens", input: 24, output: 8, rank: 2, embedding: true }, 1),
        named("model.embed_tokens.lora_magnitude_vector", [8]),
      ],
      /uses DoRA on model\.embed_tokens, an embedding, which is not supported/,
    ],
    [
      "adapted parameters of another shape",
      { target_parameters: ["self_attn.sinks"] },
      factors({ module: "model.layers.0.self_attn", input: 8, output: 8, rank: 2 }, 1),
      /of model\.layers\.0\.self_attn are \[2, 8\] and \[8, 2\], which fit none of .*self_attn\.sinks in the base/,
    ],
    [
      "rows of tokens in another dtype",
      { trainable_token_indices: { embed_tokens: [1, 3] } },
      [...good, named("model.embed_tokens.token_adapter.trainable_tokens_delta", [2, 8])],
      /stores the rows of trained tokens as F32, and the base stores model\.embed_tokens\.weight as BF16/,
    ],
  ])("%s", async (_, config, tensors, message) => {
    await expect(plan(await writeAdapter(tensors, config))).rejects.toThrow(message);
  });

  it("without its files, or with pickled weights", async () => {
    const adapter = await writeAdapter(good);
    renameSync(join(adapter, "adapter_model.safetensors"), join(adapter, "adapter_model.bin"));
    await expect(plan(adapter)).rejects.toThrow(/has no adapter_model\.safetensors; its adapter_model\.bin is pickled/);
    rmSync(join(adapter, "adapter_model.bin"));
    await expect(plan(adapter)).rejects.toThrow(/has no adapter_model\.safetensors$/);
    rmSync(join(adapter, "adapter_config.json"));
    await expect(plan(adapter)).rejects.toThrow(/has no adapter_config\.json; give the folder of a PEFT LoRA adapter/);
  });
});

it("is added to float64 tensors as to the same values in float32", async () => {
  const module = "model.layers.0.self_attn.q_proj.weight";
  const values = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i));
  const stored = (dtype: "F32" | "F64", array: Float32Array | Float64Array) => (tensors: TensorData[]) =>
    tensors.map((tensor) =>
      tensor.name === module ? { ...tensor, dtype, data: new Uint8Array(array.buffer) } : tensor,
    );
  const [narrow, wide, adapter] = [
    await bench.model({ edit: stored("F32", values) }),
    await bench.model({ edit: stored("F64", Float64Array.from(values)) }),
    await writeAdapter(factors({ module: "model.layers.0.self_attn.q_proj", input: 8, output: 8, rank: 2 }, 1)),
  ];
  const [wanted, found] = [
    (await bench.merge({ method: "soup", models: [`${narrow}+${adapter}`] })).tensors.get(module) as ReadTensor,
    (await bench.merge({ method: "soup", models: [`${wide}+${adapter}`] })).tensors.get(module) as ReadTensor,
  ];
  expect([found.dtype, toNumbers(found)]).toEqual(["F64", toNumbers(wanted)]);
  expect(toNumbers(found)).not.toEqual([...values]);
});

it("an adapter whose scale or product is not finite is refused, and its NaN is named", async () => {
  const base = await bench.model({ layers: 1, dtype: "F32" });
  const module = { module: "model.layers.0.self_attn.q_proj", input: 8, output: 8, rank: 2 };
  const plan = (adapter: string) => planRecipe({ method: "soup", models: [`${base}+${adapter}`] });
  const tensors = factors(module, 1);
  const infinite = await writeAdapter(tensors, { lora_alpha: 1e308 });
  await expect(plan(infinite)).rejects.toThrow(
    /lora_alpha 1e\+308 makes a scale for .*q_proj that float32 cannot hold/,
  );
  const large = await writeAdapter(tensors, { lora_alpha: 6e38 });
  const out = bench.next("large");
  await expect(executePlan(await plan(large), { out })).rejects.toMatchObject({ code: "not-finite" });
  expect(existsSync(out)).toBe(false);
  const [a, b] = tensors as [TensorData, TensorData];
  const broken = await writeAdapter([a, { ...b, data: Uint8Array.from(b.data, (byte, i) => (i < 4 ? 0xff : byte)) }]);
  const { nonFinite } = await executePlan(await plan(broken), { out: bench.next("nan") });
  expect(nonFinite).toEqual([{ tensor: b.name, model: `${base}+${broken}`, count: 1 }]);
  const adapters = [`${base}+${broken}`, `${base}+${await writeAdapter(tensors)}`];
  const joined = await planRecipe({ method: "task_arithmetic", models: adapters, base, as: "adapter" });
  expect((await executePlan(joined, { out: bench.next("joined") })).nonFinite).toEqual([
    { tensor: b.name, model: broken, count: 1 },
  ]);
});

describe("lora_merge_dtype", () => {
  const [base, adapter] = [fixture("lora", "base"), fixture("lora", "adapter")];
  const models = [`${base}+${adapter}`];

  it.each(["bfloat16", "float16"] as const)("rounds base plus adapter to %s before the merge", async (dtype) => {
    const once = await bench.merge({ method: "soup", models, dtype });
    const before = await bench.merge({ method: "soup", models, dtype: "float32", lora_merge_dtype: dtype });
    const adapted = [...(await openCheckpoint(models[0] as string)).tensors.values()].filter(({ lowRank }) => lowRank);
    expect(adapted.length).toBeGreaterThan(0);
    for (const { name } of adapted) {
      expect(toNumbers(before.tensors.get(name) as ReadTensor)).toEqual(
        toNumbers(once.tensors.get(name) as ReadTensor),
      );
    }
  });

  it("changes nothing without an adapter, or as float32", async () => {
    const plain = await bench.merge({ method: "soup", models });
    const wide = await bench.merge({ method: "soup", models, lora_merge_dtype: "float32" });
    for (const [name, { data }] of plain.tensors)
      expect(Buffer.compare(data, wide.tensors.get(name)?.data ?? Buffer.of())).toBe(0);
  });
});
