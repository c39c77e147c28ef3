// Recipes that are wrong are refused with every problem and its line; outputs that must not be written are not; and what
// is printed goes where it belongs.
// @module-tag slow
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { RecipeError } from "../src/kit/index.js";
import { planRecipe } from "../src/merge/index.js";
import { readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, expectRefused, FAILED, layergraft, snapshot, WRONG_USAGE } from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const refused = (args: readonly string[], status: number, ...messages: RegExp[]) =>
  expectRefused(args, root, status, ...messages);
const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => layergraft(args, { cwd: root, env });
const swap = (out: string, ...more: string[]) => [
  ...["swap", "--task", "task", "--language", "language", "--out", out],
  ...more,
];

beforeAll(async () => {
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2 });
});

describe("recipes", () => {
  const merge = (text: string, ...messages: RegExp[]) => {
    writeFileSync(at("recipe.yaml"), text);
    return refused(["merge", "recipe.yaml", "--out", "out"], WRONG_USAGE, ...messages);
  };

  it("that are not there, not files, or far too large", async () => {
    await refused(["merge", "none.yaml", "--out", "out"], WRONG_USAGE, /none\.yaml does not exist/);
    await refused(["merge", "task", "--out", "out"], WRONG_USAGE, /task is a folder; give a recipe file/);
    writeFileSync(at("weights"), "");
    truncateSync(at("weights"), 3e9); // sparse; beyond what Node.js can read at once
    const outcome = await run(["merge", "weights", "--out", "out"]).finally(() => rmSync(at("weights")));
    expect(outcome.stderr).toMatch(/^error: weights is too large to be a recipe/);
    expect(outcome.status).toBe(WRONG_USAGE);
  });

  it.skipIf(process.getuid?.() === 0)("that may not be read (root may read all)", async () => {
    writeFileSync(at("secret.yaml"), "method: swap");
    chmodSync(at("secret.yaml"), 0);
    const outcome = await run(["merge", "secret.yaml", "--out", "out"]);
    expect(outcome.stderr).toMatch(/^error: .*secret\.yaml/);
    expectReadable(outcome.stderr);
  });

  it("with several problems: all of them, each with its line", async () => {
    const message = await merge(
      "method: swap\ntask: task\nbottom: -1\ntop: 1.5\nbotom: 3\nweights: [1]\ndtype: int8\nshard_size: much\n",
      /recipe\.yaml is not a valid recipe:/,
      /line 1: language: is missing/,
      /line 3: bottom: /,
      /line 4: top: /,
      /line 5: unknown field "botom"/,
      /line 6: weights: must be equal, magnitude, or two weights/,
      /line 7: dtype: must be one of keep, bfloat16/,
      /line 8: shard_size: must be a size such as 5GB/,
    );
    expect(message.match(/^ {2}- /gm)).toHaveLength(7);
  });

  it("whose YAML is broken: the line", async () => {
    await merge('method: swap\ntask: "task\nlanguage: b\n', /not valid YAML:\n {2}- line \d/);
    await merge("method: swap\nmethod: soup\n", /line 2: method is repeated here/);
    await merge(
      "method: swap\n---\nmethod: soup\n",
      /recipe\.yaml has several documents, the second from line 2; keep one/,
    );
    await merge("\tmethod: swap\n", /line 1: /);
    await merge("method: swap\n<<: 5\n", /not valid YAML:\n {2}- line 2: << takes a mapping/);
    await merge("merge_method: linear\n<<: [*a]\n", /not valid YAML:\n {2}- line 2: << takes a mapping/);
    await merge(
      "method: soup\n? [1, 2]\n: 3\n",
      /^error: recipe\.yaml is not valid YAML:\n {2}- line 2: the name of a field/,
    );
  });

  it("without or with an unknown method, or no mapping at all", async () => {
    await merge("method: tie\nmodels: [task]\n", /line 1: method: is "tie"; did you mean ties\?$/m);
    await merge("method: ties\nbase: a\ndensity: 20%\nmodels: [a]\n", /line 3: density: .*; write 0\.2 for 20%/);
    await merge("method: core_space\nbase: a\nmodels: [a]\n", /core_space was removed in 2\.0\.0\. Merge .* extract$/m);
    await merge("task: task\n", /line 1: method: must be one of swap, .*soup/);
    await merge("", /must be a recipe: a mapping with a method/);
    await merge("- swap\n", /line 1: must be a recipe: a mapping/);
    await merge("just text\n", /line 1: must be a recipe: a mapping/);
  });

  it("with problems in a nested recipe: by path and line", async () => {
    await merge(
      "method: swap\ntask:\n  method: soup\n  models:\n    - task\n    - { model: language, wieght: 2 }\nlanguage:\n  method: swap\n  task: task\n  language: language\n  bottom: two\n",
      /line 6: task\.models\[1\].*unknown field "wieght"/,
      /line 11: language\.bottom: /,
    );
    await merge("method: soup\nmodels: []\n", /line 2: models: must name at least one model/);
    await merge("method: soup\nmodels:\n  - task\n  - 7\n", /line 4: models\[1\]: must be a folder/);
    await merge('method: swap\ntask: task\nlanguage: ""\n', /line 3: language: must/);
    await merge('method: swap\ntask: task\nlanguage: "a\\0b"\n', /line 3: language: must/);
    await merge(
      "method: soup\nmodels:\n  - { model: task, weight: .nan }\n  - language\n",
      /line 3: models\[0\]\.weight: /,
    );
    await merge(
      "method: swap\ntask: { method: soup, models: [task], dtype: float32 }\nlanguage: task\n",
      /unknown field "dtype"/,
    );
  });

  it("that would blow up: aliases of aliases, aliases of themselves, depth", async () => {
    const bomb = Array.from({ length: 12 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}]`).join("\n");
    await merge(`a0: &a0 [x]\n${bomb}\nmethod: swap\n`, /recipe\.yaml has an alias within itself or too many aliases/);
    await merge(
      "method: swap\ntask: &t { method: swap, task: *t, language: language }\nlanguage: *t\n",
      /recipe\.yaml/,
    );
    const tooDeep = /recipe\.yaml nests more than 100 levels deep at line \d+; shorten it/;
    await merge(`method: swap\ntask: ${"[".repeat(50_000)}\n`, tooDeep);
    await merge(`${"- ".repeat(50_000)}x\n`, tooDeep);
    await merge(`merge_method: linear\nmodels: ${"{ a: ".repeat(50_000)}\n`, tooDeep);
    const deep = "{ method: soup, models: [ { model: ".repeat(3_000);
    await merge(`method: swap\nlanguage: language\ntask: ${deep}task${" } ] }".repeat(3_000)}\n`, tooDeep);
  });

  it("that are too large: before anything looks at their entries", async () => {
    const tooLong = /recipe\.yaml lists more than 10,000 entries at line \d+; shorten it/;
    const keys = Array.from({ length: 11_000 }, (_, i) => `k${i}: 1`).join("\n");
    await merge(`method: soup\nmodels: [task]\n${keys}\n`, tooLong);
    await merge(`merge_method: slerp\nparameters: { t: [${"1, ".repeat(11_000)}1] }\n`, tooLong);
    const lists = `  - [${"a, ".repeat(9_000)}a]\n`.repeat(12);
    await merge(`method: soup\nmodels:\n${lists}`, /is too long for a settings file/);
  });

  it("of more models or slices than anybody merges", async () => {
    await merge(`method: soup\nmodels:\n${"  - task\n".repeat(501)}`, /line 2: models: must name at most 500 models/);
    const slice = "  - sources: [{ model: task, layer_range: [0, 1] }]\n";
    await merge(`merge_method: passthrough\nslices:\n${slice.repeat(501)}`, /slices: must name at most 500 slices/);
  });

  it("with more problems than a person reads: twenty, and how many more there are", async () => {
    const keys = Array.from({ length: 500 }, (_, i) => `k${i}: 1`).join("\n");
    const soup = "method: soup\nmodels: [task]\n";
    const message = await merge(`${soup}${keys}\n`, /line 3: unknown field "k0"\n/, /\n {2}and 480 more\n/);
    expect(message.match(/^ {2}- /gm)).toHaveLength(20);
    const long = await merge(`${soup}${"x".repeat(900)}: 1\n`, /unknown field "x{77}\.\.\."/);
    expect(long.length).toBeLessThan(300);
  });

  it("with a field or flag of a near name: the one that was meant, never the same word", async () => {
    const metod = "metod: swap\ntask: task\nlanguage: language\n";
    await merge(metod, /method: is missing; did you mean method where it says metod\?/);
    await merge("method: swap\ntask: task\nlang: language\n", /unknown field "lang"; did you mean language\?/);
    await refused(["swap", "--taks", "task"], WRONG_USAGE, /unknown option '--taks'; did you mean --task\?/);
    await refused(["train", "--lr", "1"], WRONG_USAGE, /unknown option '--lr'; did you mean --optimizer\.lr\?/);
    await refused(["help", "swpa"], WRONG_USAGE, /unknown command 'swpa'; did you mean swap\?/);
    writeFileSync(at("run.yaml"), "base: b\nout: o\nlr: 1\nmethod: lora\nlora: { r: 8 }\n");
    await refused(
      ["train", "run.yaml"],
      WRONG_USAGE,
      /unknown field "lr"; it belongs under optimizer/,
      /lora: unknown field "r"; did you mean rank\?/,
    );
    writeFileSync(at("task.yaml"), "task: t\ndata: d\nanswer: generate\nprompt: p\ngold: g\ncorrect: c\n");
    await refused(
      ["eval", "task", "--tasks", "task.yaml", "--out", "o"],
      WRONG_USAGE,
      /unknown field "correct"; it is for answer: choose/,
    );
  });

  it("given as values of the library: the same problems, without lines", async () => {
    const recipe = { method: "swap", task: "task", language: 7, bottom: -1 } as unknown as Parameters<
      typeof planRecipe
    >[0];
    const error = await planRecipe(recipe, { folder: root }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RecipeError);
    expect((error as RecipeError).problems).toEqual([
      expect.stringMatching(/^language: must be a folder/),
      expect.stringMatching(/^bottom: /),
    ]);
  });
});

describe("outputs", () => {
  afterEach(() => {
    for (const name of ["out", "out.partial", "home"]) rmSync(at(name), { recursive: true, force: true });
  });

  it("that exist: kept without --force, and with it replaced if layergraft made them", async () => {
    expect((await run(swap("out", "--bottom", "1"))).status).toBe(DONE);
    const earlier = snapshot(at("out"));
    await refused(
      swap("out", "--bottom", "2"),
      FAILED,
      /out already exists\. Pass --force to replace it, or choose another --out\./,
    );
    expect((await run(swap("out", "--bottom", "2", "--force"))).status).toBe(DONE);
    const later = snapshot(at("out"));
    expect(Object.keys(later)).toEqual(Object.keys(earlier));
    expect(later["model.safetensors"]).not.toBe(earlier["model.safetensors"]);
    expect(Object.keys(snapshot(root)).filter((name) => /^out./.test(name) && !name.startsWith("out/"))).toEqual([]);
  });

  it("that exist and are someone's home, or a file: kept even with --force", async () => {
    mkdirSync(at("home"));
    writeFileSync(at("home/diary.txt"), "dear diary");
    await refused(swap("home"), FAILED, /home already exists/);
    await refused(
      swap("home", "--force"),
      FAILED,
      /home already exists and was not made by layergraft.*so it is not replaced\. Choose another --out\./,
    );
    await refused(
      swap(".", "--force"),
      FAILED,
      /is inside the output|was not made by layergraft|is not from layergraft/,
    );
    writeFileSync(at("note"), "text");
    await refused(swap("note"), FAILED, /note already exists/);
    await refused(swap("note", "--force"), FAILED, /note already exists and is not a folder\. Choose another --out/);
  });

  it("whose partial name is someone's folder or file, or an input: kept even with --force", async () => {
    mkdirSync(at("out.partial"));
    writeFileSync(at("out.partial/diary.txt"), "dear diary");
    await refused(swap("out", "--force"), FAILED, /out\.partial is not from layergraft/);
    await refused(swap("out"), FAILED, /out\.partial/);
    await refused(swap("out", "--resume"), FAILED, /out\.partial is not from layergraft/);
    rmSync(at("out.partial"), { recursive: true });
    writeFileSync(at("out.partial"), "text");
    await refused(swap("out", "--force"), FAILED, /out\.partial/);
    rmSync(at("out.partial"));
    await writeTiny(at("out.partial"), { seed: 3 });
    const args = ["swap", "--task", "out.partial", "--language", "language", "--out", "out", "--force"];
    await refused(args, FAILED, /out\.partial/);
  });

  it("with a neighbour called .replaced: kept", async () => {
    expect((await run(swap("out"))).status).toBe(DONE);
    mkdirSync(at("out.replaced"));
    writeFileSync(at("out.replaced/diary.txt"), "dear diary");
    await run(swap("out", "--force"));
    expect(readFileSync(at("out.replaced/diary.txt"), "utf8")).toBe("dear diary");
    rmSync(at("out.replaced"), { recursive: true });
  });

  it("that are inputs, or hold them", async () => {
    await refused(swap("task"), FAILED, /the output .*task is one of the inputs/);
    await refused(swap("./language/", "--force"), FAILED, /language is one of the inputs/);
    mkdirSync(at("out"));
    await writeTiny(at("out/inner"), { seed: 3 });
    const args = ["swap", "--task", "out/inner", "--language", "language", "--out", "out"];
    await refused([...args, "--force"], FAILED, /the input .*inner is inside the output/);
    symlinkSync("task", at("home"));
    await refused(swap("home", "--force"), FAILED, /home/);
    const linked = ["swap", "--task", "home", "--language", "language", "--out", "task", "--force"];
    await refused(linked, FAILED, /the output .*task is one of the inputs/);
  });

  it("that have no folder to stand in, or a link to nowhere in their place", async () => {
    await refused(swap("no/where/out"), FAILED, /no\/where does not exist.*Create it first/);
    await refused(swap("task/config.json/out"), FAILED, /config\.json is (a file|not a folder)/);
    symlinkSync("nowhere", at("home"));
    await refused(swap("home"), FAILED, /home already exists/);
    await refused(swap("x".repeat(300)), FAILED, /error: .*(too long|ENAMETOOLONG)/);
    await refused(swap(""), WRONG_USAGE, /--out/);
  });

  it.skipIf(process.getuid?.() === 0)("in a folder that may not be written (root may write anywhere)", async () => {
    mkdirSync(at("home"), { mode: 0o555 });
    await refused(swap("home/out"), FAILED, /error: .*home/);
  });

  it("of runs that fail before anything is written: no partial is left to explain", async () => {
    await writeTiny(at("base"), { seed: 1 });
    const magnitude = swap("out", "--weights", "magnitude", "--base", "base");
    await refused(magnitude, FAILED, /task is identical to the base, so the inverse of its magnitude is infinite/);
    await refused(swap("out", "--resume", "--memory", "2kB"), WRONG_USAGE, /too small/);
  });
});

describe("streams", () => {
  afterEach(() => rmSync(at("out"), { recursive: true, force: true }));

  it("--json prints one document to stdout, progress and the plan go to stderr", async () => {
    const { status, stdout, stderr } = await run(swap("out", "--json"));
    expect(status).toBe(DONE);
    expect(JSON.parse(stdout)).toMatchObject({ out: at("out"), files: ["model.safetensors"], resumed: false });
    expect(stderr).toMatch(/Layer swap: bottom 1/);
    expect(stderr).toMatch(/writing 100%/);
    for (const command of [["inspect", "out"], ["diff", "task", "out"], ["verify", "out"], swap("new", "--dry-run")]) {
      const outcome = await run([...command, "--json"]);
      expect(() => JSON.parse(outcome.stdout), command.join(" ")).not.toThrow();
    }
  });

  it("--quiet prints nothing to stderr when all goes well, and still says what went wrong", async () => {
    for (const args of [swap("out"), ["inspect", "out"], ["verify", "out"], ["diff", "out", "out"]]) {
      expect(await run([...args, "--quiet"])).toMatchObject({ status: DONE, stderr: "" });
    }
    expect((await run(swap("out", "--quiet"))).stderr).toMatch(/^error: .* already exists/);
  });

  it("no colours where there is no terminal, some where FORCE_COLOR asks, none where NO_COLOR does", async () => {
    const plan = swap("out", "--dry-run");
    const plain = await run(plan);
    expect(plain.stdout + plain.stderr).not.toContain("\u001b");
    expect((await run(plan, { FORCE_COLOR: "1" })).stdout).toContain("\u001b");
    expect((await run(plan, { FORCE_COLOR: "1", NO_COLOR: "1" })).stdout).not.toContain("\u001b");
    expect((await run(["inspect", "x"], { FORCE_COLOR: "1" })).stderr).toContain("\u001b");
  });

  it("--dry-run writes nothing and prints the strip", async () => {
    const before = snapshot(root);
    const { status, stdout } = await run(swap("out", "--bottom", "1", "--top", "1", "--dry-run"));
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/██░░░░██/);
    expect(stdout).toMatch(/language {2,}layers 0, 3/);
    expect(snapshot(root)).toEqual(before);
    expect(readJson(at("task"), "config.json").num_hidden_layers).toBe(4);
  });
});
