// The same plan on this machine and through Slurm, whose node fails in the middle: the reports must be the same.
//   npm run build && bash test/reference/slurm/cluster.sh start CLUSTER
//   SLURM_CONF=CLUSTER/slurm.conf node test/reference/slurm/try.mjs CLUSTER FOLDER
//   bash test/reference/slurm/cluster.sh stop CLUSTER
// Needs what cluster.sh needs. Takes a few minutes: its models are trained first (layergraft demo --quick).
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const [cluster = "", folder = ""] = process.argv.slice(2).map((path) => resolve(path));
const layergraft = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));
const script = fileURLToPath(new URL("cluster.sh", import.meta.url));
/** @param {readonly string[]} args */
const run = (...args) =>
  execFileSync(process.execPath, [layergraft, ...args], { cwd: folder, stdio: ["ignore", "inherit", "inherit"] });

mkdirSync(folder, { recursive: true });
if (!existsSync(join(folder, "world"))) run("demo", "--quick", "--out", "world");
const swap = readFileSync(join(folder, "world", "swap.yaml"), "utf8");
const expert = (/** @type {string} */ role) => `world/${new RegExp(`^${role}: (.*)$`, "m").exec(swap)?.[1]}`;
const rows = Array.from({ length: 60 }, (_, i) => ({
  text: `asha alikuwa na maembe ${(i % 14) + 2} . asha ana maembe mangapi sasa ?`,
  answer: (i % 14) + 2,
}));
writeFileSync(join(folder, "items.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
const task = [
  "task: have",
  "data: items.jsonl",
  'prompt: "{text} [solve] :"',
  "answer: generate",
  'gold: "{answer}"',
  "max_new_tokens: 20",
  "read: number",
];
writeFileSync(join(folder, "have.yaml"), `${task.join("\n")}\n`);
const plan = (/** @type {string} */ name, /** @type {string} */ executor) =>
  writeFileSync(
    join(folder, `${name}.yaml`),
    `name: ${name}
base: world/base/last
experts:
  math: { role: task, folders: [${expert("task")}] }
  swahili: { role: language, language: sw, folders: [${expert("language")}] }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: [1, 2, 3, 4], top: [0, 1, 2] }
    default: { bottom: 2, top: 0 }
evaluate: { tasks: [have.yaml] }
executor: ${executor}
`,
  );
plan("local", "{ kind: local }");
plan("slurm", '{ kind: slurm, cores: 1, memory: 1GB, time: "00:20:00" }');
for (const name of ["local", "slurm"]) rmSync(join(folder, `${name}.experiment`), { recursive: true, force: true });
run("experiment", "local.yaml", "run");

const through = spawn(process.execPath, [layergraft, "experiment", "slurm.yaml", "run"], {
  cwd: folder,
  stdio: "inherit",
});
const ended = new Promise((resolve) => through.once("exit", resolve));
await sleep(12_000);
for (const action of ["fail", "repair"]) {
  execFileSync("bash", [script, action, cluster], { stdio: "inherit" });
  await sleep(5000);
}
const code = await ended;

/** @param {string} name */
const scores = (name) => {
  const report = JSON.parse(readFileSync(join(folder, `${name}.experiment/report/report.json`), "utf8"));
  return JSON.stringify([report.scores, report.searches, report.flips]);
};
const isSame = code === 0 && scores("local") === scores("slurm");
process.stdout.write(`${isSame ? "the same report, through a failed node" : `NOT the same (exit ${code})`}\n`);
process.exitCode = isSame ? 0 : 1;
