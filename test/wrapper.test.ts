// The commands of the README on a multimodal wrapper and an expert that was trained and saved as its text model alone.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { readJson, seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { layergraft } from "./support/command.js";
import { mean, readFolders, type Tensors } from "./support/merging.js";
import { toNumbers } from "./support/numbers.js";

const cwd = temporaryFolder();
const TOWER = "model.visual.blocks.0.attn.weight";
const config = {
  model_type: "wrapper",
  text_config: { model_type: "inner", num_hidden_layers: 4, tie_word_embeddings: false },
};
let [base, wrapper, text]: Tensors[] = [];

const run = async (...args: string[]) => {
  const { status, stdout, stderr } = await layergraft(args, { cwd });
  expect([args[0], status, stderr.includes("error")]).toEqual([args[0], 0, false]);
  return stdout + stderr;
};
const read = async (folder: string) => (await readFolders([join(cwd, folder)]))[0] as Tensors;
const values = (tensors: Tensors | undefined, name: string) => [...toNumbers(tensors?.get(name) as never)];
const averaged = (name: string, plain: string) =>
  values(wrapper, name).map((x, i) => mean(x, values(text, plain)[i] as number));

beforeAll(async () => {
  const wrapped = (seed: number) => (tensors: ReturnType<typeof seededTensor>[]) => [
    ...tensors.map((one) => ({ ...one, name: one.name.replace(/^model\./, "model.language_model.") })),
    seededTensor(TOWER, [3, 2], 70 + seed, "F32", -7),
  ];
  await writeTiny(join(cwd, "base"), { seed: 1, dtype: "F32", config, edit: wrapped(1) });
  await writeTiny(join(cwd, "math-expert"), { seed: 2, dtype: "F32", config, edit: wrapped(2) });
  await writeTiny(join(cwd, "swahili-expert"), { seed: 3, dtype: "F32", modelType: "inner" });
  [base, wrapper, text] = await Promise.all([read("base"), read("math-expert"), read("swahili-expert")]);
});

it("swap, verify", async () => {
  const models = ["--task", "math-expert", "--language", "swahili-expert", "--bottom", "1", "--top", "1"];
  expect(await run("swap", ...models, "--dry-run")).toContain("come from task, as others lack them");
  await run("swap", ...models, "--out", "merged");
  const merged = await read("merged");
  expect([...merged.keys()].sort()).toEqual([...(wrapper as Tensors).keys()].sort());
  for (const name of merged.keys()) {
    const plain = name.replace("language_model.", "");
    const layer = /layers\.(\d)/.exec(name)?.[1];
    const outside = name === TOWER ? values(wrapper, name) : averaged(name, plain);
    const inside = layer === "0" || layer === "3" ? values(text, plain) : values(wrapper, name);
    expect([name, values(merged, name)]).toEqual([name, layer === undefined ? outside : inside]);
  }
  expect(readJson(join(cwd, "merged"), "config.json")).toMatchObject(config);
  await run("verify", "merged");
});

it("merge", async () => {
  writeFileSync(join(cwd, "recipe.yaml"), "method: soup\nmodels: [math-expert, swahili-expert]\n");
  await run("merge", "recipe.yaml", "--out", "soup");
  const name = "model.language_model.layers.2.mlp.up_proj.weight";
  expect(values(await read("soup"), name)).toEqual(averaged(name, "model.layers.2.mlp.up_proj.weight"));
  await run("verify", "soup");
});

it("analyze, suggest", async () => {
  await run(
    "analyze",
    "--base",
    "base",
    "--expert",
    "math=math-expert",
    "--expert",
    "swahili=swahili-expert",
    "--out",
    "analysis",
  );
  const { total } = readJson(join(cwd, "analysis"), "analysis.json") as {
    total: { experts: { relativeNorm: number }[] };
  };
  const norm = (numbers: readonly number[]) => Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0));
  const names = [...(base as Tensors).keys()].filter((name) => name !== TOWER);
  const before = [...names, TOWER].flatMap((name) => values(base, name));
  const change = names.flatMap((name) =>
    values(text, name.replace("language_model.", "")).map((x, i) => x - (values(base, name)[i] as number)),
  );
  expect(total.experts[1]?.relativeNorm).toBeCloseTo(norm(change) / norm(before), 4);
  const models = ["--base", "base", "--task", "math-expert", "--language", "swahili-expert"];
  expect(await run("suggest", ...models, "--out", "recipes")).toContain("recipes");
});
