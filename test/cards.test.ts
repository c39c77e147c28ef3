// Whether published weights are what their model cards say, on a stand-in hub: a card of each kind, and its verdict.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CardCheck } from "../src/merge/card/index.js";
import type { RecipeInput } from "../src/merge/index.js";
import { planRecipe } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { verify } from "../src/verbs/index.js";
import { seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const LAYERS = 8;
const MATRIX: [number, number] = [320, 48];
let hub: FakeHub;
const before = { ...process.env };

/** A model with matrices of 320 rows, fine-tuned from the root `root`. */
const writeModel = (name: string, seed: number, more: Parameters<typeof writeTiny>[1] = {}) =>
  writeTiny(at(name), {
    layers: LAYERS,
    seed,
    ...more,
    edit: (tensors) =>
      tensors.map((tensor, i) =>
        tensor.name.includes(".mlp.")
          ? seededTensor(tensor.name, MATRIX, seed * 1000 + i, more.dtype ?? "BF16", -i - 1)
          : tensor,
      ),
  });

/** Publishes a merge with a card that says something. */
async function publish(
  name: string,
  recipe: RecipeInput,
  card: string,
  edit?: (folder: string) => void,
): Promise<string> {
  await executePlan(await planRecipe(recipe, { folder: root }), { force: true, allowUnrelated: true, out: at(name) });
  return publishFolder(name, card, edit);
}

function publishFolder(name: string, card: string, edit?: (folder: string) => void): string {
  const folder = at(`published-${name}`);
  mkdirSync(folder);
  cpSync(at(name), folder, { recursive: true, filter: (path) => !/layergraft\.json$/.test(path) });
  writeFileSync(join(folder, "README.md"), card);
  edit?.(folder);
  return hub.push(`me/${name}`, folder);
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

const slerp = (t: number, a = "org/a", b = "org/b") => `merge_method: slerp
base_model: ${a}
models:
  - model: ${a}
  - model: ${b}
parameters:
  t: ${t}
dtype: bfloat16`;

const linear = (weight: number, a = "org/a", b = "org/b") => `merge_method: linear
models:
  - model: ${a}
    parameters: { weight: ${weight} }
  - model: ${b}
    parameters: { weight: ${1 - weight} }
dtype: bfloat16`;

const arithmetic = (base: string, method = "task_arithmetic", rest = "") => `merge_method: ${method}
base_model: ${base}
models:
  - model: org/a
    parameters: { weight: 0.6${rest} }
  - model: org/b
    parameters: { weight: 0.5${rest} }
dtype: bfloat16`;

const soup = (weight: number): RecipeInput => ({
  method: "soup",
  models: [
    { model: "a", weight },
    { model: "b", weight: 1 - weight },
  ],
});

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const [i, name] of ["a", "b", "base", "other"].entries()) {
    await writeModel(name, i + 1);
    hub.push(`org/${name}`, at(name));
  }
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

async function check(name: string, input: object = {}): Promise<CardCheck> {
  const { card } = await verify({ model: `me/${name}`, share: 0.1, ...input });
  return card as CardCheck;
}

describe("a card", () => {
  it("that is true", async () => {
    await publish("true", soup(0.3), carded(linear(0.3)));
    const found = await check("true");
    console.log(JSON.stringify(found, null, 1));
    expect(found).toMatchObject({ verdict: "identical", tensors: { identical: 75, compared: 75 } });
  });
});
