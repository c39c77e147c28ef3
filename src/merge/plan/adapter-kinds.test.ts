// Adapters beyond plain LoRA: under other names, with DoRA, of all experts, with rows of tokens, with larger vocabularies.
// @module-tag slow
import { copyFileSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type FloatDType, type ReadTensor, readJson, seededTensor } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { readFolder, roundTo, toNumbers } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { analyzeExperts } from "../analysis/analysis.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "./planner.js";

const bench = new Bench();
const peft = (...path: string[]) =>
  join(fileURLToPath(new URL("../../../test/fixtures/peft", import.meta.url)), ...path);

const PREFIX = "base_model.model.";

async function writeAdapter(tensors: readonly TensorData[], config: Record<string, unknown> = {}): Promise<string> {
  const folder = bench.next("adapter");
  mkdirSync(folder);
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  writeFileSync(
    join(folder, "adapter_config.json"),
    JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 3, ...config }),
  );
  return folder;
}

const pair = (module: string, [output, input]: readonly [number, number], seed = 1) => [
  seededTensor(`${PREFIX}${module}.lora_A.weight`, [2, input], seed, "F32"),
  seededTensor(`${PREFIX}${module}.lora_B.weight`, [output, 2], seed + 1, "F32"),
];

/** The merged weights of a case as a model's folder. */
function mergedFolder(name: string): string {
  const folder = bench.next("merged");
  cpSync(peft(name, "base"), folder, { recursive: true });
  copyFileSync(peft(name, "expected.safetensors"), join(folder, "model.safetensors"));
  return folder;
}

describe("names of one model", () => {
  const MODULES = ["layers.1.self_attn.q_proj", "layers.0.mlp.down_proj"];

  it.each([
    ["Gemma 3, LLaVA, Mistral 3", "model.language_model.", "language_model.model."],
    ["Qwen2.5-VL", "model.language_model.", "model."],
    ["a text model's adapter on its wrapper", "model.", "language_model.model."],
    ["a wrapper's adapter on its text model", "model.language_model.", "model."],
    ["names without a stem", "model.", ""],
  ])("%s: %s in memory, %s on the disk", async (_, inMemory, onDisk) => {
    const tower = "vision_tower.vision_model.encoder.layers.1.self_attn.q_proj";
    const edit = (tensors: readonly TensorData[]) => [
      ...tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(/^model\./, onDisk) })),
      seededTensor(`${tower}.weight`, [8, 8], 5, "F32"),
    ];
    const base = await bench.model({ edit });
    const towerInMemory = "model.vision_tower.encoder.layers.1.self_attn.q_proj";
    const adapter = await writeAdapter([
      ...MODULES.flatMap((module) => pair(`${inMemory}${module}`, module.includes("mlp") ? [8, 12] : [8, 8])),
      ...pair(towerInMemory, [8, 8]),
      seededTensor(`${PREFIX}lm_head.weight`, [24, 8], 3, "F32"),
    ]);
    const { tensors, adapter: opened } = await openCheckpoint(`${base}+${adapter}`);
    const adapted = [...tensors.values()].filter(({ lowRank }) => lowRank).map(({ name }) => name);
    expect(adapted.sort()).toEqual([...MODULES.map((module) => `${onDisk}${module}.weight`), `${tower}.weight`].sort());
    expect([...(opened?.replacements.keys() ?? [])]).toEqual(["lm_head.weight"]);
  });
});

it("experts without a gate are adapted together where the base stores them one by one: Nemotron", async () => {
  const at = "model.layers.0.mixer.experts";
  const single = [0, 1].flatMap((expert) => [
    seededTensor(`backbone.layers.0.mixer.experts.${expert}.up_proj.weight`, [6, 4], 10 + expert, "F32"),
    seededTensor(`backbone.layers.0.mixer.experts.${expert}.down_proj.weight`, [4, 6], 20 + expert, "F32"),
  ]);
  const layers = (tensors: readonly TensorData[]) =>
    tensors.map((one) => ({ ...one, name: one.name.replace(/^model\./, "backbone.") }));
  const base = await bench.model({
    config: { model_type: "nemotron_h" },
    dtype: "F32",
    edit: (tensors) => [...layers(tensors), ...single],
  });
  // Two experts of rank 2: A [4, in], B [out, 4].
  const [a, b] = [
    seededTensor(`${PREFIX}${at}.lora_A.weight`, [4, 4], 1, "F32"),
    seededTensor(`${PREFIX}${at}.lora_B.weight`, [6, 4], 2, "F32"),
  ];
  const adapter = await writeAdapter([a, b], { target_parameters: ["mixer.experts.up_proj"] });
  const { tensors } = await openCheckpoint(`${base}+${adapter}`);
  const adapted = [...tensors.values()].filter(({ lowRank }) => lowRank).map(({ name }) => name);
  expect(adapted).toEqual([0, 1].map((expert) => `backbone.layers.0.mixer.experts.${expert}.up_proj.weight`));
});

describe("modules that transformers names otherwise in memory", () => {
  const of = (model_type: string, name: string, shape: number[]) =>
    bench.model({
      config: { model_type },
      dtype: "F32",
      edit: (tensors) => [...tensors, seededTensor(name, shape, 5, "F32")],
    });

  it("are found: the router of Phi-3.5-MoE", async () => {
    const gate = "model.layers.0.block_sparse_moe.gate.weight";
    const base = await of("phimoe", gate, [2, 8]);
    const { tensors } = await openCheckpoint(
      `${base}+${await writeAdapter(pair("model.layers.0.mlp.router", [2, 8]))}`,
    );
    expect([...tensors.values()].filter(({ lowRank }) => lowRank).map(({ name }) => name)).toEqual([gate]);
  });

  it("are refused by what the base has in their place", async () => {
    const fused = "model.layers.0.attention.query_key_value.weight";
    const base = await of("sarvam_moe", fused, [16, 8]);
    const adapter = await writeAdapter(pair("model.layers.0.self_attn.g_proj", [8, 8]));
    await expect(openCheckpoint(`${base}+${adapter}`)).rejects.toThrow(
      `makes of others when it opens the base, such as ${fused}`,
    );
  });

  it("may be convolutions, whose kernels are rows", async () => {
    const name = "model.visual.patch_embed.proj.weight";
    const base = await of("x", name, [4, 3, 2, 2]);
    const at = `${PREFIX}model.visual.patch_embed.proj`;
    const factors = [
      seededTensor(`${at}.lora_A.weight`, [2, 3, 2, 2], 1, "F32"),
      seededTensor(`${at}.lora_B.weight`, [4, 2, 1, 1], 2, "F32"),
    ];
    const { tensors } = await bench.merge({ method: "soup", models: [`${base}+${await writeAdapter(factors)}`] });
    const [a = [], b = []] = factors.map((one) => [...toNumbers(one)]);
    const before = [...toNumbers((await readFolder(base)).get(name) as ReadTensor)];
    const found = [...toNumbers(tensors.get(name) as ReadTensor)];
    expect(found).toHaveLength(48);
    for (const [i, value] of found.entries()) {
      const [out, at] = [Math.floor(i / 12), i % 12];
      const change = [0, 1].reduce((sum, r) => sum + (b[2 * out + r] as number) * (a[12 * r + at] as number), 0);
      expect(value).toBeCloseTo((before[i] as number) + 1.5 * change, 5);
    }
  });
});

describe("the rows that DoRA scales, and products of experts", () => {
  const f = Math.fround;
  const flat = (tensor: TensorData | ReadTensor | undefined) => toNumbers(tensor as ReadTensor);

  it.each([
    [300, 512, "BF16"],
    [14_000, 5, "F32"],
  ] as const)("DoRA of %d by %d is the formula, with any number of threads", async (rows, columns, dtype) => {
    const module = "model.layers.1.mlp.up_proj";
    const edit = (tensors: readonly TensorData[]) =>
      tensors.map((tensor) =>
        tensor.name === `${module}.weight` ? seededTensor(tensor.name, [rows, columns], 77, dtype) : tensor,
      );
    const base = await bench.model({ dtype, edit });
    const tensors = [
      ...pair(module, [rows, columns]),
      seededTensor(`${PREFIX}${module}.lora_magnitude_vector`, [rows], 4, "F32"),
    ];
    const models = [`${base}+${await writeAdapter(tensors, { use_dora: true })}`];
    const found = await Promise.all(
      [1, 3].map(async (threads) => {
        const { out } = await executePlan(await planRecipe({ method: "soup", models }), {
          out: bench.next("out"),
          threads,
        });
        return (await readFolder(out)).get(`${module}.weight`) as ReadTensor;
      }),
    );
    expect(Buffer.compare(found[0]?.data ?? Buffer.of(), found[1]?.data ?? Buffer.of())).toBe(0);
    const stored = await readFolder(base);
    const [w, values] = [flat(stored.get(`${module}.weight`)), flat(found[0])];
    const [a, b, m] = tensors.map((tensor) => flat(tensor));
    let worst = 0;
    for (let row = 0; row < rows; row++) {
      const sums = Array.from({ length: columns }, (_, j) => {
        const product = [0, 1].reduce((sum, k) => sum + (b?.[row * 2 + k] ?? 0) * (a?.[k * columns + j] ?? 0), 0);
        return (w[row * columns + j] ?? 0) + 1.5 * product;
      });
      const length = Math.sqrt(sums.reduce((sum, x) => sum + x * x, 0));
      for (const [j, x] of sums.entries()) {
        const exact = ((m?.[row] ?? 0) / length) * x;
        const rounding = (dtype === "BF16" ? 2 ** -8 * Math.abs(exact) : 0) + 2 ** -20 * Math.abs(m?.[row] ?? 0);
        worst = Math.max(worst, Math.abs((values[row * columns + j] ?? 0) - exact) / rounding);
      }
    }
    expect(worst).toBeLessThanOrEqual(1);
  });

  it("a stack of matrices, in both orders, over several blocks", async () => {
    const [count, rows, columns] = [5, 96, 300];
    const module = "model.layers.0.mlp.experts";
    for (const transposed of [false, true]) {
      const shape = transposed ? [count, columns, rows] : [count, rows, columns];
      const weight = seededTensor(`${module}.gate_up_proj`, shape, 9, "F32");
      const base = await bench.model({ dtype: "F32", edit: (tensors) => [...tensors, weight] });
      const [a, b] = [
        seededTensor(`${PREFIX}${module}.lora_A.weight`, [2 * count, columns], 1, "F32"),
        seededTensor(`${PREFIX}${module}.lora_B.weight`, [rows, 2 * count], 2, "F32"),
      ];
      const adapter = await writeAdapter([a, b], { target_parameters: ["experts.gate_up_proj"] });
      const { tensors } = await bench.merge({ method: "soup", models: [`${base}+${adapter}`] });
      const [w, left, right] = [weight, b, a].map((tensor) => flat(tensor)) as [number[], number[], number[]];
      const wanted = w.map((x, at) => {
        const expert = Math.floor(at / (rows * columns));
        const [p, q] = [Math.floor((at % (rows * columns)) / (shape[2] as number)), at % (shape[2] as number)];
        const [row, column] = transposed ? [q, p] : [p, q];
        const sum = [0, 1].reduce((total, k) => {
          const product = f(
            (left[row * 2 * count + k * count + expert] as number) *
              (right[(expert * 2 + k) * columns + column] as number),
          );
          return f(total + product);
        }, 0);
        return roundTo("F32" as FloatDType, f(x + f(sum * 1.5)));
      });
      expect(flat(tensors.get(weight.name)).findIndex((x, i) => x !== wanted[i])).toBe(-1);
    }
  });

  it.each(["dora", "experts", "experts-in-out", "wrapper"])("are analysed as the merged model, %s", async (name) => {
    const base = peft(name, "base");
    const changes = async (expert: string) => (await analyzeExperts({ base, experts: { expert } })).rows;
    const [found, wanted] = [await changes(`${base}+${peft(name, "adapter")}`), await changes(mergedFolder(name))];
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    let changed = 0;
    for (const [tensor, rows] of found) {
      const difference = rows.map((x, i) => Math.abs(x - (wanted.get(tensor)?.[i] ?? Number.NaN)));
      expect(Math.max(...difference), tensor).toBeLessThan(1e-7);
      changed += rows.filter((x) => x > 1e-3).length;
    }
    expect(changed).toBeGreaterThan(0);
  });
});

/** The fixture's base with the experts of a layer in one tensor, as other programs and older folders store them. */
async function fusedBase(): Promise<string> {
  const stored = await readFolder(peft("experts", "base"));
  const folder = bench.next("fused");
  cpSync(peft("experts", "base"), folder, { recursive: true });
  const tensors = [...stored].map(([name, tensor]) => ({ ...tensor, name }) as TensorData);
  const isExpert = ({ name }: TensorData) => /\.experts\.\d/.test(name);
  const joined = [0, 1].flatMap((layer) => {
    const prefix = `model.layers.${layer}.mlp.experts.`;
    const of = (...parts: string[]) =>
      [0, 1, 2].flatMap((expert) => parts.map((part) => stored.get(`${prefix}${expert}.${part}.weight`)?.data ?? []));
    const join = (name: string, shape: number[], parts: readonly (Uint8Array | never[])[]): TensorData => {
      return {
        name: `${prefix}${name}`,
        dtype: "F32",
        shape,
        data: Uint8Array.from(parts.flatMap((part) => [...part])),
      };
    };
    return [
      join("gate_up_proj", [3, 12, 16], of("gate_proj", "up_proj")),
      join("down_proj", [3, 16, 6], of("down_proj")),
    ];
  });
  await writeSafetensors(join(folder, "model.safetensors"), [...tensors.filter((one) => !isExpert(one)), ...joined]);
  return folder;
}

it("adapted experts in one tensor are merged with those of a model that stores them one by one", async () => {
  const [fused, single] = [await fusedBase(), peft("experts", "base")];
  const adapter = peft("experts", "adapter");
  const values = async (models: string[]) => (await bench.merge({ method: "soup", models })).tensors;
  const [found, wanted] = [
    await values([`${fused}+${adapter}`, single]),
    await values([`${single}+${adapter}`, single]),
  ];
  expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
  for (const [name, { data }] of found) expect(Buffer.compare(data, wanted.get(name)?.data ?? data), name).toBe(0);
});

describe("changed vocabularies", () => {
  it("are those of the configuration, and a head like the embedding stays tied", async () => {
    const opened = await openCheckpoint(`${peft("enlarged-tied", "base")}+${peft("enlarged-tied", "adapter")}`);
    expect([opened.config.vocabularySize, opened.config.json.vocab_size, opened.tied]).toEqual([28, 28, true]);
    expect(opened.notes).toContain("the adapter adapter changes the vocabulary of base to 28 rows");
    const model = `${peft("enlarged", "base")}+${peft("enlarged", "adapter")}`;
    const { out } = await bench.merge({ method: "soup", models: [model] });
    expect(readJson(out, "config.json").vocab_size).toBe(28);
  });

  it("may be smaller than the base's, whose rows are padded", async () => {
    const base = await bench.model({ dtype: "F32" });
    const saved = ["model.embed_tokens", "lm_head"].map((name) =>
      seededTensor(`${PREFIX}${name}.weight`, [21, 8], 3, "F32"),
    );
    const { out, tensors } = await bench.merge({ method: "soup", models: [`${base}+${await writeAdapter(saved)}`] });
    expect(readJson(out, "config.json").vocab_size).toBe(21);
    for (const [i, name] of ["model.embed_tokens", "lm_head"].entries()) {
      expect(tensors.get(`${name}.weight`)?.data).toEqual(saved[i]?.data);
    }
  });

  it.each([
    ["equal to the embedding is left out", 3, true],
    ["of its own is kept, untied", 4, false],
  ])("a head beside tied embeddings, %s", async (_, seed, tied) => {
    const base = await bench.model({ tied: true, dtype: "F32", config: { tie_word_embeddings: true } });
    const adapter = await writeAdapter([
      seededTensor(`${PREFIX}model.embed_tokens.weight`, [26, 8], 3, "F32"),
      seededTensor(`${PREFIX}lm_head.weight`, [26, 8], seed, "F32"),
    ]);
    const { out, tensors } = await bench.merge({ method: "soup", models: [`${base}+${adapter}`] });
    expect([tensors.has("lm_head.weight"), readJson(out, "config.json").tie_word_embeddings]).toEqual([!tied, tied]);
    expect(tensors.get("model.embed_tokens.weight")?.shape).toEqual([26, 8]);
  });
});

it.each([
  ["dora", "DoRA (use_dora)"],
  ["experts", "factors of whole stacks of experts (target_parameters)"],
  ["tokens", "rows of trained tokens (trainable_token_indices)"],
])("%s cannot be written as an adapter", async (name, what) => {
  const models = [`${peft(name, "base")}+${peft(name, "adapter")}`];
  await expect(planRecipe({ method: "soup", models, as: "adapter" })).rejects.toThrow(
    `the adapter of models[0] has ${what}, which cannot be merged as factors; write the full model, without as: adapter`,
  );
});
