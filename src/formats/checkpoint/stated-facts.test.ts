// Flags of config.json that the tensors contradict.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readJson, seededTensor, temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { planRecipe } from "../../merge/index.js";
import { executePlan } from "../../merge/output/index.js";
import { parseConfig } from "./config.js";
import { countedLayers, placeTensors } from "./placement.js";

type Tensors = ReturnType<typeof seededTensor>[];

const root = temporaryFolder();
let count = 0;

async function mergedConfig(options: Parameters<typeof writeTiny>[1]) {
  const folder = await writeTiny(join(root, `model${count}`), options);
  const out = join(root, `out${count++}`);
  const opened = await planRecipe({ method: "soup", models: [folder] });
  await executePlan(opened, { out });
  const isCopy = readFileSync(join(out, "config.json")).equals(readFileSync(join(folder, "config.json")));
  return { config: readJson(out, "config.json"), notes: opened.plan.notes, isCopy };
}

/** Biases of modules whose names match. */
const biases = (pattern: RegExp) => ({
  edit: (tensors: Tensors) =>
    tensors.flatMap((tensor) => {
      if (!pattern.test(tensor.name)) return [tensor];
      return [tensor, seededTensor(tensor.name.replace("weight", "bias"), [tensor.shape[0] as number], 1, "BF16")];
    }),
});

it("are written as the tensors have them, with a note", async () => {
  const all = await mergedConfig({
    ...biases(/self_attn/),
    config: { attention_bias: false, mlp_bias: true, vocab_size: 30, eps: 1 },
  });
  expect(all.config).toMatchObject({ attention_bias: true, mlp_bias: false, vocab_size: 24, eps: 1 });
  expect(all.notes.filter((note) => note.includes("which is written"))).toHaveLength(3);
  expect(all.notes.join()).toContain("the configuration says vocab_size 30, the tensors 24, which is written");
  const experts = await mergedConfig({
    config: { num_experts: 8 },
    edit: (tensors) =>
      [0, 1, 2]
        .flatMap((expert) =>
          tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace("mlp.", `mlp.experts.${expert}.`) })),
        )
        .filter(({ name }, i, list) => list.findIndex((other) => other.name === name) === i),
  });
  expect(experts.config.num_experts).toBe(3);
});

it("count the experts that the router chooses from, but for those that compute nothing", async () => {
  const counted = async (config: Record<string, unknown>, rows: number) => {
    const at = "model.layers.0.mlp";
    const experts = [0, 1, 2, 3, 4].map((one) =>
      seededTensor(`${at}.experts.${one}.up_proj.weight`, [2, 8], one, "BF16"),
    );
    const router = seededTensor(`${at}.gate.weight`, [rows, 8], 9, "BF16");
    return (await mergedConfig({ config: { model_type: "x", ...config }, edit: (own) => [...own, ...experts, router] }))
      .config;
  };
  // LongCat has an expert that returns its input, Ernie 4.5 VL two routers.
  expect((await counted({ n_routed_experts: 4, zero_expert_num: 1 }, 5)).n_routed_experts).toBe(4);
  expect((await counted({ n_routed_experts: 8, zero_expert_num: 1 }, 5)).n_routed_experts).toBe(4);
  expect((await counted({ moe_num_experts: 3 }, 3)).moe_num_experts).toBe(3);
});

it.each([3, 5])("count the layers, where the configuration says %d of 4", async (num_hidden_layers) => {
  const { config, notes } = await mergedConfig({ config: { num_hidden_layers } });
  expect(config.num_hidden_layers).toBe(4);
  expect(notes.join()).toContain(`says num_hidden_layers ${num_hidden_layers}, the tensors 4, which is written`);
});

it("do not count layers that are missing, of an unknown family, or listed by kind", async () => {
  const gap: Parameters<typeof writeTiny>[1] = { edit: (own) => own.filter(({ name }) => !name.includes("layers.2.")) };
  await expect(mergedConfig(gap)).rejects.toThrow(/no tensors of layer 2/);
  const unknown = { config: { model_type: "x", num_hidden_layers: 5 } };
  await expect(mergedConfig(unknown)).rejects.toThrow(/says 5 layers/);
  const listed = { config: { num_hidden_layers: 5, layer_types: Array(5).fill("full_attention") } };
  await expect(mergedConfig(listed)).rejects.toThrow(/says 5 layers/);
});

it("do not count a layer of which a part is missing, or with other tensors than any layer", async () => {
  const cut = { edit: (own: Tensors) => own.filter(({ name }) => !/layers\.(2\.mlp|3)\./.test(name)) };
  await expect(mergedConfig(cut)).rejects.toThrow(/says 4 layers/);
  const between = { edit: (own: Tensors) => own.filter(({ name }) => !/layers\.[23]\.|model\.norm/.test(name)) };
  await expect(mergedConfig(between)).rejects.toThrow(/says 4 layers/);
  const more = { edit: (own: Tensors) => [...own, seededTensor("model.layers.4.eh.weight", [8], 1, "BF16")] };
  await expect(mergedConfig(more)).rejects.toThrow(/says 4 layers/);
});

it("count as many layers as names can have", { tags: ["slow"] }, async () => {
  const names = Array.from({ length: 200_000 }, (_, i) => `model.layers.${i}.mlp.up_proj.weight`);
  names.push("model.norm.weight");
  const config = (json: object) => parseConfig({ num_hidden_layers: 8, ...json }, "config.json");
  expect(countedLayers(names, config({ model_type: "llama" }))).toBe(200_000);
  expect(() => placeTensors(names, config({ model_type: "x" }))).toThrow(/says 8 layers/);
});

it("are kept where the tensors say nothing else", async () => {
  expect((await mergedConfig({ ...biases(/[qkv]_proj/), config: { attention_bias: false } })).isCopy).toBe(true);
  // Mllama's embedding has eight rows that its head lacks (transformers #33819).
  const edit: NonNullable<Parameters<typeof writeTiny>[1]>["edit"] = (tensors) =>
    tensors.map((one) => (one.name === "model.embed_tokens.weight" ? seededTensor(one.name, [32, 8], 1, "BF16") : one));
  expect((await mergedConfig({ edit, config: { vocab_size: 24 } })).isCopy).toBe(true);
});
