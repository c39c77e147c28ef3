// The README's and the recipe guide's commands and recipes do what they say: each is run, in order, in one folder.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { analyzeExperts, parseRecipe } from "layergraft";
import { writeSharded } from "layergraft/safetensors";
import { beforeAll, expect, test } from "vitest";
import { writePlan } from "../dist/experiment/demo/demo-plan.js";
import { writeWorld } from "../dist/experiment/demo/world/world-files.js";
import { renewed, renewedTraining, schema } from "../docs/generate.js";
import { seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { layergraft } from "./support/command.js";

const ROOT = join(import.meta.dirname, "..");
const readme = readFileSync(join(ROOT, "README.md"), "utf8");
const guide = readFileSync(join(ROOT, "docs/recipes.md"), "utf8");

/** Contents of the fenced blocks of a language. */
function blocks(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(
    (match) => match[1] ?? "",
  );
}

const commands = blocks(readme, "sh")
  .flatMap((block) => block.trim().split("\n"))
  .filter((line) => line.startsWith("layergraft "));
const recipes = blocks(guide, "yaml");
const mergekit = blocks(readFileSync(join(ROOT, "docs/mergekit.md"), "utf8"), "yaml");
const folder = temporaryFolder();

/** A few words: enough to answer with. */
const WORDS = "<unk> <end> Amina ana maembe mangapi sasa has how many mangoes now one two three four ? .".split(" ");
const TOKENIZER = {
  version: "1.0",
  added_tokens: [{ id: 1, content: "<end>", special: true, normalized: false }],
  pre_tokenizer: { type: "Whitespace" },
  model: { type: "WordLevel", vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])), unk_token: "<unk>" },
};

/** The words of a command line, as a shell takes them: quotes hold words together. */
const argumentsOf = (command: string) =>
  [...command.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? "");

beforeAll(async () => {
  for (const [seed, name] of ["base", "math-expert", "math-expert-2", "swahili-expert", "swahili-expert-2"].entries()) {
    await writeTiny(join(folder, name), { layers: 16, seed: seed + 1, config: { max_position_embeddings: 128 } });
    writeFileSync(join(folder, name, "tokenizer.json"), JSON.stringify(TOKENIZER));
    writeFileSync(join(folder, name, "tokenizer_config.json"), JSON.stringify({ eos_token: "<end>" }));
  }
  const adapter = join(folder, "math-adapter");
  mkdirSync(adapter);
  const at = "base_model.model.model.layers.7.self_attn.q_proj";
  await writeSharded(adapter, [
    seededTensor(`${at}.lora_A.weight`, [2, 8], 91, "F32"),
    seededTensor(`${at}.lora_B.weight`, [8, 2], 92, "F32"),
  ]);
  writeFileSync(join(adapter, "adapter_model.safetensors"), readFileSync(join(adapter, "model.safetensors")));
  writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 4 }));
  writeFileSync(join(folder, "recipe.yaml"), recipes[0] ?? "");
  writeFileSync(join(folder, "mergekit.yml"), mergekit[0] ?? "");
  writeFileSync(join(folder, "prompts.txt"), "Amina ana maembe mangapi sasa ?\nhow many mangoes now ?\n");
  const evaluation = readFileSync(join(ROOT, "docs/evaluation.md"), "utf8");
  writeFileSync(join(folder, "quiz.yaml"), blocks(evaluation, "yaml")[0] ?? "");
  writeFileSync(join(folder, "rows.jsonl"), blocks(evaluation, "json")[0] ?? "");
  writeFileSync(join(folder, "run.yaml"), blocks(readme, "yaml")[0] ?? "");
  const demo = join(folder, "demo-output");
  const settings = { seed: 0, pairs: 1, quick: true, threads: 1 };
  await writeTiny(join(demo, "base", "last"), { layers: 8, seed: 1, config: { max_position_embeddings: 128 } });
  writeFileSync(join(demo, "base", "last", "tokenizer.json"), JSON.stringify(TOKENIZER));
  writeFileSync(join(demo, "base", "last", "tokenizer_config.json"), JSON.stringify({ eos_token: "<end>" }));
  await writeWorld(demo, settings);
  await writePlan(demo, settings);
  // One step of each training run is enough to see the commands work.
  const plan = readFileSync(join(demo, "plan.yaml"), "utf8");
  writeFileSync(join(demo, "plan.yaml"), plan.replace(/steps: \d+/g, "steps: 1"));
  for (const file of ["problems.jsonl", "choosing.jsonl"].map((name) => join(demo, "data", name))) {
    writeFileSync(file, readFileSync(file, "utf8").split("\n").slice(0, 3).join("\n"));
  }
  const rows = Array.from({ length: 60 }, (_, i) => ({
    question: `how many mangoes ${WORDS[2 + (i % 8)]} ?`,
    answer: `${WORDS[13 + (i % 4)]} .`,
  }));
  writeFileSync(join(folder, "problems.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
});

test("the README has commands, and the two that CI runs", () => {
  expect(commands.length).toBeGreaterThan(8);
  expect(readme).toContain("npm ci && npm run demo");
  expect(readme).toContain("npm ci && npm test");
  const script = readFileSync(join(ROOT, ".ci/run"), "utf8");
  expect(script).toContain("npm ci && npm run demo -- --quick");
  expect(script).toContain("npm run example");
  expect(script).toContain("npm ci && npm test");
});

test("the README shows lines of the demo's plan", async () => {
  const whole = join(folder, "whole-demo");
  mkdirSync(whole);
  await writePlan(whole, { seed: 0, pairs: 1, quick: false, threads: 1 });
  const lines = readFileSync(join(whole, "plan.yaml"), "utf8").split("\n");
  const shown = (blocks(readme, "yaml")[1] ?? "").trim().split("\n");
  expect(shown.length).toBeGreaterThan(10);
  for (const line of shown) expect(lines).toContain(line);
});

test.each(commands)("%s", async (command) => {
  const [, ...args] = argumentsOf(command);
  const { status, stderr } = await layergraft(args, { cwd: folder });
  const wanted = args[0] === "diff" ? 1 : 0; // the experts do differ
  expect({ status, stderr: status === wanted ? "" : stderr }).toEqual({ status: wanted, stderr: "" });
});

test.each(recipes.map((text, i) => [i, text] as const))("recipe %i of the guide", async (i, text) => {
  parseRecipe(text);
  writeFileSync(join(folder, `guide-${i}.yaml`), text);
  const args = ["merge", `guide-${i}.yaml`, "--out", `guide-${i}`, "--quiet"];
  const { status, stderr } = await layergraft(args, { cwd: folder });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

test("the mergekit guide's configuration converts to the recipe that it shows", async () => {
  writeFileSync(join(folder, "guide-mergekit.yml"), mergekit[0] ?? "");
  const { stdout, status } = await layergraft(["convert", "guide-mergekit.yml", "--quiet"], { cwd: folder });
  expect({ status, stdout }).toEqual({ status: 0, stdout: mergekit[1] });
});

test("what the recipe guide says of methods is what the methods say (npm run docs)", () => {
  expect(guide).toBe(renewed(guide));
  expect(readFileSync(join(ROOT, "docs/recipe.schema.json"), "utf8")).toBe(schema());
});

test("the guide to training lists the fields that a run has (npm run docs)", () => {
  const training = readFileSync(join(ROOT, "docs/training.md"), "utf8");
  expect(training).toBe(renewedTraining(training));
});

test("every field of analysis.json is in its guide", async () => {
  const text = readFileSync(join(ROOT, "docs/analysis.md"), "utf8");
  const experts = { math: join(folder, "math-expert"), swahili: join(folder, "swahili-expert") };
  const { analysis } = await analyzeExperts({ base: join(folder, "base"), experts });
  const keys = new Set<string>();
  const collect = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) keys.add(key);
      collect(inner);
    }
  };
  collect(analysis);
  expect(keys.size).toBeGreaterThan(25);
  expect([...keys].filter((key) => !text.includes(`\`${key}\``))).toEqual([]);
});

test("the output that the README shows is the example's, but for the times", () => {
  const { stdout, status } = spawnSync(process.execPath, [join(ROOT, "examples/swap.js")], { encoding: "utf8" });
  expect(status).toBe(0);
  const untimed = (text: string) => text.replace(/\d+(\.\d+)? (ms|s)\b/g, "TIME");
  const shown = blocks(readme, "text").find((block) => block.startsWith("$ layergraft swap")) ?? "";
  expect(shown.split("\n").length).toBeGreaterThan(15);
  expect(untimed(stdout)).toContain(untimed(shown));
});

test("the library example of the README type checks in words: its names are exported", async () => {
  const names = /import \{ ([^}]+) \} from "layergraft"/.exec(blocks(readme, "ts").join(""))?.[1]?.split(", ") ?? [];
  const library: Record<string, unknown> = await import("layergraft");
  expect(names.length).toBeGreaterThan(3);
  for (const name of names) expect([name, typeof library[name]]).toEqual([name, "function"]);
});
