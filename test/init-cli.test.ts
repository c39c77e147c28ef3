// Files that `layergraft init` writes run in the example folder, and `layergraft doctor` names what it finds.
// @module-tag slow
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { writeExample } from "../src/demo/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft, MAIN, start, WRONG_USAGE } from "./support/command.js";

const cwd = join(temporaryFolder(), "example");
beforeAll(() => writeExample(cwd));

const EXPERTS = ["--task", "math-expert", "--language", "swahili-expert"];
const CASES: readonly (readonly [kind: string, flags: readonly string[], check: readonly string[]])[] = [
  ["recipe", EXPERTS, ["merge", "my-recipe.yaml", "--dry-run"]],
  ["run", ["--base", "base", "--data", "problems.jsonl"], ["train", "my-run.yaml", "--dry-run"]],
  [
    "plan",
    ["--base", "base", ...EXPERTS, "--code", "sw", "--tasks", "quiz.yaml,problems.yaml"],
    ["experiment", "my-plan.yaml", "--dry-run"],
  ],
  [
    "task",
    ["--data", "swahili.jsonl", "--question", "question", "--answer", "number"],
    ["eval", "base", "--tasks", "my-task.yaml", "--limit", "2"],
  ],
];

describe.each(CASES)("init %s", { tags: ["slow"] }, (kind, flags, check) => {
  test("writes a file that runs and names its schema", async () => {
    const file = check.find((word) => word.endsWith(".yaml")) ?? "";
    const outcome = await layergraft(["init", kind, ...flags, "--out", file], { cwd });
    expect(outcome).toMatchObject({ status: DONE, stdout: "" });
    const text = readFileSync(join(cwd, file), "utf8");
    const schema = /^# yaml-language-server: \$schema=(.*)\n/.exec(text)?.[1] ?? "";
    expect(schema.endsWith(`/docs/${kind}.schema.json`)).toBe(true);
    expect(existsSync(schema)).toBe(true);
    expect(text.match(/^# {3}layergraft .*/gm)?.every((line) => line.includes(file))).toBe(true);
    const ran = await layergraft(check, { cwd });
    expect({ status: ran.status, stderr: ran.status === DONE ? "" : ran.stderr }).toEqual({ status: DONE, stderr: "" });
  });
});

test("a swap has the paper's numbers of layers, in proportion to the depth", async () => {
  const numbers = async (depth: number) => {
    const model = join(cwd, `of-${depth}-layers`);
    await writeTiny(model, { layers: depth });
    const flags = ["--task", model, "--language", model];
    await layergraft(["init", "recipe", ...flags, "--out", "depth.yaml", "--force"], { cwd });
    const more = ["--base", model, "--code", "sw", "--tasks", "quiz.yaml", "--out", "depth-plan.yaml", "--force"];
    await layergraft(["init", "plan", ...flags, ...more], { cwd });
    const [recipe, plan] = ["depth.yaml", "depth-plan.yaml"].map((file) => readFileSync(join(cwd, file), "utf8"));
    return [...(recipe?.match(/^# (?:bottom|top): \d+/gm) ?? []), ...(plan?.match(/(?:grid|default): \{.*\}/g) ?? [])];
  };
  expect(await numbers(30)).toEqual([
    ...["# bottom: 5", "# top: 2"],
    ...["grid: { bottom: [3, 5, 7], top: [0, 2, 4] }", "default: { bottom: 5, top: 2 }"],
  ]);
  expect(await numbers(8)).toEqual([
    ...["# bottom: 1", "# top: 1"],
    ...["grid: { bottom: [1, 2], top: [0, 1, 2] }", "default: { bottom: 1, top: 1 }"],
  ]);
});

test("a task whose right answers are words compares lines, and numbers numbers", async () => {
  const written = async (data: string, question: string, answer: string) => {
    const flags = ["--data", data, "--question", question, "--answer", answer, "--out", "read.yaml", "--force"];
    await layergraft(["init", "task", ...flags], { cwd });
    return readFileSync(join(cwd, "read.yaml"), "utf8");
  };
  expect(await written("sentences.jsonl", "sw", "en")).toMatch(
    /^prompt: "\{sw\}"\n(?:#.*\n)*chat: true\ngold: "\{en\}"\n(?:#.*\n)*read: line$/m,
  );
  expect(await written("swahili.jsonl", "question", "number")).toMatch(/^read: number$/m);
});

test("a task and a recipe ask through the chat template, so the commands in them score and answer", {
  tags: ["slow"],
}, async () => {
  const flags = ["--data", "swahili.jsonl", "--question", "question", "--answer", "number", "--out", "asked.yaml"];
  await layergraft(["init", "task", ...flags], { cwd });
  const { stdout } = await layergraft(["eval", "recipe.yaml", "--tasks", "asked.yaml", "--limit", "50", "--json"], {
    cwd,
  });
  // The shipped experts' merge solves most; without the template it solves none.
  expect(JSON.parse(stdout).tasks[0].scores[0].value).toBeGreaterThan(0.5);
  await layergraft(["init", "recipe", ...EXPERTS, "--out", "asking.yaml"], { cwd });
  const [, command = ""] =
    /^# {3}layergraft (generate .*)$/m.exec(readFileSync(join(cwd, "asking.yaml"), "utf8")) ?? [];
  const [verb = "", file = "", chat = "", prompt = ""] = command.split(" ");
  expect({ file, chat, prompt }).toEqual({ file: "asking.yaml", chat: "--chat", prompt: "--prompt" });
  expect((await layergraft([verb, file, chat, prompt, "Habari"], { cwd })).status).toBe(DONE);
});

test("init without a terminal names the flags that are missing, and keeps what is there", async () => {
  const unasked = await start(["init", "recipe", "--task", "a", "--out", "none.yaml"], { cwd }).ended;
  expect(unasked).toMatchObject({
    status: WRONG_USAGE,
    stderr: "error: init recipe needs --language, or a terminal to ask in\n",
  });
  const foreign = await layergraft(["init", "recipe", ...EXPERTS, "--data", "x", "--out", "none.yaml"], { cwd });
  expect(foreign).toMatchObject({ status: WRONG_USAGE, stderr: "error: init recipe does not take --data\n" });
  expect(existsSync(join(cwd, "none.yaml"))).toBe(false);
  const kept = readFileSync(join(cwd, "recipe.yaml"), "utf8");
  const existing = await layergraft(["init", "recipe", ...EXPERTS], { cwd });
  expect(existing).toMatchObject({
    status: FAILED,
    stderr: "error: recipe.yaml already exists. Pass --force to replace it, or choose another --out.\n",
  });
  expect(readFileSync(join(cwd, "recipe.yaml"), "utf8")).toBe(kept);
});

test("doctor names what is installed, and the command that adds what is not", async () => {
  const env = { PATH: "", HF_TOKEN: "", HF_HOME: cwd, NODE_LLAMA_CPP: join(cwd, "none.js") };
  const { status, stdout } = await start(["doctor", "--json"], { cwd, env }).ended;
  expect(status).toBe(DONE);
  const findings = JSON.parse(stdout) as { name: string; found?: string; enables: string; add?: string }[];
  const found = Object.fromEntries(findings.map((finding) => [finding.name, finding.found]));
  expect(found["Node.js"]).toBe(process.version);
  expect(found["ONNX Runtime"]).toContain("cpu");
  expect(found["disk here"]).toMatch(/free; (?:clones|copies) files/);
  for (const name of ["node-llama-cpp", "llama.cpp", "NVIDIA GPU", "hub", "Python", "TRL", "vLLM", "Slurm"]) {
    expect(found[name]).toBe(undefined);
  }
  expect(findings.find(({ name }) => name === "node-llama-cpp")?.add).toBe(
    `npm install --prefix ${join(import.meta.dirname, "..")} --ignore-scripts node-llama-cpp`,
  );
  expect(existsSync(join(cwd, ".layergraft-doctor"))).toBe(false);
});

test("completion knows commands, flags, choices, methods, tasks and folders with models", async () => {
  const complete = async (...words: string[]) => {
    const { stdout } = await layergraft(["completion", "words", "--", ...words], { cwd });
    return stdout.trim().split("\n");
  };
  expect(await complete("sw")).toEqual(["swap"]);
  expect(await complete("swap", "--ta")).toEqual(["--task"]);
  expect(await complete("swap", "--task", "m")).toEqual(["math-adapter", "math-expert"]);
  expect(await complete("merge", "recipe.yaml", "--as", "")).toEqual(["model", "adapter"]);
  expect(await complete("methods", "tie")).toEqual(["ties"]);
  expect(await complete("eval", "base", "--tasks", "mgsm_s")).toEqual(["mgsm_sw"]);
  expect(await complete("swap", "--bottom", "")).toEqual([""]);
  expect(await complete("inspect", "b")).toEqual(["base"]);
});

test("the script for bash completes in a shell", async () => {
  const { stdout } = await layergraft(["completion", "bash"], { cwd });
  const bin = temporaryFolder();
  writeFileSync(join(bin, "layergraft"), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 });
  const script = `${stdout}\nCOMP_WORDS=(layergraft methods bread) COMP_CWORD=2; _layergraft; echo "$COMPREPLY"`;
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  expect((await promisify(execFile)("bash", ["-c", script], { cwd, env })).stdout).toBe("breadcrumbs\n");
});
