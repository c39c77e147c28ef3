// Suggestions for two experts whose changes are known: the language expert moved the outer layers, the task expert the
// upper half. And the commands around them: suggest, revert, methods.
// @module-tag slow
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, test } from "vitest";
import { type Analysis, analyzeExperts, type Suggestion, suggestRecipes } from "../src/merge/analysis/index.js";
import { METHODS, planRecipe, readRecipe } from "../src/merge/index.js";
import { encodeValues, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectRefused, layergraft, WRONG_USAGE } from "./support/command.js";
import { readFolder, toNumbers } from "./support/numbers.js";

const root = temporaryFolder();
const LAYERS = 16;
const sources = { base: "base", task: "task", language: "language" };

const layerOf = (name: string) => Number(/layers\.(\d+)\./.exec(name)?.[1] ?? Number.NaN);

/** An expert whose tensors differ from the base by a tenth in the layers that `moves` names, else by a hundredth. */
async function writeExpert(name: string, moves: (layer: number, tensor: string) => boolean, layers = LAYERS) {
  const base = await readFolder(join(root, "base"));
  await writeTiny(join(root, name), {
    layers,
    dtype: "F32",
    edit: (tensors) =>
      tensors.map((tensor) => {
        const size = moves(layerOf(tensor.name), tensor.name) ? 0.1 : 0.01;
        const values = toNumbers(base.get(tensor.name) as Parameters<typeof toNumbers>[0]);
        return {
          ...tensor,
          data: encodeValues(
            values.map((x) => x * (1 + size)),
            "F32",
          ),
        };
      }),
  });
}

let analysis: Analysis;
let suggestions: Suggestion[] = [];
const named = (name: string) => suggestions.find((one) => one.name === name);

beforeAll(async () => {
  await writeTiny(join(root, "base"), { layers: LAYERS, dtype: "F32" });
  await writeExpert("language", (layer) => layer < 3 || layer > 13);
  await writeExpert("task", (layer, tensor) => layer > 7 && tensor.includes("mlp"));
  const experts = { task: join(root, "task"), language: join(root, "language") };
  ({ analysis } = await analyzeExperts({ base: join(root, "base"), experts }));
  suggestions = suggestRecipes({ analysis, sources });
});

describe("suggestRecipes", () => {
  it("scales the paper's range to the depth, each configuration once", () => {
    expect(named("paper-default")?.recipe).toEqual({
      ...{ method: "swap", task: "task", language: "language" },
      ...{ bottom: 3, top: 1, bottom_transition: 0, top_transition: 0 },
    });
    expect(named("paper-largest")?.recipe).toMatchObject({
      bottom: 3,
      top: 1,
      bottom_transition: 1,
      top_transition: 1,
    });
    expect(named("paper-smallest")?.recipe).toMatchObject({ bottom: 2, top: 0, bottom_transition: 0 });
    expect(named("paper-magnitude")?.recipe).toMatchObject({ weights: "magnitude", base: "base" });
    const recipes = suggestions.map(({ recipe }) => JSON.stringify(recipe));
    expect(new Set(recipes).size).toBe(recipes.length);
    expect(suggestions.every(({ reason, reference }) => reason.length > 20 && reference.length > 5)).toBe(true);
  });

  it("finds the owners by shares of change", () => {
    // A layer of the task expert counts half of a layer of the language expert's, as only its feed-forward moved.
    expect(named("shares-by-layer")?.layers).toBe("language 0-2, 14-15; task 3-13; averaged outside the layers");
    const { rows, outside } = named("shares-by-layer")?.owners ?? { rows: [], outside: [] };
    expect(rows.flatMap(({ attention }, layer) => (attention[0] === "language" ? layer : []))).toEqual([
      0, 1, 2, 14, 15,
    ]);
    expect(rows.every(({ attention, mlp }) => attention.length === 1 && mlp[0] === attention[0])).toBe(true);
    expect(outside).toEqual(["language", "task"]);
    // By module, of five attention and four feed-forward tensors: the feed-forward of layers 14 and 15 holds
    // 0.2 / (5 (0.1 sqrt 5 + 0.2) + 11 (0.01 sqrt 5 + 0.02)) = 0.077 of the language expert's change, and
    // 0.2 / (8 (0.2 + 0.02) + 16 (0.01 sqrt 5)) = 0.094 of the task expert's.
    expect(named("shares-by-module")?.layers).toBe(
      "attention: language 0-2, 14-15; task 3-13 | mlp: language 0-2; task 3-15; averaged outside the layers",
    );
    expect(named("shares-by-module")?.recipe).toMatchObject({
      method: "share_swap",
      by: "module",
      tau: 0.001,
      alpha: 0.5,
    });
    expect(named("profile")?.recipe).toMatchObject({ layers: { language: "0-2,14-15" } });
  });

  it("gives the task expert the block in which both are most alike", () => {
    expect(named("alignment")).toBe(undefined);
    const alike: number[] = Array.from({ length: LAYERS }, (_, layer) => (layer > 4 && layer < 11 ? 0.9 : 0.6));
    alike[1] = 0.95;
    const unlike = alike.map(() => null);
    const alignment = { texts: 200, pairs: [unlike, unlike, alike] };
    const found = suggestRecipes({ analysis: { ...analysis, alignment }, sources });
    expect(found.find(({ name }) => name === "alignment")).toMatchObject({
      layers: "language 0-4, 11-15; task 5-10; language outside the layers",
      recipe: { method: "swap", outside: "language", layers: { language: "0-4,11-15" } },
    });
  });

  it("offers the reverse, and modules in place of layers", () => {
    expect(named("reverse")?.recipe).toMatchObject({ outside: "language", layers: { language: "0-5,10-15" } });
    expect(named("attention-from-language")?.recipe).toMatchObject({ parts: "attention", layers: { language: "all" } });
  });

  it("makes recipes that can be planned", async () => {
    for (const { recipe } of suggestions) await planRecipe(recipe, { folder: root });
  });

  it("agrees with what a share swap measures", async () => {
    const outcome = await layergraft(
      ["merge", join(root, "by-layer.yaml"), "--out", "by-layer"],
      await withRecipe("by-layer.yaml", "shares-by-layer"),
    );
    expect(outcome.status).toBe(DONE);
    expect(outcome.stdout).toMatch(/language +layers 0-2, 14-15\n.*task +layers 3-13\n/);
  });

  it("names experts that are not there", () => {
    const analysis = { experts: ["math", "swahili"], layers: 4 } as unknown as Parameters<
      typeof suggestRecipes
    >[0]["analysis"];
    expect(() => suggestRecipes({ analysis, sources })).toThrow("task is not in the analysis; it has math, swahili");
  });
});

async function withRecipe(file: string, name: string): Promise<{ cwd: string }> {
  const { writeFileSync } = await import("node:fs");
  writeFileSync(join(root, file), JSON.stringify(named(name)?.recipe));
  return { cwd: root };
}

const experts = ["--base", "base", "--task", "task", "--language", "language"];

describe("layergraft suggest", () => {
  it("writes recipes that merge takes from another folder", async () => {
    const outcome = await layergraft(["suggest", ...experts, "--out", "deep/recipes", "--json"], { cwd: root });
    expect(outcome.status).toBe(DONE);
    const listed = JSON.parse(outcome.stdout) as { file: string; name: string }[];
    expect(listed.map(({ name }) => name)).toEqual(suggestions.map(({ name }) => name));
    expect(readdirSync(join(root, "deep/recipes")).sort()).toEqual(listed.map(({ file }) => file).sort());
    for (const { file } of listed) {
      const { recipe, folder } = await readRecipe(join(root, "deep/recipes", file));
      await planRecipe(recipe, { folder });
    }
    const text = readFileSync(join(root, "deep/recipes/profile.yaml"), "utf8");
    expect(text).toMatch(
      /^# .*profile.*\n# arXiv.*\n# language 0-2, 14-15; task 3-13; averaged outside the layers\n# .*not a result/,
    );
    await expectRefused(["suggest", ...experts, "--out", "deep/recipes"], root, 1, /is not empty/);
  });

  it("is named by a swap that has the default's layers, and by no other", async () => {
    const roles = experts.slice(experts.indexOf("--task"));
    const swap = await layergraft(["swap", ...roles, "--dry-run"], { cwd: root });
    expect(swap.stderr).toMatch(
      /^ {2}layergraft suggest --base BASE --task \S+ --language \S+\nwhere BASE is the model that both were fine-tuned from\.$/m,
    );
    const based = await layergraft(["swap", ...experts, "--out", "suggesting", "--quiet"], { cwd: root });
    expect(based.stderr).not.toContain("suggest");
    const written = await layergraft(["swap", ...experts, "--out", "suggested"], { cwd: root });
    expect(written.stderr).toContain(`layergraft suggest ${experts.join(" ")}\n`);
    const chosen = await layergraft(["swap", ...roles, "--dry-run", "--bottom", "1", "--top", "0"], { cwd: root });
    expect(chosen.stderr).not.toContain("layergraft suggest");
    const measured = await layergraft(["swap", ...experts, "--dry-run"], { cwd: root });
    expect(measured.stderr).toContain(`\nMeasured: ${named("profile")?.layers}.\n`);
    expect(measured.stderr).toMatch(/profile of change .*\n.*\n {2}--layers 0-2,14-15\n/);
    const asJson = async (...args: string[]) => {
      const { stdout } = await layergraft(["swap", ...args, "--dry-run", "--json"], { cwd: root });
      return JSON.parse(stdout).measured;
    };
    expect(await asJson(...experts)).toEqual(JSON.parse(JSON.stringify(named("profile"))));
    for (const args of [roles, [...experts, "--bottom", "1"]]) expect(await asJson(...args)).toBeUndefined();
  });

  it("says what the training of an expert left, as analyze and a swap's dry run do", async () => {
    const base = await readFolder(join(root, "base"));
    const edit: Parameters<typeof writeTiny>[1] = {
      layers: LAYERS,
      dtype: "F32",
      edit: (tensors) =>
        tensors.map((tensor) => {
          const values = toNumbers(base.get(tensor.name) as Parameters<typeof toNumbers>[0]);
          const isMatrix = tensor.name.includes("layers.") && tensor.shape.length > 1;
          const moved = values.map((value, i) => (isMatrix && i % 8 === 0 ? value + 1 : value));
          return { ...tensor, data: encodeValues(moved, "F32") };
        }),
    };
    await writeTiny(join(root, "sparse"), edit);
    const pair = experts.with(experts.indexOf("--task") + 1, "sparse");
    const sentences = [
      /task: 87\.5% of the weights in its matrices are exactly the base's.*arXiv 2606\.18521/,
      /task: only matrices in the layers changed, as after merging a LoRA adapter/,
    ];
    const suggest = await layergraft(["suggest", ...pair], { cwd: root });
    const swap = await layergraft(["swap", ...pair, "--dry-run"], { cwd: root });
    const named = ["--base", "base", "--expert", "task=sparse", "--expert", "language=language"];
    const analyze = await layergraft(["analyze", ...named], { cwd: root });
    for (const sentence of sentences) {
      for (const text of [suggest.stderr, swap.stderr, analyze.stdout]) expect(text).toMatch(sentence);
    }
    for (const text of [suggest.stderr, swap.stderr, analyze.stdout]) expect(text).not.toMatch(/language: (\d|only)/);
    const { training } = JSON.parse((await layergraft(["swap", ...pair, "--dry-run", "--json"], { cwd: root })).stdout);
    expect(training[0]).toMatchObject({ signs: ["mostly-unchanged", "matrices-only"], unchangedShare: 0.875 });
  });

  it("prints them where no folder is given, and refuses what is no share", async () => {
    const outcome = await layergraft(["suggest", ...experts, "--tau", "0.9"], { cwd: root });
    expect(outcome.stdout).toMatch(/shares-by-layer\n.*0 from the task expert, 0 from the language expert, 16 blended/);
    expect(outcome.stderr).toMatch(/^Try paper-default first: .*Pass --out FOLDER to write them as recipes\.$/m);
    await expectRefused(["suggest", ...experts, "--alpha", "2"], root, WRONG_USAGE, /must be a number from 0 to 1/);
  });
});

test("a merge that changes nothing names the source that it equals, bit for bit", async () => {
  const write = async (out: string, ...args: string[]) => {
    const { stdout, stderr } = await layergraft([...args, "--out", out], { cwd: root });
    const weights = join(root, out, "model.safetensors");
    return {
      stdout,
      stderr,
      equals: (name: string) => readFileSync(weights).equals(readFileSync(join(root, name, "model.safetensors"))),
    };
  };
  // Every row of the expert moved by more than a millionth of itself.
  const same = await write(
    "same",
    "revert",
    "--expert",
    "task",
    "--base",
    "base",
    "--rows-below",
    "1e-6",
    "--rows",
    "output",
  );
  expect(same.equals("task")).toBe(true);
  expect(same.stderr).toContain("note: the weights are those of task, bit for bit; this merge changed nothing");
  const other = await write("other", "swap", "--task", "task", "--language", "language", "--bottom", "1", "--top", "0");
  expect(other.equals("task")).toBe(false);
  expect(other.stderr).not.toContain("changed nothing");
  const all = await layergraft(["swap", "--task", "task", "--language", "task", "--out", "twice", "--json"], {
    cwd: root,
  });
  expect(JSON.parse(all.stdout)).toMatchObject({ equalTo: "task" });
  const mean = await layergraft(["soup", "--model", "task", "--model", "base", "--out", "mean", "--json"], {
    cwd: root,
  });
  expect(JSON.parse(mean.stdout)).toMatchObject({ equalTo: null });
});

describe("layergraft revert", () => {
  it("says what share stays the expert's", async () => {
    const args = ["revert", "--expert", "task", "--base", "base"];
    const layers = await layergraft([...args, "--layers", "0-3,14", "--out", "r1", "--json"], { cwd: root });
    const found = await readFolder(join(root, "r1"));
    const [task, base] = [await readFolder(join(root, "task")), await readFolder(join(root, "base"))];
    let [kept, all] = [0, 0];
    for (const [name, { data }] of found) {
      const isBase = layerOf(name) <= 3 || layerOf(name) === 14;
      expect(data, name).toEqual((isBase ? base : task).get(name)?.data);
      all += data.byteLength;
      if (!isBase) kept += data.byteLength;
    }
    expect((JSON.parse(layers.stdout) as { changedShare: number }).changedShare).toBeCloseTo(kept / all, 12);

    const rows = await layergraft([...args, "--rows-below", "0.02", "--rows", "output", "--out", "r2"], { cwd: root });
    expect(rows.stderr).toMatch(/measure rows of task|measure rows of expert/);
    expect(rows.stderr).toMatch(/\d+\.\d% of the parameters stay the expert's/);
    expect(rows.stderr).not.toMatch(/changed nothing/);
    const complement = await layergraft([...args, "--parts", "mlp", "--keep", "--dry-run"], { cwd: root });
    expect(complement.stdout).toMatch(/Revert: mlp kept, the rest back to the base/);
  });

  it("refuses what chooses nothing, or what is not there", async () => {
    const args = ["revert", "--expert", "task", "--base", "base", "--out", "r3"];
    await expectRefused(args, root, WRONG_USAGE, /layers, parts, rows_below and keep_share are all missing/);
    await expectRefused(
      [...args, "--layers", "3-20"],
      root,
      WRONG_USAGE,
      /layers: there is no layer 20; the model has 16/,
    );
    await expectRefused([...args, "--layers", "5-3"], root, WRONG_USAGE, /is in the wrong order; write 3-5/);
    await expectRefused([...args, "--parts", "attn"], root, WRONG_USAGE, /has no part attn; it has attention, mlp/);
    await expectRefused([...args, "--rows-below", "0"], root, WRONG_USAGE, /must be a positive number/);
    expect(existsSync(join(root, "r3"))).toBe(false);
  });
});

describe("layergraft methods", () => {
  it("lists and explains every method, and has a schema", async () => {
    const { stdout } = await layergraft(["methods", "--json"], { cwd: root });
    const listed = JSON.parse(stdout) as { name: string; fields: { name: string; description: string }[] }[];
    expect(listed.map(({ name }) => name)).toEqual(METHODS.map(({ name }) => name));
    for (const { name, fields } of listed) {
      expect(fields.length, name).toBeGreaterThan(0);
      expect(
        fields.filter(({ description }) => description === "").map((field) => `${name}.${field.name}`),
        "fields without a description",
      ).toEqual([]);
    }
    const one = await layergraft(["methods", "breadcrumbs"], { cwd: root });
    expect(one.stdout).toMatch(/gamma +0\.01 +parameter +share of the largest changes to drop/);
    const schema = JSON.parse((await layergraft(["methods", "--schema"], { cwd: root })).stdout) as { $defs: object };
    const definitions = ["source", "recipe", ...METHODS.map(({ name }) => name)];
    expect(Object.keys(schema.$defs).slice(0, definitions.length)).toEqual(definitions);
    await expectRefused(["methods", "tie"], root, WRONG_USAGE, /unknown method tie; did you mean ties\?/);
  });
});
