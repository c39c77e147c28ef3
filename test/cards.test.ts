// Whether published weights are what their model cards say, on a stand-in hub. fixtures/cards has what mergekit 0.1.5 made of its
// configurations there and of the models that LAYERGRAFT_CARD_MODELS=FOLDER keeps (make_cards.py).
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openSafetensors, readRange, writeSafetensors } from "../src/formats/safetensors/index.js";
import { type CardCheck, cardSentences } from "../src/merge/card/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { parseMergekit } from "../src/merge/mergekit/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { verify } from "../src/verbs/index.js";
import { seededFloats, seededTensor, temporaryFolder, type TinyOptions, writeTiny } from "./support/checkpoints.js";
import { FakeHub } from "./support/fake-hub.js";

const FIXTURES = join(import.meta.dirname, "fixtures/cards");
const root = process.env.LAYERGRAFT_CARD_MODELS ?? temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
let hub: FakeHub;
const before = { ...process.env };

/** A model whose feed-forward matrices have rows enough for a sample; all are fine-tuned from one. */
const writeModel = (name: string, seed: number, layers: number, shape: [number, number], more: TinyOptions = {}) =>
  writeTiny(at(name), {
    ...{ layers, seed },
    edit: (tensors) =>
      tensors.map((tensor, i) =>
        tensor.name.includes(".mlp.") ? seededTensor(tensor.name, shape, seed * 1000 + i, "BF16", -i - 1) : tensor,
      ),
    ...more,
  });

/** Publishes what a mergekit configuration gives, of local models, with a card that says something. */
async function publish(
  name: string,
  truth: string,
  card: string,
  { edit, seed }: { edit?: (folder: string) => Promise<void>; seed?: number } = {},
): Promise<string> {
  const translated = await parseMergekit(truth.replaceAll("org/", at("org", "/")));
  const { tokenizer_from: _, ...recipe } = translated?.recipe as RecipeInput;
  await executePlan(await planRecipe(recipe as RecipeInput, { seed }), { force: true, allowUnrelated: true, out: at(name) });
  return publishFolder(name, card, edit);
}

async function publishFolder(name: string, card: string, edit?: (folder: string) => Promise<void>): Promise<string> {
  const folder = at(`published-${name}`);
  mkdirSync(folder, { recursive: true });
  cpSync(at(name), folder, { recursive: true, filter: (path) => !/layergraft\.json$/.test(path) });
  writeFileSync(join(folder, "README.md"), card);
  await edit?.(folder);
  return hub.push(`me/${name}`, folder);
}

/** Changes tensors of a published model. */
async function rewrite(folder: string, change: (name: string, data: Uint8Array) => void): Promise<void> {
  const path = join(folder, "model.safetensors");
  const file = await openSafetensors(path);
  const tensors = [];
  for (const { name, dtype, shape, offset, bytes } of file.tensors) {
    const data = await readRange(file, offset, offset + bytes);
    change(name, data);
    tensors.push({ name, dtype, shape, data });
  }
  await writeSafetensors(path, tensors);
}

/** A card as mergekit writes it. */
const carded = (...recipes: string[]) => `---
base_model:
- org/a
- org/b
tags:
- merge
---
# A merge

### Configuration

The following YAML configuration was used to produce this model:

${recipes.map((recipe) => `\`\`\`yaml\n${recipe}\n\`\`\`\n`).join("\nor\n\n")}`;

const slerp = (t: number) => `merge_method: slerp
base_model: org/a
models:
  - model: org/a
  - model: org/b
parameters:
  t: ${t}
dtype: bfloat16`;

const linear = (weight: number, a = "org/a", b = "org/b") => `merge_method: linear
models:
  - model: ${a}
    parameters: { weight: ${weight} }
  - model: ${b}
    parameters: { weight: ${Number((1 - weight).toFixed(3))} }
dtype: bfloat16`;

const onBase = (base: string, method = "task_arithmetic", rest = "", a = "org/a") => `merge_method: ${method}
base_model: ${base}
models:
  - model: ${a}
    parameters: { weight: 0.6${rest} }
  - model: org/b
    parameters: { weight: 0.5${rest} }
dtype: bfloat16`;

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const [i, name] of ["a", "b", "base", "other"].entries()) {
    await writeModel(`org/${name}`, i + 1, 6, [320, 48]);
    hub.push(`org/${name}`, at(`org/${name}`));
  }
  for (const [i, name] of ["a", "b", "base"].entries()) {
    await writeModel(`mk/${name}`, i + 11, 2, [64, 48]);
    hub.push(`mk/${name}`, at(`mk/${name}`));
  }
  for (const [i, name] of ["small-a", "small-b"].entries()) {
    await writeTiny(at(`mk/${name}`), { layers: 2, seed: i + 21 });
    hub.push(`mk/${name}`, at(`mk/${name}`));
  }
  await writeAdapter("mk/lora");
  hub.push("mk/lora", at("mk/lora"));
  Object.assign(process.env, {
    ...{ HF_ENDPOINT: hub.endpoint, HF_HOME: at("home"), HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" },
    LAYERGRAFT_CACHE: at("cache"),
  });
});
afterAll(() => {
  for (const name of ["HF_ENDPOINT", "HF_HOME", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN", "LAYERGRAFT_CACHE"]) {
    if (before[name] === undefined) delete process.env[name];
    else process.env[name] = before[name];
  }
});

async function writeAdapter(name: string): Promise<void> {
  mkdirSync(at(name), { recursive: true });
  const factors = [0, 1].flatMap((layer) =>
    (["A", "B"] as const).map((factor, i) => {
      const key = `base_model.model.model.layers.${layer}.self_attn.q_proj.lora_${factor}.weight`;
      return seededTensor(key, factor === "A" ? [2, 8] : [8, 2], 90 + 2 * layer + i, "F32");
    }),
  );
  await writeSafetensors(at(name, "adapter_model.safetensors"), factors);
  const config = { peft_type: "LORA", r: 2, lora_alpha: 1, target_modules: ["q_proj"], base_model_name_or_path: "mk/small-a" };
  writeFileSync(at(name, "adapter_config.json"), JSON.stringify({ ...config, task_type: "CAUSAL_LM" }));
}

async function check(name: string, input: object = {}): Promise<CardCheck> {
  const { card } = await verify({ model: `me/${name}`, share: 0.1, ...input });
  console.log(name, cardSentences(card as CardCheck).join("\n"), JSON.stringify({ ...card, deviations: card?.deviations.slice(0, 2) }));
  return card as CardCheck;
}

describe("what mergekit made", () => {
  const verdicts: Record<string, object> = {};
  it.each(readdirSync(FIXTURES).filter((file) => file.endsWith(".yml")))("%s", async (file) => {
    const name = file.replace(".yml", "");
    mkdirSync(at(name), { recursive: true });
    cpSync(join(FIXTURES, `${name}.safetensors`), at(name, "model.safetensors"));
    cpSync(at(`mk/${name === "lora" ? "small-a" : "a"}/config.json`), at(name, "config.json"));
    await publishFolder(name, carded(readFileSync(join(FIXTURES, file), "utf8")));
    await check(name, { all: true });
  });
});

describe("a card", () => {
  it("1: that is true", async () => {
    await publish("true", linear(0.3), carded(linear(0.3)));
    await check("true");
  });
  it("3: of another t", async () => {
    await publish("other-t", slerp(0.3), carded(slerp(0.5)));
    await check("other-t");
    await publish("other-weight", linear(0.3), carded(linear(0.5)));
    await check("other-weight");
  });
  it("4: of another base", async () => {
    await publish("other-base", onBase("org/other"), carded(onBase("org/base")));
    await check("other-base", { bases: ["org/other"] });
    const ties = (base: string) => onBase(base, "ties", ", density: 0.4");
    await publish("ties-base", ties("org/other"), carded(ties("org/base")));
    await check("ties-base", { bases: ["org/other"] });
  });
  it("5: with swapped models", async () => {
    await publish("swapped", linear(0.3), carded(linear(0.7)));
    await check("swapped");
  });
  it("6: with two recipes", async () => {
    await publish("two", linear(0.3), carded(linear(0.4), linear(0.3)));
    await check("two");
  });
  it("7: without a recipe", async () => {
    await publish("none", linear(0.3), "# Hi\n\n```python\nmethod: 1\n```\n");
    await check("none");
  });
  it("9: of a revision that is gone", async () => {
    await publish("stale", linear(0.3), carded(linear(0.3, "org/a@v0.9")));
    await check("stale");
    await publish("local", linear(0.3), carded(linear(0.3, "./checkpoints/final", "org/b")));
    await check("local");
  });
  it("10: of a random method", async () => {
    const dare = (density: number, a = "org/a") => onBase("org/base", "dare_linear", `, density: ${density}`, a);
    await publish("random", dare(0.3), carded(dare(0.3)), { seed: 7 });
    await check("random");
    await publish("other-density", dare(0.3), carded(dare(0.4)), { seed: 7 });
    await check("other-density");
    await publish("other-random", dare(0.3, "org/other"), carded(dare(0.3)), { seed: 7 });
    await check("other-random");
  });
  it("11: with hidden further training", async () => {
    // One percent of each weight.
    const train = (folder: string) =>
      rewrite(folder, (name, data) => {
        if (!/layers\.[34]\.mlp/.test(name)) return;
        const values = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
        const noise = seededFloats(values.length, 5);
        for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) + Math.round(2 * (noise[i] as number));
      });
    await publish("trained", linear(0.3), carded(linear(0.3)), { edit: train });
    await check("trained");
  });
});
