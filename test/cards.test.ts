// Whether published weights are what their model cards say, on a stand-in hub. fixtures/cards has what mergekit 0.1.5 made of its
// configurations there and of the models that LAYERGRAFT_CARD_MODELS=FOLDER keeps (make_cards.py).
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openSafetensors, readRange, writeSafetensors } from "../src/formats/safetensors/index.js";
import { type CardCheck, cardSentences } from "../src/merge/card/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { parseMergekit } from "../src/merge/mergekit/index.js";
import type { MergekitRecipe } from "../src/merge/mergekit/translate.js";
import { executePlan } from "../src/merge/output/index.js";
import { verify } from "../src/verbs/index.js";
import {
  decodeValues,
  encodeValues,
  seededFloats,
  seededTensor,
  type TinyOptions,
  temporaryFolder,
  writeTiny,
} from "./support/checkpoints.js";
import { DONE, FAILED, layergraft } from "./support/command.js";
import { FakeHub, fakeFile, hollowFile } from "./support/fake-hub.js";
import { readFolder } from "./support/numbers.js";

const FIXTURES = join(import.meta.dirname, "fixtures/cards");
const root = process.env.LAYERGRAFT_CARD_MODELS ?? temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const SLOW = { tags: ["slow"] };
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
  const { recipe: translated } = (await parseMergekit(truth.replace(/\b(org|mk)\//g, `${root}/$1/`), {
    layers: 2,
    asMergekit: true,
  })) as MergekitRecipe;
  const { tokenizer_from: _, ...recipe } = translated;
  await executePlan(await planRecipe(recipe as RecipeInput, { seed }), {
    force: true,
    allowUnrelated: true,
    out: at(name),
  });
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
  const config = {
    peft_type: "LORA",
    r: 2,
    lora_alpha: 1,
    target_modules: ["q_proj"],
    base_model_name_or_path: "mk/small-a",
  };
  writeFileSync(at(name, "adapter_config.json"), JSON.stringify({ ...config, task_type: "CAUSAL_LM" }));
}

async function check(name: string, input: object = {}): Promise<CardCheck> {
  const { card, verified } = await verify({ model: `me/${name}`, share: 0.1, ...input });
  const found = card as CardCheck;
  expect(verified).toBe(["identical", "rounding", "ties", "statistics"].includes(found.verdict));
  return found;
}

const first = (found: CardCheck) => cardSentences(found)[0];

describe("what mergekit 0.1.5 made", () => {
  const verdicts: Readonly<Record<string, object>> = {
    // 2. Rounded otherwise: what it computed in bfloat16.
    linear: { verdict: "rounding", rounding: { dtype: "BF16", roundings: 1 }, tensors: { identical: 15, rounding: 6 } },
    slerp: { verdict: "identical", rounding: null, tensors: { identical: 21 } },
    // Of 21 tensors, 13 have no element at a cut.
    "ties-float32": { verdict: "ties", tensors: { identical: 13, ties: 8, differs: 0 } },
    ties: { verdict: "ties", rounding: { dtype: "BF16", roundings: 3 }, tensors: { differs: 0 } },
    dare: { verdict: "statistics", random: { agrees: true, elements: 19_240 } },
    // 8. With an adapter in it.
    lora: {
      ...{ verdict: "rounding", rounding: { dtype: "BF16", roundings: 1 } },
      sources: [{ name: "mk/small-a+mk/lora", commits: [/^[0-9a-f]{40}$/, /^[0-9a-f]{40}$/] }, { name: "mk/small-b" }],
    },
  };

  it.each(Object.keys(verdicts))("%s is what its card says", async (name) => {
    mkdirSync(at(name), { recursive: true });
    cpSync(join(FIXTURES, `${name}.safetensors`), at(name, "model.safetensors"));
    cpSync(at(`mk/${name === "lora" ? "small-a" : "a"}/config.json`), at(name, "config.json"));
    await publishFolder(name, carded(readFileSync(join(FIXTURES, `${name}.yml`), "utf8")));
    const found = await check(name, { all: true });
    const { sources = [], ...fields } = verdicts[name] as { sources?: { name: string; commits?: RegExp[] }[] };
    expect(found).toMatchObject(fields);
    for (const [i, { name: source, commits = [] }] of sources.entries()) {
      expect(found.sources[i]?.name).toBe(source);
      for (const [k, commit] of commits.entries()) expect(found.sources[i]?.commits[k]).toMatch(commit);
    }
  });
});

describe("a card", () => {
  it("1: that is true", async () => {
    const commit = await publish("true", linear(0.3), carded(linear(0.3)));
    const found = await check("true");
    expect(found).toMatchObject({
      ...{ verdict: "identical", commit, better: null, deviations: [], missing: [], extra: [] },
      tensors: { compared: 57, identical: 57 },
      recipe: { line: 14, from: "mergekit", method: "soup" },
      certainty: { unit: "rows", all: 5965, sampled: 619, changed: 0.01 },
    });
    // 60 of 5,965 rows changed: the product of (5965 - 60 - i) / (5965 - i) over the 619 rows of the sample.
    let missed = 1;
    for (let i = 0; i < 619; i++) missed *= (5965 - 60 - i) / (5965 - i);
    expect(found.certainty?.missed).toBeCloseTo(missed, 12);
    expect(cardSentences(found)).toEqual([
      "The compared weights are what the card says: 57 tensors bit-identical.",
      "A sample of 10.0% of the rows (619 of 5,965) would miss a change of one row in 100 with probability 0.0013, and in a single matrix with probability 0.88 at most.",
    ]);
    expect(found.sources.map(({ name, missing }) => [name, missing])).toEqual([
      ["org/a", null],
      ["org/b", null],
    ]);
  });

  it("3: of another t, or other weights", SLOW, async () => {
    await publish("other-t", slerp(0.3), carded(slerp(0.5)));
    expect(await check("other-t")).toMatchObject({
      verdict: "differs",
      better: { what: "weights", recipe: { method: "slerp", t: 0.3 } },
    });
    await publish("other-weight", linear(0.3), carded(linear(0.5)));
    const found = await check("other-weight");
    expect(found.better?.recipe).toEqual({
      ...{ method: "soup", dtype: "bfloat16" },
      models: [
        { model: "org/a", weight: 0.3 },
        { model: "org/b", weight: 0.7 },
      ],
    });
    expect(found.layers).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("4: of another base", SLOW, async () => {
    const ties = (base: string) => onBase(base, "ties", ", density: 0.4");
    await publish("other-base", ties("org/other"), carded(ties("org/base")));
    const found = await check("other-base", { bases: ["org/other"] });
    expect(found).toMatchObject({ verdict: "differs", better: { what: "base", names: ["org/other"] } });
    expect(found.better?.given).toBe(found.better?.of);
    expect(cardSentences(found)[1]).toBe("With org/other as the base, the recipe gives all compared tensors.");
  });

  it("4: of a base that is a folder, which must be there", async () => {
    await publish("other-folder", onBase("org/other"), carded(onBase("org/base")));
    const found = await check("other-folder", { bases: [at("org/other")] });
    expect(found.better).toMatchObject({ what: "base", names: [at("org/other")] });
    expect(found.better?.given).toBe(found.better?.of);
    const nowhere = { model: "me/other-folder", bases: ["nowhere/at/all"] };
    await expect(verify(nowhere)).rejects.toThrow(/nowhere\/at/);
  });

  it("5: with swapped models", async () => {
    await publish("swapped", linear(0.3), carded(linear(0.7)));
    const found = await check("swapped");
    expect(found).toMatchObject({ verdict: "differs", better: { what: "swapped", names: ["org/a", "org/b"] } });
  });

  it("6: with two recipes, of which the true one is taken", async () => {
    await publish("two", linear(0.3), carded(linear(0.4), linear(0.3)));
    const found = await check("two");
    expect(found.recipes.map(({ line, verdict }) => [line, verdict])).toEqual([
      [14, "differs"],
      [26, "identical"],
    ]);
    expect(found).toMatchObject({ verdict: "identical", recipe: { line: 26 } });
    expect(cardSentences(found)[1]).toBe("The card has 2 recipes; this is of the one after line 26.");
  });

  it("7: without a recipe, or with one that cannot be used", async () => {
    const manyModels = Array.from(
      { length: 40 },
      (_, i) => `  - model: org/m${i}\n    parameters: { weight: 1 }\n`,
    ).join("");
    const refusals: [name: string, card: string, verdict: string, sentence: RegExp][] = [
      ["none", "# Hi\n\n```python\nmethod = 1\n```\n", "no-recipe", /^The card has no recipe\.$/],
      [
        ...(["local", carded(linear(0.3, "./checkpoints/final")), "local-source"] as const),
        /^The card cannot be checked: \.\/checkpoints\/final is a local folder that only its author has\.$/,
      ],
      ["home", carded(linear(0.3, "~/final", "/srv/b")), "local-source", /: ~\/final, \/srv\/b are local folders that/],
      [
        ...(["code", "```yaml\nmethod: ./evil.mjs\nmodels: [org/a]\n```\n", "own-code"] as const),
        /: its method \.\/evil\.mjs is a program, which verify does not run\.$/,
      ],
      [
        "file",
        "```yaml\nmethod: soup\nmodels: [org/a, org/recipe.yaml]\n```\n",
        "local-source",
        /org\/recipe\.yaml is a/,
      ],
      [
        "wrong",
        carded("merge_method: blend\nmodels:\n  - model: org/a"),
        "invalid-recipe",
        /mergekit has no method blend/,
      ],
      [
        "bomb",
        `\`\`\`yaml\nmerge_method: linear\nmodels: ${"[".repeat(5000)}\n\`\`\`\n`,
        "invalid-recipe",
        /levels deep/,
      ],
      [
        ...(["many", carded(`merge_method: linear\nmodels:\n${manyModels}`), "invalid-recipe"] as const),
        /it names 40 models; at most 32 are read/,
      ],
      ["long", `\`\`\`yaml\nmerge_method: linear\n${"# x\n".repeat(50_000)}\`\`\`\n`, "no-recipe", /no recipe/],
      ["other", carded(linear(0.3, "mk/a")), "invalid-recipe", /cannot be planned/],
    ];
    await publish("card", linear(0.3), "");
    for (const [name, card, verdict, sentence] of refusals) {
      cpSync(at("card"), at(name), { recursive: true });
      await publishFolder(name, card);
      const found = await check(name);
      expect([name, found.verdict]).toEqual([name, verdict]);
      expect(first(found)).toMatch(sentence);
    }
  });

  it("does not read a folder of the name of a model", async () => {
    await publish("here", linear(0.3), carded(linear(0.3)));
    // The folder org/a is here, and is what another model was merged of.
    const working = process.cwd();
    try {
      process.chdir(root);
      expect(await check("here")).toMatchObject({ verdict: "identical" });
    } finally {
      process.chdir(working);
    }
  });

  it("of local folders is compared with those that its reader names", async () => {
    await publish("mine", linear(0.3), carded(linear(0.3, "./a", "/srv/b")));
    expect(await check("mine")).toMatchObject({ verdict: "local-source" });
    expect(await check("mine", { moved: { "./a": at("org/a") } })).toMatchObject({ verdict: "local-source" });
    const moved = { "./a": at("org/a"), "/srv/b": at("org/b") };
    expect(await check("mine", { moved })).toMatchObject({ verdict: "identical" });
    expect(await check("mine", { moved: { ...moved, "./a": at("org/other") } })).toMatchObject({ verdict: "differs" });
    await expect(check("mine", { moved: { ...moved, a: at("org/a") } })).rejects.toThrow(
      "a is not in the card, which names ./a, /srv/b.",
    );
  });

  it("is fetched where the cache has the weights without it, as transformers leaves it", async () => {
    const commit = await publish("cached", linear(0.3), carded(linear(0.3)));
    const snapshot = at("home/hub/models--me--cached/snapshots", commit);
    mkdirSync(snapshot, { recursive: true });
    for (const file of ["config.json", "model.safetensors"]) cpSync(at("published-cached", file), join(snapshot, file));
    const { card } = await verify({ model: `me/cached@${commit}`, share: 0.1 });
    expect(card).toMatchObject({ verdict: "identical", commit });
  });

  it("9: of a stale revision", async () => {
    // The model was merged of v1, which a tag still has; main is another one.
    hub.push("org/moved", at("org/a"), { revision: "v1" });
    hub.push("org/moved", at("org/other"));
    await publish("stale", linear(0.3), carded(linear(0.3, "org/moved@v1")));
    expect(await check("stale")).toMatchObject({ verdict: "identical" });
    await publish("unpinned", linear(0.3), carded(linear(0.3, "org/moved")));
    expect(await check("unpinned")).toMatchObject({ verdict: "differs" });
    await publish("gone", linear(0.3), carded(linear(0.3, "org/moved@v0", "org/deleted")));
    const found = await check("gone");
    expect(found.verdict).toBe("source-missing");
    expect(found.sources.map(({ name, missing }) => [name, missing !== null])).toEqual([
      ["org/moved@v0", true],
      ["org/deleted", true],
    ]);
    expect(first(found)).toMatch(
      /as org\/moved@v0, org\/deleted cannot be read: org\/moved has no branch, tag or commit v0/,
    );
  });

  it("10: of a random method", SLOW, async () => {
    const dare = (density: number, a = "org/a") => onBase("org/base", "dare_linear", `, density: ${density}`, a);
    const seed = 7;
    await publish("random", dare(0.3), carded(dare(0.3)), { seed });
    const found = await check("random");
    expect(found.verdict).toBe("statistics");
    // Either of two experts with a chance of 0.3 each: 0.51.
    expect(found.random?.published.changed).toBeCloseTo(0.51, 1);
    await publish("other-density", dare(0.3), carded(dare(0.4)), { seed });
    expect(await check("other-density")).toMatchObject({ verdict: "differs", random: { agrees: false } });
    await publish("other-random", dare(0.3, "org/other"), carded(dare(0.3)), { seed });
    expect(await check("other-random")).toMatchObject({ verdict: "differs", random: { agrees: false } });
  });

  it("11: with hidden further training of 1%", async () => {
    const noise = seededFloats(1000, 5);
    const edit = (folder: string) =>
      rewrite(folder, (name, data) => {
        if (!/layers\.[34]\.mlp/.test(name)) return;
        // A bfloat16 number has steps of 0.4 to 0.8% of itself.
        const values = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
        for (let i = 0; i < values.length; i++) {
          values[i] = (values[i] as number) + Math.round(2 * (noise[i % noise.length] as number));
        }
      });
    await publish("trained", linear(0.3), carded(linear(0.3)), { edit });
    const found = await check("trained");
    expect(found).toMatchObject({
      verdict: "differs",
      layers: [3, 4],
      better: null,
      tensors: { differs: 6, identical: 51 },
    });
    expect(found.left).toBeLessThan(0.03);
    expect(first(found)).toMatch(
      /^The weights are not what the card says: layers 3-4 differ, by 2\.\d% of what the merge changed\.$/,
    );
  });

  it("of what mergekit rounded otherwise does not hide a change of 1%", async () => {
    // Uniform within 1.73% of each weight: a root mean square of 1%.
    const noise = seededFloats(3072, 5);
    const a = await readFolder(at("mk/a"));
    let expected = Number.NaN;
    const card = carded(readFileSync(join(FIXTURES, "linear.yml"), "utf8"));
    cpSync(at("mk/a"), at("noisy"), { recursive: true });
    cpSync(join(FIXTURES, "linear.safetensors"), at("noisy", "model.safetensors"));
    await publishFolder("noisy", card, (folder) =>
      rewrite(folder, (name, data) => {
        if (name !== "model.layers.1.mlp.up_proj.weight") return;
        const own = decodeValues(data, "BF16");
        data.set(
          encodeValues(
            own.map((value, i) => value * (1 + 0.0173 * (noise[i] as number))),
            "BF16",
          ),
        );
        const from = decodeValues(a.get(name)?.data as Uint8Array, "BF16");
        const norm = (of: readonly number[], minus: readonly number[]) =>
          Math.hypot(...of.map((value, i) => value - (minus[i] as number)));
        expected = norm(decodeValues(data, "BF16"), own) / norm(own, from);
      }),
    );
    const found = await check("noisy", { all: true });
    expect(found).toMatchObject({ verdict: "differs", layers: [1], tensors: { differs: 1 } });
    // Of four elements mergekit's rounding is another one.
    expect(found.left).toBeCloseTo(expected, 4);
  });

  it("of which one element in three rows was changed is found by all rows", async () => {
    const rows = [17, 111, 205];
    const edit = (folder: string) =>
      rewrite(folder, (name, data) => {
        if (!name.endsWith("layers.2.mlp.up_proj.weight")) return;
        for (const row of rows) data.fill(0, row * 96, row * 96 + 2);
      });
    await publish("rows", linear(0.3), carded(linear(0.3)), { edit });
    expect(await check("rows", { all: true })).toMatchObject({
      ...{ verdict: "differs", layers: [2], certainty: { missed: 0 } },
      deviations: [{ tensor: "model.layers.2.mlp.up_proj.weight", differing: 3, verdict: "differs" }],
    });
  });
});

describe("public reports", () => {
  it("verl 7285: a merge of an adapter that is the base, byte for byte", async () => {
    const truth = "merge_method: passthrough\nmodels:\n  - model: mk/small-a\ndtype: bfloat16";
    await publish("unmerged", truth, carded(truth.replace("small-a", "small-a+mk/lora")));
    const found = await check("unmerged", { all: true });
    expect(found).toMatchObject({ verdict: "differs", layers: [0, 1], tensors: { identical: 19, differs: 2 } });
    expect(found.better).toMatchObject({ what: "adapter", names: ["mk/small-a+mk/lora"], given: 21, of: 21 });
  });

  it("mergekit 214: weights that do not add up to 1, which mergekit normalizes", SLOW, async () => {
    const written = linear(0.1).replace("weight: 0.9", "weight: 1");
    await publish("sum", `${written}\nparameters: { normalize: false }`, carded(written));
    expect((await check("sum")).better?.recipe).toEqual({
      ...{ method: "soup", normalize: false, dtype: "bfloat16" },
      models: [
        { model: "org/a", weight: 0.1 },
        { model: "org/b", weight: 1 },
      ],
    });
  });

  it("mergekit 353: parameters at the wrong place, and of another method, have no effect", async () => {
    const ties = (more: string) => `merge_method: ties
base_model: mk/a
slices:
  - sources:
      - model: mk/a
        layer_range: [0, 2]${more.replace("W", "0.3")}
      - model: mk/b
        layer_range: [0, 2]${more.replace("W", "0.9")}
parameters:
  weight: 0.5
  t: 0.5
dtype: bfloat16`;
    const found = await publish("misplaced", ties(""), carded(ties("\n        weight: W"))).then(() =>
      check("misplaced", { all: true }),
    );
    expect(found.verdict).toBe("identical");
    expect(found.notes.join("\n")).toMatch(/weight/);
    expect(found.notes.join("\n")).toMatch(/t is ignored: it has no meaning for ties/);
  });
});

describe("the command", () => {
  const run = (...args: string[]) => layergraft(["verify", ...args], { cwd: root, env: { ...process.env } });

  it("prints the verdict, what it fetches, and writes a badge and a section", async () => {
    await publish("command", linear(0.3), carded(linear(0.3)));
    const dry = await run("me/command", "--dry-run", "--share", "0.1");
    expect(dry).toMatchObject({ status: DONE });
    expect(dry.stdout).toMatch(
      /^Recipe after line 14: soup, as mergekit writes it\nA sample of 10\.0% of the rows .*\nCompare me\/command: [\d.]+ MB of weights to fetch from the hub, more where they differ\n$/,
    );
    const { status, stdout, stderr } = await run("me/command", "--share", "0.1", "--report", "report");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(
      /^Verified me\/command\nThe compared weights are what the card says: 57 tensors bit-identical\.\n/,
    );
    expect(stderr).toMatch(/to fetch from the hub/);
    expect(stderr).toMatch(/Fetched [\d.]+ MB of weights from the hub\./);
    const badge = readFileSync(at("report/recipe-badge.svg"), "utf8");
    expect(badge).toMatch(/^<svg [^>]*>\n<title>recipe: bit-identical<\/title>/);
    const section = readFileSync(at("report/recipe-check.md"), "utf8");
    expect(section).toMatch(/^## Is this recipe true\?\n\n!\[recipe: bit-identical\]\(recipe-badge\.svg\)\n/);
    expect(section).toMatch(/\n- org\/a at commit `[0-9a-f]{12}`\n/);
    expect(section).toMatch(/`npx layergraft verify me\/command --share 0\.1 --seed 0`/);
  });

  it("fails where the card is not true, with fields in JSON", async () => {
    await publish("untrue", linear(0.3), carded(linear(0.7)));
    const { status, stdout } = await run("me/untrue", "--share", "0.1", "--json");
    expect(status).toBe(FAILED);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ folder: "me/untrue", verified: false, tensors: 57, files: [], moved: [] },
      card: { verdict: "differs", better: { what: "swapped", names: ["org/a", "org/b"] }, share: 0.1, seed: 0 },
    });
  });
});

/** The tensors of a Llama 3.1 8B, all zeros. */
function eightBillion(): { readonly header: Buffer; readonly size: number } {
  const shapes: [string, number[]][] = [["model.embed_tokens.weight", [128_256, 4096]]];
  for (let layer = 0; layer < 32; layer++) {
    const own = `model.layers.${layer}`;
    for (const norm of ["input_layernorm", "post_attention_layernorm"]) shapes.push([`${own}.${norm}.weight`, [4096]]);
    for (const [part, rows] of Object.entries({ q: 4096, k: 1024, v: 1024, o: 4096 })) {
      shapes.push([`${own}.self_attn.${part}_proj.weight`, [rows, 4096]]);
    }
    for (const part of ["gate", "up"]) shapes.push([`${own}.mlp.${part}_proj.weight`, [14_336, 4096]]);
    shapes.push([`${own}.mlp.down_proj.weight`, [4096, 14_336]]);
  }
  shapes.push(["model.norm.weight", [4096]], ["lm_head.weight", [128_256, 4096]]);
  let end = 0;
  const entries = shapes.map(([name, shape]) => {
    const begin = end;
    end += 2 * shape.reduce((product, extent) => product * extent, 1);
    return [name, { dtype: "BF16", shape, data_offsets: [begin, end] }];
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return { header: Buffer.concat([length, json]), size: 8 + json.length + end };
}

it("12: of 8B models downloads what it says, and no more", async () => {
  const { header, size } = eightBillion();
  const config = {
    ...{ architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: 4096, intermediate_size: 14_336 },
    ...{ num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128_256 },
    ...{ tie_word_embeddings: false, torch_dtype: "bfloat16" },
  };
  for (const name of ["big/a", "big/b", "me/big"]) {
    hub.create(name, { gated: false, private: false });
    const text = (path: string, content: string) => [path, fakeFile(path, Buffer.from(content))] as const;
    const weights = hollowFile(Buffer.concat([header]), size);
    const files = [text("config.json", JSON.stringify({ ...config, _name: name }))];
    const card = name === "me/big" ? [text("README.md", carded(linear(0.3, "big/a", "big/b")))] : [];
    hub.commit(name, "main", new Map([...files, ...card, ["model.safetensors", weights] as const]));
  }
  const share = 0.0005;
  const found = await check("big", { share });
  expect(found).toMatchObject({ verdict: "identical", tensors: { compared: 291, identical: 291 } });
  // Three models of 16.1 GB; neighbouring ranges are fetched with the small gaps between them.
  expect(found.bytesToFetch).toBeLessThan(3 * size * share * 1.3 + 3 * 20e6);
  expect(found.bytesFetched).toBeLessThan(1.05 * found.bytesToFetch + 3e6);
  expect(found.bytesFetched).toBeGreaterThan(3 * size * share);
});
