// What people pass to the wrong command or after a change: one error that says what it is, and what to do.
import { mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { findSource } from "../src/train/data/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, FAILED, layergraft, WRONG_USAGE } from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
// No hub is asked: an address without a server would be named in the message.
const env = { HF_ENDPOINT: "http://127.0.0.1:9", HF_HUB_OFFLINE: "0", HF_HUB_CACHE: at("cache"), HF_HOME: at("home") };
const run = (...args: string[]) => layergraft(args, { cwd: root, env });
const swap = (...more: string[]) => run("swap", "--task", "task", "--language", "language", "--out", "out", ...more);

async function refused(args: readonly string[], status: number, message: string): Promise<void> {
  const outcome = await run(...args);
  expect(outcome.stderr.trim().split("\n")[0]).toBe(`error: ${message}`);
  expect(outcome.status).toBe(status);
  expectReadable(outcome.stderr);
}

beforeAll(async () => {
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2 });
  mkdirSync(at("models"));
  writeFileSync(at("rows.jsonl"), '{"prompt": "a", "response": "b"}\n'.repeat(30));
  writeFileSync(at("plan.yaml"), "name: p\nbase: task\nexperts: {}\nmerges: []\nevaluate: { tasks: [quiz.yaml] }\n");
  writeFileSync(at("quiz.yaml"), "task: quiz\nanswer: choose\ndata: rows.jsonl\n");
  writeFileSync(at("run.yaml"), "base: task\ndata: rows.jsonl\nout: run\nmethod: lora\n");
  writeFileSync(at("recipe.yaml"), "method: soup\nmodels: [task, language]\n");
  writeFileSync(at("evolve.yml"), "genome: { models: [task], merge_method: linear }\ntasks: [{ name: quiz }]\n");
  writeFileSync(at("axolotl.yml"), "base_model: task\nadapter: lora\ndatasets: [{ path: rows.jsonl, type: alpaca }]\n");
  writeFileSync(at("factory.yaml"), "model_name_or_path: task\nfinetuning_type: lora\ndataset: identity\n");
  writeFileSync(at("bakllama.yml"), "layer_slices: [{ model: task, start: 0, end: 2 }]\n");
  writeFileSync(at("mergekit.yml"), "merge_method: linear\nmodels: [{ model: task }]\n");
});

it.each([
  [
    ["train", "rows.jsonl"],
    "rows.jsonl is data, not a run. To train on it: layergraft train --base MODEL --data rows.jsonl --out FOLDER",
  ],
  [
    ["merge", "rows.jsonl", "--dry-run"],
    "rows.jsonl is data, not a recipe. To train on it: layergraft train --base MODEL --data rows.jsonl --out FOLDER",
  ],
  [["merge", "plan.yaml", "--dry-run"], "plan.yaml is a plan, not a recipe. Run: layergraft experiment plan.yaml"],
  [
    ["merge", "quiz.yaml", "--dry-run"],
    "quiz.yaml is a task, not a recipe. Run: layergraft eval MODEL --tasks quiz.yaml",
  ],
  [["merge", "recipe.yml", "--dry-run"], "recipe.yml does not exist; did you mean recipe.yaml?"],
  [["merge", "run.yaml", "--dry-run"], "run.yaml is a run, not a recipe. Run: layergraft train run.yaml"],
  [["train", "recipe.yaml"], "recipe.yaml is a recipe, not a run. Run: layergraft merge recipe.yaml --out FOLDER"],
  [
    ["train", "mergekit.yml"],
    "mergekit.yml is a mergekit configuration, not a run. Run: layergraft convert mergekit.yml",
  ],
  ...["merge", "convert"].map((command): [string[], string] => [
    [command, "evolve.yml"],
    "evolve.yml is a mergekit-evolve configuration, not a recipe. Run: layergraft tune --task MODEL --language MODEL --on TASK",
  ]),
  [
    ["train", "bakllama.yml"],
    "bakllama.yml is a mergekit configuration, not a run. Run: layergraft convert bakllama.yml",
  ],
  [
    ["merge", "task", "language"],
    "task is a folder; give a recipe file. To average models: layergraft soup --model task --model OTHER --out FOLDER",
  ],
  [
    ["merge", "task", "language", "--out", "other"],
    "task is a folder; give a recipe file. To average models: layergraft soup --model task --model OTHER --out FOLDER",
  ],
  [
    ["merge", "--method", "ties", "--model", "task"],
    "merge takes a recipe: a file with method: NAME and the fields of the method. Its fields: layergraft methods NAME. Without a file, swap, soup and revert take models as flags.",
  ],
  [
    ["soup", "--model", "task=x", "--out", "other"],
    "option '--model <source[=weight]>' argument 'task=x' is invalid. x is not a number.",
  ],
  [
    ["init", "recipe", "task", "language"],
    "init recipe takes what it needs by flags. Write: layergraft init recipe --task task --language language",
  ],
  [["suggest"], "Missing --base <source>: model both were fine-tuned from."],
  [
    ["train", "task"],
    "task is a folder; give a run file. To train it: layergraft train --base task --data SOURCE --out FOLDER",
  ],
  [
    ["train", "axolotl.yml"],
    "axolotl.yml is a configuration of axolotl, not a run. Run: layergraft init run --base task --data rows.jsonl",
  ],
  [
    ["train", "factory.yaml"],
    "factory.yaml is a configuration of LLaMA-Factory, not a run. Run: layergraft init run --base task --data SOURCE",
  ],
  [
    ["experiment", "recipe.yaml", "--dry-run"],
    "recipe.yaml is a recipe, not a plan. Run: layergraft merge recipe.yaml --out FOLDER",
  ],
])("a file of another kind: %j", async (args, message) => refused(args, WRONG_USAGE, message));

it("a file that has the kind's own fields is checked as such", async () => {
  writeFileSync(at("swap.yaml"), "method: swap\ntask: task\nbotom: 1\n");
  const outcome = await run("merge", "swap.yaml", "--dry-run");
  expect(outcome.stderr).toMatch(/swap\.yaml is not a valid recipe:.*unknown field "botom"/s);
});

it("a missing model or data set in a folder that is here is not asked of the hub", async () => {
  const hint = "does not exist, but its folder models does. For the model on the hub, write hub:models/base";
  await refused(["inspect", "models/base"], FAILED, `models/base ${hint}`);
  await refused(["inspect", "models/base+task"], FAILED, `models/base ${hint}`);
  await expect(findSource({ source: "models/rows" }, { folder: root, environment: env })).rejects.toThrow(
    `${at("models/rows")} does not exist. Pass a file, a folder, a data set of the Hub`,
  );
  expect((await run("inspect", "elsewhere/base")).stderr).toContain("127.0.0.1:9");
});

it("a data set that cannot be downloaded is not said to be a missing folder", async () => {
  await expect(findSource({ source: "openai/gsm8k" }, { folder: root, environment: env })).rejects.toThrow(
    /^the data set openai\/gsm8k \(main\) could not be downloaded from http:\/\/127\.0\.0\.1:9: /,
  );
});

it("a model in place of results", async () => {
  await refused(
    ["compare", "task", "language"],
    WRONG_USAGE,
    "task is a model, not results. Evaluate it first: layergraft eval task --tasks TASK --out FOLDER",
  );
});

it("a threshold that is none", async () => {
  await refused(
    ["analyze", "--base", "task", "--expert", "a=language", "--threshold", "foo"],
    WRONG_USAGE,
    "option '--threshold <value>' argument 'foo' is invalid. It must be auto, common, or, also as EXPERT=VALUE, paper, paper-fine or a positive number.",
  );
});

it("a source saved again, under --resume and verify", async () => {
  expect((await swap("--quiet")).status).toBe(DONE);
  expect((await swap("--resume")).stdout).toMatch(/is already complete$/m);
  const resume = ["swap", "--task", "task", "--language", "language", "--out", "out", "--resume"];
  const advice = "Pass --force to replace it, or choose another --out.";
  await refused(
    [...resume, "--bottom", "2"],
    FAILED,
    `${at("out")} is complete, so there is nothing to resume, but another recipe, other options or other sources wrote it. ${advice}`,
  );
  const file = at("task", "model.safetensors");
  const later = statSync(at("out", "layergraft.json")).mtimeMs / 1000 + 60;
  utimesSync(file, later, later);
  await refused(
    resume,
    FAILED,
    `${at("out")} is complete, so there is nothing to resume, but ${file} was saved after it. ${advice}`,
  );
  // Another header: eight more spaces.
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE());
  bytes.writeBigUInt64LE(BigInt(length + 8));
  const body = bytes.subarray(8 + length);
  writeFileSync(file, Buffer.concat([bytes.subarray(0, 8 + length), Buffer.from(" ".repeat(8)), body]));
  await refused(
    ["verify", "out"],
    FAILED,
    `${at("task")} changed since the plan was made: its weight files differ in size or header. out cannot be verified against it: restore the source, or merge again.`,
  );
});
