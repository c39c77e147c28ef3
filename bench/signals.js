// Seconds from a signal to the end of a command, at moments spread over its work: npm run bench -- signals --model FOLDER
// Prints a table in Markdown. The folder is a Hugging Face checkpoint with a tokenizer; the commands work on copies of it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CLI, describeMachine } from "./measure.js";

const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
/** Longest that a command works before it is interrupted, in seconds. */
const MOST = 10;

/**
 * @typedef {object} Row
 * @property {string} state what the command does when it is interrupted
 * @property {string[]} args
 * @property {string[][]} [prepare] commands that it needs to have run
 * @property {RegExp} [ready] a line after which it waits; without one, it is interrupted at moments of its work
 * @property {string} [input] typed once it is ready
 * @property {boolean} [silent] whether the hub does not answer
 */

/** @param {string} root @returns {Row[]} */
function rows(root) {
  const grid = [...Array(40).keys()].map((i) => (i + 1) / 41);
  writeFileSync(
    join(root, "grid.yaml"),
    `name: grid\nbase: base\nexperts: { one: { role: task, folders: [one] }, two: { role: language, language: sw, folders: [two] } }
merges: [{ name: mix, recipe: { method: ties, base: base, models: [one, two] }, grid: { density: [${grid}], lambda: [${grid}] } }]
evaluate: { tasks: [quiz.yaml] }\n`,
  );
  const questions = [...Array(200).keys()].map((i) => JSON.stringify({ q: `${i} + 1 =`, c: ["1", "2"], a: "A" }));
  writeFileSync(join(root, "rows.jsonl"), questions.join("\n"));
  writeFileSync(
    join(root, "quiz.yaml"),
    'task: quiz\ndata: rows.jsonl\nanswer: choose\nprompt: "{q}"\nchoices: c\ncorrect: "{a}"\n',
  );
  const texts = [...Array(2000).keys()].map((i) => JSON.stringify({ text: `A row of text with the number ${i}.` }));
  writeFileSync(join(root, "texts.jsonl"), texts.join("\n"));
  writeFileSync(
    join(root, "run.yaml"),
    "base: base\nout: run\ndata: { source: texts.jsonl, map: { text: text } }\nmethod: lora\nsteps: 2000\nsequence_length: 64\nbatch: 4\n",
  );
  for (const name of ["a", "b"]) writeFileSync(join(root, `${name}.txt`), `A text of ${name}.\n`.repeat(20));
  writeFileSync(
    join(root, "kit.yaml"),
    "merge_method: linear\nmodels: [{ model: one, parameters: { weight: 1 } }, { model: two, parameters: { weight: [{ filter: mlp, value: 0 }, { value: 1 }] } }]\n",
  );
  const long = "Tell me a long story. ".repeat(40);
  return [
    { state: "inspect: headers", args: ["inspect", "base", "--tensors"] },
    { state: "merge: measure and write", args: ["merge", "ties.yaml", "--out", "merged", "--force"] },
    { state: "swap: write", args: ["swap", "--task", "one", "--language", "two", "--out", "swapped", "--force"] },
    { state: "verify", args: ["verify", "whole"] },
    {
      state: "revert: write",
      args: ["revert", "--expert", "one", "--base", "base", "--layers", "0-8", "--out", "reverted", "--force"],
    },
    {
      state: "suggest: read",
      args: ["suggest", "--base", "base", "--task", "one", "--language", "two"],
    },
    { state: "explain: fit and compare", args: ["explain", "whole", "--from", "one", "--from", "two"] },
    {
      state: "transplant: solve and write",
      args: ["transplant", "base", "--tokenizer", "one", "--out", "moved", "--force"],
    },
    {
      state: "measure: load, passes",
      args: ["measure", "base", "--kind", "inputs", "--on", "texts.jsonl", "--out", "inputs", "--force"],
    },
    { state: "doctor: headers", args: ["doctor", "base"] },
    {
      state: "init: write",
      args: ["init", "recipe", "--task", "one", "--language", "two", "--out", "p.yaml", "--force"],
    },
    { state: "convert: read", args: ["convert", "kit.yaml"] },
    {
      state: "neurons: read",
      prepare: ["a", "b"].map((name) => [
        "measure",
        "base",
        "--kind",
        "activations",
        "--on",
        `${name}.txt`,
        "--out",
        name,
      ]),
      args: ["neurons", "--language", "a=a", "--language", "b=b"],
    },
    {
      state: "compare: read and resample",
      prepare: ["c", "d"].map((name) => ["eval", "base", "--tasks", "quiz.yaml", "--limit", "100", "--out", name]),
      args: ["compare", "c", "d"],
    },
    { state: "demo: merge, evaluate", args: ["demo", "--out", "demo", "--force"] },
    { state: "diff: read", args: ["diff", "one", "two"] },
    { state: "analyze: read", args: ["analyze", "--base", "base", "--expert", "one=one", "--expert", "two=two"] },
    {
      state: "extract: factor",
      args: ["extract", "--base", "base", "--model", "one", "--rank", "16", "--out", "lora", "--force"],
    },
    {
      state: "export: encode GGUF",
      args: ["export", "base", "--format", "gguf", "--type", "q4_k_m", "--out", "x.gguf", "--force"],
    },
    { state: "generate: load, prompt, answer", args: ["generate", "base", "-p", long, "--max-new-tokens", "400"] },
    { state: "score: load, passes", args: ["score", "base", "-p", long, "--top", "5"] },
    { state: "eval: load, passes", args: ["eval", "base", "--tasks", "quiz.yaml"] },
    { state: "train: read, load, steps", args: ["train", "run.yaml", "--force"] },
    { state: "experiment: check 1,600 combinations", args: ["experiment", "grid.yaml", "--dry-run"] },
    { state: "experiment: evaluation steps", args: ["experiment", "grid.yaml", "run"] },
    { state: "tune: passes", args: ["tune", "--task", "one", "--language", "two", "--on", "quiz.yaml"] },
    { state: "chat: waits for a line", args: ["chat", "base"], ready: /> $/ },
    { state: "chat: answers", args: ["chat", "base"], ready: /> $/, input: `${long}\n` },
    { state: "serve: waits for requests", args: ["serve", "base", "--port", "0"], ready: /http:/ },
    { state: "studio: waits for requests", args: ["studio", "project", "--no-open"], ready: /http:/ },
    { state: "inspect: a hub that is silent", args: ["inspect", "org/model"], silent: true },
    { state: "generate: a hub that is silent", args: ["generate", "org/model", "-p", "a"], silent: true },
    { state: "push: a hub that is silent", args: ["push", "whole", "org/model"], silent: true },
  ];
}

/** @param {Row} row @param {string} root @param {NodeJS.Signals | undefined} signal @param {number} after seconds */
async function interrupt({ args, ready, input }, root, signal, after) {
  const child = spawn(process.execPath, [CLI, ...args], { cwd: root, stdio: ["pipe", "pipe", "pipe"] });
  const start = performance.now();
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (text += data));
  child.stdin.on("error", () => undefined);
  const ended = once(child, "close");
  let isDone = false;
  ended.then(() => (isDone = true));
  if (!ready) child.stdin.end();
  while (ready && !isDone && !ready.test(text)) await sleep(20);
  if (input) child.stdin.write(input);
  await Promise.race([sleep(1000 * after), ended]);
  const before = text.length;
  const at = performance.now();
  if (!isDone) child.kill(signal ?? "SIGKILL");
  const wasDone = isDone;
  const [status, name] = await ended;
  return {
    seconds: (performance.now() - at) / 1000,
    lasted: (at - start) / 1000,
    wasDone,
    status: name ?? status,
    said: /stopping after [^;\n]*/.exec(text.slice(before))?.[0],
  };
}

/** @param {string[]} args */
export async function benchmarkSignals(args) {
  const { values } = parseArgs({
    args,
    options: {
      model: { type: "string" },
      only: { type: "string", default: "" },
      moments: { type: "string", default: "3" },
    },
  });
  if (!values.model) throw new Error("--model FOLDER: a checkpoint with a tokenizer");
  const root = mkdtempSync(join(tmpdir(), "layergraft-signals-"));
  const hub = createServer().listen(0, "127.0.0.1");
  await once(hub, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (hub.address());
  try {
    for (const name of ["base", "one", "two"]) cpSync(resolve(values.model), join(root, name), { recursive: true });
    writeFileSync(join(root, "ties.yaml"), "method: ties\nbase: base\nmodels: [one, two]\n");
    process.env.HF_HOME = join(root, "hub");
    process.env.HF_TOKEN = "hf_none";
    /** @param {string[]} command */
    const run = (command) => once(spawn(process.execPath, [CLI, ...command], { cwd: root, stdio: "ignore" }), "close");
    await run(["soup", "--model", "one", "--model", "two", "--out", "whole", "-q"]);
    console.log(`machine: ${describeMachine()}\n`);
    console.log(
      `| command and state | ${SIGNALS.join(" | ")} | status | says |\n| --- | ---: | ---: | ---: | --- | --- |`,
    );
    for (const row of rows(root)) {
      if (!new RegExp(values.only).test(row.state)) continue;
      process.env.HF_ENDPOINT = row.silent ? `http://127.0.0.1:${port}` : "http://127.0.0.1:1";
      for (const command of row.prepare ?? []) await run(command);
      const waits = row.ready !== undefined || row.silent;
      const whole = waits ? 2 : (await interrupt(row, root, undefined, MOST)).lasted;
      const count = waits ? 1 : Number(values.moments);
      const moments = [...Array(count).keys()].map((i) => (whole * (i + 0.5)) / count);
      /** @type {string[]} */
      const cells = [];
      const [statuses, said] = [new Set(), new Set()];
      for (const signal of SIGNALS) {
        let most = 0;
        for (const after of moments) {
          const found = await interrupt(row, root, signal, after);
          if (found.wasDone) continue;
          most = Math.max(most, found.seconds);
          statuses.add(found.status);
          if (found.said) said.add(found.said);
        }
        cells.push(most.toFixed(2));
      }
      console.log(`| ${row.state} | ${cells.join(" | ")} | ${[...statuses].join(", ")} | ${[...said].join(", ")} |`);
    }
  } finally {
    hub.close();
    rmSync(root, { recursive: true, force: true });
  }
}
