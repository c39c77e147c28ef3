// What a project knows of a recipe's score: its models, its recipes and its experiments, on the same items.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { openModelSource } from "../../engine/index.js";
import { compareEvaluations, listAll } from "./evaluations.js";
import { folderOf } from "./places.js";
import { findingOf } from "./project-finding.js";
import { sharedPage } from "./share.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const ITEMS = 40;

/** A result of `layergraft eval` that has the first items right. */
function keep(folder: string, source: string, right: number, items = ITEMS): void {
  mkdirSync(folder, { recursive: true });
  const metric = { name: "exact", title: "exact", of: "exact", by: "mean", scale: "share" };
  const score = { metric: "exact", title: "exact", scale: "share", value: right / items, standardError: 0.05 };
  const digest = `${items}`.padEnd(64, "0");
  const task = {
    ...{ task: "quiz", title: "quiz", protocol: "custom/quiz@1", shots: 0, promptsDigest: digest, items },
    ...{ judgingDigest: "b".repeat(64), notes: [], answeredBy: {}, metrics: [metric] },
    problems: { refused: 0, missing: 0, tied: 0, unscored: 0, cut: 0 },
    scores: [{ ...score, items, unscored: 0, interval: { low: 0, high: 1, level: 0.95, deviation: 0.05 } }],
  };
  const results = {
    ...{ format: 1, layergraft: "2.0.0", source, sandbox: null, tasks: [task] },
    backend: { backend: "engine", server: "layergraft 2.0.0", model: source, digest: null, bos: "tokenizer" },
    settings: { limit: null, seed: 0, resamples: 1000 },
  };
  writeFileSync(join(folder, "results.json"), JSON.stringify(results));
  const lines = Array.from({ length: items }, (_, i) =>
    JSON.stringify({
      id: `${i}`,
      prompt: { shared: "", own: `What is ${i}?` },
      gold: "",
      output: "",
      reading: null,
      verdict: { exact: i < right ? 1 : 0 },
    }),
  );
  writeFileSync(join(folder, "samples-quiz.jsonl"), `${lines.join("\n")}\n`);
}

/** A finished evaluation of the experiment of plan.yaml. */
function keepStep(key: string, entry: string, model: unknown, right: number, items = ITEMS): void {
  const folder = at("plan.experiment", "steps", key);
  keep(join(folder, "evaluation"), key, right, items);
  const of = { name: `${entry}, one`, entry, configuration: "" };
  const step = {
    kind: "evaluate",
    key,
    label: "",
    needs: [],
    locations: {},
    of,
    model,
    request: { task: "quiz" },
    items: null,
  };
  const folders = { one: at("one"), two: at("two"), base: at("base") };
  writeFileSync(join(folder, "step.json"), JSON.stringify({ step, folders, settings: {} }));
  writeFileSync(join(folder, "result.json"), "{}");
}

beforeAll(async () => {
  for (const [seed, name] of ["base", "one", "two"].entries()) await writeTiny(at(name), { seed });
  const experts = ["one", "two"].map((name) => ({ name, source: at(name) }));
  const settings = { base: at("base"), experts, recipe: "mine", prompts: [] };
  writeFileSync(at("studio.json"), JSON.stringify({ revision: 1, settings }));
  mkdirSync(at("recipes"));
  writeFileSync(at("recipes", "mine.yaml"), "method: swap\ntask: ../one\nlanguage: ../two\nbottom: 1\ntop: 0\n");
  for (const [name, right] of Object.entries({ base: 2, one: 4, two: 3 }))
    keep(at("evaluations", name), at(name), right);
  keep(at("evaluations", "mine"), "recipes/mine.yaml", 30);
});

const found = () => findingOf({ result: "mine", task: "quiz" }, root);

it("is about single models where nothing else was tried, and says so", async () => {
  const { text, alternative } = (await found()) ?? {};
  expect(text).toMatch(
    /^The recipe mine scores 75\.0%, 65\.0 points above the one expert, the best single model \(10\.0%; .*\)\. It is significantly above all others\. No other merge was tried on these items\. Score a soup or TIES, too\.$/,
  );
  expect(alternative).toBe("one");
  expect(await findingOf({ result: "one", task: "quiz" }, root)).toBeNull();
});

it("is about the merges of the project's experiments, too, each model once", async () => {
  writeFileSync(
    at("plan.yaml"),
    `name: plan
base: base
experts: { one: { role: task, folders: [one] }, two: { role: language, language: sw, folders: [two] } }
merges: [{ name: soup, recipe: { method: soup, models: [one, two] } }]
evaluate: { tasks: [quiz.yaml] }
`,
  );
  keepStep("evaluate-1", "soup", { method: "soup", models: ["one", "two"] }, 12);
  // Asked more, of which the recipe's items are the first.
  keepStep("evaluate-6", "DARE", { method: "dare_ties", models: ["one", "two"], base: "base" }, 10, 2 * ITEMS);
  // The recipe itself, an expert of the project, a control, and what was asked something else.
  keepStep("evaluate-2", "graft", { method: "swap", task: "one", language: "two", bottom: 1, top: 0 }, 30);
  keepStep("evaluate-3", "one", "one", 4);
  keepStep(
    "evaluate-4",
    "random layers, control of graft",
    { method: "swap", task: "two", language: "one", bottom: 1 },
    35,
  );
  keepStep("evaluate-5", "TIES", { method: "ties", models: ["one", "two"], base: "base" }, 20, 20);
  const keys = [1, 2, 3, 4, 5, 6].map((i) => `evaluate-${i}  a step\n`);
  writeFileSync(at("plan.experiment", "steps", "index.txt"), keys.join(""));
  const { text, alternative } = (await found()) ?? {};
  expect(text).toMatch(
    /^The recipe mine scores 75\.0%, 45\.0 points above the soup, the best alternative \(30\.0%; 95% interval of the difference: \+[\d.]+ to \+[\d.]+; p < 0\.001\)\. It is significantly above all others except “random layers, control of graft”\.$/,
  );
  // Of an experiment, whose results are listed and compared as those of the project.
  expect(await folderOf(root, alternative ?? "")).toBe(at("plan.experiment", "steps", "evaluate-1", "evaluation"));
  const listed = (await listAll(root)).find(({ name }) => name === alternative);
  expect(listed?.experiment).toEqual({ plan: "plan.yaml", entry: "soup", configuration: "", kind: "average" });
  expect(listed?.recipe).toContain("method: soup\n");
  const { tasks } = await compareEvaluations({ first: alternative ?? "", second: "mine", names: ["a", "b"] }, root);
  expect(tasks[0]?.comparisons[0]).toMatchObject({ gained: { length: 18 }, lost: { length: 0 } });
  await expect(folderOf(root, "experiment 0123456789abcdef")).rejects.toThrow("no longer has this result");
  const page = await sharedPage(root, "mine");
  expect(page.verdicts).toEqual([{ title: "", text, isOpen: false }]);
  const bars = page.sections.flatMap(({ figures }) => figures).find(({ kind }) => kind === "bars");
  const rows = bars?.kind === "bars" ? bars.rows : [];
  expect(rows.map(({ label, detail, mean }) => [label, detail, mean])).toEqual([
    ["base", "", 0.05],
    ["one", "", 0.1],
    ["two", "", 0.075],
    ["random layers, control of graft", "in plan.yaml", 0.875],
    ["soup", "in plan.yaml", 0.3],
    ["DARE", "in plan.yaml", 0.25],
    ["mine", "", 0.75],
  ]);
  const flips = page.sections.find(({ id }) => id === "flips")?.figures[0];
  const soup =
    flips?.kind === "table" ? flips.rows.find(([first]) => JSON.stringify(first).includes("soup")) : undefined;
  expect(soup?.[1]).toMatchObject({ balance: { gained: 18, lost: 0 } });
});

it("is about other recipes of the project", async () => {
  writeFileSync(at("recipes", "other.yaml"), "method: ties\nmodels: [../one, ../two]\nbase: ../base\n");
  keep(at("evaluations", "other"), "recipes/other.yaml", 36);
  const { text, alternative } = (await found()) ?? {};
  expect(text).toMatch(
    /^The recipe mine scores 75\.0%, 15\.0 points below the recipe other, the best alternative \(90\.0%; /,
  );
  // Six items lost, none gained: twice 1/2 ** 6, times Holm's two.
  expect(text).toMatch(
    /; p = 0\.06[23]\)\. It is not significantly above the recipe other and “random layers, control of graft”\. Ask about /,
  );
  expect(alternative).toBe("other");
});

it("is about earlier versions of the recipe, as long as their models are the same", async () => {
  const recipe = (bottom: number) => `method: swap\ntask: ../two\nlanguage: ../one\nbottom: ${bottom}\ntop: 0\n`;
  const note = async (name: string, text: string, digest?: string) => {
    const fields = { task: at("two"), language: at("one"), bottom: 1, top: 0 };
    const known = (await openModelSource({ method: "swap", ...fields })).digest;
    const noted = { source: "recipes/mine.yaml", recipe: text, digest: digest ?? known };
    writeFileSync(at("evaluations", name, "model.json"), JSON.stringify(noted));
  };
  keep(at("evaluations", "before"), "recipes/mine.yaml", 38);
  await note("before", recipe(1));
  keep(at("evaluations", "stale"), "recipes/mine.yaml", 39);
  await note("stale", recipe(2), "of other weights");
  const { text, alternative } = (await found()) ?? {};
  expect(text).toMatch(
    /^The recipe mine scores 75\.0%, 20\.0 points below version 1 of the recipe mine, the best alternative \(95\.0%; /,
  );
  expect(alternative).toBe("before");
});
