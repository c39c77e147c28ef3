// Mixtures of experts: which tensors they take, and rows of the router against transformers. That transformers opens them, and
// that mergekit-moe makes the same, is checked by hand: test/reference/check_mixtures.py.
// @module-tag slow
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { writeMiniature } from "../src/demo/miniature.js";
import { measureGates } from "../src/engine/index.js";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";
import { planRecipe, planRecipeFile, type RecipeInput } from "../src/merge/index.js";
import { executePlan, verifyOutput } from "../src/merge/output/index.js";
import { decodeValues, type ReadTensor, readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { layergraft, WRONG_USAGE } from "./support/command.js";
import { readFolder } from "./support/numbers.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const LAYERS = 4;
const MLP = ["gate_proj", "up_proj", "down_proj"] as const;

beforeAll(async () => {
  await writeMiniature(root);
  for (const [i, name] of ["a", "b", "c"].entries()) await writeTiny(at(name), { layers: LAYERS, seed: i + 1 });
});

let count = 0;
type Moe = Extract<RecipeInput, { method: "moe" }>;

/** Writes a mixture and returns its folder and its tensors. */
async function make(recipe: Omit<Moe, "method">, options: { threads?: number } = {}) {
  const out = at(`out-${++count}`);
  const opened = await planRecipe({ method: "moe", ...recipe } as Moe, { folder: root });
  await executePlan(opened, { out, gates: measureGates, ...options });
  expect((await verifyOutput(out)).deviations).toEqual([]);
  return { out, tensors: await readFolder(out), config: readJson(out, "config.json") };
}

const random = (models: readonly unknown[], more: object = {}) =>
  ({ backbone: "a", models, gate_mode: "random", ...more }) as Omit<Moe, "method">;
const bytesOf = (tensors: ReadonlyMap<string, ReadTensor>, name: string) => tensors.get(name)?.data;
const row = (tensor: ReadTensor | undefined, index: number) => {
  const [, width = 0] = tensor?.shape ?? [];
  return decodeValues(tensor?.data ?? new Uint8Array(), tensor?.dtype as "F32").slice(
    index * width,
    (index + 1) * width,
  );
};

describe("tensors of a mixture", () => {
  it("are the backbone's and the experts', byte for byte, under the names of its family", async () => {
    const sources = await Promise.all(["a", "b", "c"].map((name) => readFolder(at(name))));
    const [backbone, b, c] = sources as [(typeof sources)[0], (typeof sources)[0], (typeof sources)[0]];
    const kinds = {
      mixtral: { experts: "block_sparse_moe", names: ["w1", "w3", "w2"], type: "mixtral", shared: undefined },
      deepseek: { experts: "mlp", names: MLP, type: "deepseek", shared: "shared_experts" },
      qwen: { experts: "mlp", names: MLP, type: "qwen2_moe", shared: "shared_expert" },
    } as const;
    for (const [architecture, { experts, names, type, shared }] of Object.entries(kinds)) {
      const models = ["b", "c", ...(shared ? [{ model: "a", shared: true }] : [])];
      const { tensors, config } = await make(random(models, { architecture }));
      const expected = new Map([...backbone].filter(([name]) => !name.includes(".mlp.")).map(([k, v]) => [k, v.data]));
      for (let layer = 0; layer < LAYERS; layer++) {
        const start = `model.layers.${layer}.`;
        for (const [i, part] of MLP.entries()) {
          const from = `${start}mlp.${part}.weight`;
          for (const [e, expert] of [b, c].entries()) {
            expected.set(`${start}${experts}.experts.${e}.${names[i]}.weight`, bytesOf(expert, from) as Buffer);
          }
          if (shared) expected.set(`${start}mlp.${shared}.${part}.weight`, bytesOf(backbone, from) as Buffer);
        }
      }
      for (const [name, data] of expected) expect(bytesOf(tensors, name), `${architecture} ${name}`).toEqual(data);
      const others = [...tensors.keys()].filter((name) => !expected.has(name));
      const gates = [`${experts}.gate`, ...(architecture === "qwen" ? ["mlp.shared_expert_gate"] : [])];
      expect(others.sort()).toEqual(
        [0, 1, 2, 3].flatMap((layer) => gates.map((gate) => `model.layers.${layer}.${gate}.weight`)).sort(),
      );
      for (const name of others) expect(tensors.get(name)?.shape).toEqual([name.includes("shared") ? 1 : 2, 8]);
      expect(config).toMatchObject({
        model_type: type,
        num_experts_per_tok: 2,
        vocab_size: 24,
        torch_dtype: "bfloat16",
      });
      // What Llama takes for missing fields differs from what Mixtral does.
      expect(config).toMatchObject({ rms_norm_eps: 1e-6, rope_theta: 10_000, num_key_value_heads: 1 });
    }
  });

  it("keep Qwen's biases, and refuse them where the family has no place", async () => {
    const withBias = { modelType: "qwen3", layers: LAYERS };
    await writeTiny(at("qwen3"), withBias);
    const { config } = await make(random(["qwen3", "qwen3"], { backbone: "qwen3" }));
    expect(config).toMatchObject({ model_type: "qwen3_moe", num_experts: 2, head_dim: 128 });
    const bias = { name: "model.layers.0.self_attn.q_proj.bias", dtype: "BF16", shape: [8], data: new Uint8Array(16) };
    for (const modelType of ["llama", "qwen2"] as const) {
      await writeTiny(at(modelType), { modelType, layers: LAYERS, edit: (all) => [...all, bias] as typeof all });
    }
    const qwen = random(["qwen2", "qwen2", { model: "qwen2", shared: true }], { backbone: "qwen2" });
    const { tensors } = await make(qwen);
    expect(tensors.get(bias.name)?.shape).toEqual([8]);
    await expect(make(random(["llama", "llama"], { backbone: "llama" }))).rejects.toThrow(/no place.*q_proj\.bias/s);
    await expect(make({ ...qwen, models: ["qwen2", "qwen2"] })).rejects.toThrow(/needs one shared expert/);
    const asked = random(["a", "b", { model: "c", shared: true }], { architecture: "mixtral" });
    await expect(make(asked)).rejects.toThrow(/A mixtral mixture has no shared expert\. Remove it\./);
  });

  it("scale the down projection, and take experts of other vocabularies", async () => {
    await writeTiny(at("longer"), { layers: LAYERS, seed: 4, vocabulary: 30 });
    const { tensors } = await make(random(["b", { model: "longer", residual_scale: 0.5 }]));
    const from = await readFolder(at("longer"));
    const name = (part: string) => `model.layers.1.block_sparse_moe.experts.1.${part}.weight`;
    const down = from.get("model.layers.1.mlp.down_proj.weight");
    expect(row(tensors.get(name("w2")), 3)).toEqual(row(down, 3).map((x) => x / 2));
    expect(bytesOf(tensors, name("w1"))).toEqual(bytesOf(from, "model.layers.1.mlp.gate_proj.weight"));
  });
});

const PROMPTS = [
  {
    model: "math-expert",
    positive_prompts: ["Tom had nine apples. Tom sold seven apples.", "Solve:"],
    negative_prompts: ["Asha alikuwa na ndizi tisa."],
  },
  {
    model: "swahili-expert",
    positive_prompts: ["Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?"],
  },
];

describe("rows of the router", () => {
  // The first four numbers of both experts' rows in layers 0, 3 and 7, by transformers 5.24 in float32.
  const reference = {
    hidden: [
      [0.063144, 0.05379, 0.112257, 0.009355],
      [-0.042702, 0.213508, -0.142339, -0.056936],
      [0.006871, 0.001105, 0.045553, -0.062729],
      [0.084783, 0.153309, -0.096024, -0.03867],
      [0.036482, -0.00181, 0.012203, -0.079922],
      [0.043124, 0.055957, 0.030733, -0.024627],
    ],
    hidden_avg: [
      [0.028683, -0.076149, 0.010975, -0.100759],
      [0.046048, 0.0, -0.062387, 0.013864],
      [-0.034061, -0.066875, 0.107649, -0.086239],
      [0.161927, 0.081233, -0.062995, 0.076119],
      [-0.001293, -0.127094, 0.010106, -0.086004],
      [0.215268, -6.1e-5, -0.000307, 0.012607],
    ],
    cheap_embed: [0, 3, 7].flatMap(() => [
      [-0.052256, -0.046724, 0.045844, -0.155564],
      [0.046048, 0.0, -0.062387, 0.013864],
    ]),
  };

  // As above, by a direct solution of the regression's system in float64. Of two experts, one row is the other's negative.
  it("calibrated: by the regression of harc on what the MLPs read", async () => {
    const { tensors } = await make({ backbone: "base", models: PROMPTS, gate_mode: "calibrated", dtype: "float32" });
    const reference = new Map([
      [0, [-0.055889, -0.0794, 0.007466, -0.009916]],
      [3, [0.1384, 0.054182, 0.28337, -0.003901]],
      [7, [0.067062, -0.047848, 0.223067, 0.139036]],
    ]);
    for (const [layer, wanted] of reference) {
      const gate = tensors.get(`model.layers.${layer}.block_sparse_moe.gate.weight`);
      for (const [k, x] of wanted.entries()) {
        expect(Math.abs((row(gate, 0)[k] ?? 1) - x)).toBeLessThan(1e-5);
        expect(Math.abs((row(gate, 1)[k] ?? 1) + x)).toBeLessThan(1e-5);
      }
    }
  });

  it.each(["hidden", "hidden_avg", "cheap_embed"] as const)("%s: as transformers computes them", async (gate_mode) => {
    const { tensors } = await make({ backbone: "base", models: PROMPTS, gate_mode, dtype: "float32" });
    const rows = [0, 3, 7].flatMap((layer) =>
      [0, 1].map((e) => row(tensors.get(`model.layers.${layer}.block_sparse_moe.gate.weight`), e)),
    );
    for (const [i, wanted] of reference[gate_mode].entries()) {
      for (const [k, x] of wanted.entries()) expect(Math.abs((rows[i]?.[k] ?? 1) - x)).toBeLessThan(2e-6);
      expect(Math.hypot(...(rows[i] ?? []))).toBeCloseTo(1, 5);
    }
  });

  it("random: normal or uniform, by seed, the same with any number of threads", async () => {
    const gates = (mode: "random" | "uniform_random", seed: number) => {
      const experts = Array.from({ length: 8 }, () => ({ positive: [], negative: [] }));
      const what = { id: "gates", kind: "gates", label: "", source: "backbone", layers: 20, width: 64 } as const;
      return measureGates({ ...what, mode, seed, experts }, new Map(), {});
    };
    const [normal, uniform] = [await gates("random", 0), await gates("uniform_random", 0)];
    const mean = (values: Float32Array, of: (x: number) => number) =>
      values.reduce((s, x) => s + of(x), 0) / values.length;
    expect(mean(normal, (x) => x)).toBeCloseTo(0, 1);
    expect(mean(normal, (x) => x * x)).toBeCloseTo(1, 1);
    expect(Math.max(...uniform.map(Math.abs))).toBeLessThanOrEqual(1 / 8);
    expect(mean(uniform, (x) => x * x)).toBeCloseTo(1 / 64 / 3, 3);
    expect(await gates("random", 1)).not.toEqual(normal);
    const written = [1, 3].map(async (threads) => {
      const { out } = await make(random(["b", "c"], { seed: 5 }), { threads });
      return readFileSync(join(out, "model.safetensors"));
    });
    expect(await written[0]).toEqual(await written[1]);
  });

  it("are computed once: a resumed run reads them from its journal", async () => {
    const out = at("resumed");
    const recipe = { method: "moe", backbone: "base", models: PROMPTS } as Moe;
    const stop = new AbortController();
    const opened = await planRecipe(recipe, { folder: root });
    const stopping = executePlan(opened, {
      ...{ out, gates: measureGates, signal: stop.signal },
      onProgress: ({ phase }) => phase === "reading and writing" && stop.abort(),
    });
    await expect(stopping).rejects.toMatchObject({ where: { option: "resume" } });
    await executePlan(opened, { out, resume: true, gates: () => Promise.reject(new Error("computed again")) });
    const whole = await make({ backbone: "base", models: PROMPTS });
    const bytes = (folder: string) => readFileSync(join(folder, "model.safetensors"));
    expect(bytes(out).equals(bytes(whole.out))).toBe(true);
  });
});

describe("layergraft merge", () => {
  const config = (lines: string, ...more: string[]) => {
    writeFileSync(at("moe.yml"), lines);
    return layergraft(["merge", "moe.yml", ...more], { cwd: root });
  };
  const expert = (model: string, prompt: string) => `  - source_model: ${model}\n    positive_prompts: [${prompt}]\n`;

  it("runs a configuration of mergekit-moe, and the recipe that convert makes of it gives the same", async () => {
    const text =
      "base_model: base\ngate_mode: cheap_embed\nexperts:\n" +
      `${expert("math-expert", "Solve")}${expert("swahili-expert", "ndizi")}` +
      "shared_experts:\n  - source_model: base\n    residual_scale: 0.1\n";
    const outcome = await config(text, "--out", "mixture", "--json");
    expect(outcome).toMatchObject({ status: 0 });
    expect(JSON.parse(outcome.stdout)).toMatchObject({ measured: { gates: [8 * 2 * 96] } });
    expect(readJson(at("mixture"), "config.json")).toMatchObject({ model_type: "deepseek", n_shared_experts: 1 });
    const { stdout } = await layergraft(["convert", "moe.yml"], { cwd: root });
    writeFileSync(at("moe-recipe.yaml"), stdout);
    const { opened } = await planRecipeFile(at("moe-recipe.yaml"));
    await executePlan(opened, { out: at("again"), gates: measureGates });
    const bytes = (folder: string) => readFileSync(at(folder, "model.safetensors"));
    expect(bytes("again").equals(bytes("mixture"))).toBe(true);
    expect((await verifyOutput(at("mixture"))).deviations).toEqual([]);
    expect((await openCheckpoint(at("mixture"))).architecture).toBe("DeepSeek MoE");
    const { stdout: difference } = await layergraft(["diff", "again", "mixture"], { cwd: root });
    expect(difference).toMatch(/All 131 common tensors are identical/);
  });

  it("lists all problems of a configuration with their lines", async () => {
    const text =
      "base_model: base\ngate_mode: hiden\nexperts_per_token: 0\nexperts:\n  - source_model: a\n    noise_scale: 0.1\n" +
      "    positive_promts: [x]\n";
    const { status, stderr } = await config(text);
    expect(status).toBe(WRONG_USAGE);
    for (const line of [
      /line 2: gate_mode: must be one of/,
      /line 3: experts_per_token/,
      /line 6: experts\[0\]\.noise_scale: is not supported/,
      /line 7: experts\[0\]\.positive_promts: unknown field; did you mean positive_prompts\?/,
    ]) {
      expect(stderr).toMatch(line);
    }
    const same = await config(
      `base_model: base\nexperts_per_token: 3\nexperts:\n${expert("a", "x")}${expert("a", "x")}`,
    );
    expect(same.stderr).toMatch(/line 2: experts_per_token: is 3, but 2 experts can be chosen/);
    expect(same.stderr).toMatch(/line 4: experts\[0\]: all experts are the same model/);
    const silent = await config(`base_model: base\nexperts:\n${expert("a", "x")}  - source_model: b\n`);
    expect(silent.stderr).toMatch(/line 5: experts\[1\]\.positive_prompts: is missing/);
  });

  it("refuses a mixture where one cannot be", async () => {
    const inner = { method: "moe", ...random(["b", "c"]) };
    const nested = { method: "soup", models: [inner, "a"] } as RecipeInput;
    await expect(planRecipe(nested, { folder: root })).rejects.toThrow(/a mixture of experts cannot be a source/);
    const aligned = { ...inner, vocabulary: "union" } as RecipeInput;
    await expect(planRecipe(aligned, { folder: root })).rejects.toThrow(/vocabulary has no meaning here/);
    const written = { ...inner, backbone: { method: "soup", models: ["a", "b"] } } as unknown as RecipeInput;
    await expect(planRecipe(written, { folder: root })).rejects.toThrow(/Write the recipe to a folder first/);
    const opened = await planRecipe(inner as RecipeInput, { folder: root });
    await expect(executePlan(opened, { out: at("none") })).rejects.toThrow(/Write it with layergraft merge/);
  });
});
