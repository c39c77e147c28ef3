// Loss curves of the embedded engine and of TRL on the same batches in the same order.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CLI, measure } from "../measure.js";
import { drawLosses } from "./loss-picture.js";

const STEPS = 100;
const METHODS = {
  "full fine-tuning": { method: "full", lr: 2e-5 },
  LoRA: { method: "lora", lr: 2e-4 },
};

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareFineTuning(given) {
  const folder = join(given.out, "fine-tuning");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const problems = readFileSync(join(given.data, "gsm8k/test.jsonl"), "utf8");
  writeFileSync(join(folder, "problems.jsonl"), problems);
  const curves = [];
  for (const [what, { method, lr }] of Object.entries(METHODS)) {
    const run = {
      base: given.float32,
      data: { sets: [{ source: "problems.jsonl", map: { prompt: "question", response: "answer" } }] },
      optimizer: { lr },
      method,
      batch: 2,
      steps: STEPS,
      sequence_length: 192,
    };
    const file = join(folder, `${method}.yaml`);
    writeFileSync(file, JSON.stringify(run)); // YAML holds JSON
    const [ours, theirs] = [join(folder, method), join(folder, `${method}-trl`)];
    await measure(process.execPath, [CLI, "train", file, "--out", ours, "--quiet"]);
    await measure(process.execPath, [CLI, "train", file, "--out", theirs, "--engine", "trl", "--quiet"]);
    const trl = spawnSync(given.python, ["train.py"], {
      cwd: theirs,
      encoding: "utf8",
      env: { ...process.env, OMP_NUM_THREADS: "2" },
    });
    if (trl.status !== 0) throw new Error(trl.stderr);
    const [own, their] = [losses(join(ours, "log.jsonl")), losses(join(theirs, "out", "log.jsonl"))];
    const worst = Math.max(...own.map((loss, i) => Math.abs(loss - (their[i] ?? Number.NaN))));
    const ends = `${(own[0] ?? 0).toFixed(3)} to ${(own.at(-1) ?? 0).toFixed(3)}`;
    curves.push({ what, layergraft: own, TRL: their });
    yield {
      what,
      against: "TRL",
      compared: `losses of ${own.length} steps, ${ends}`,
      difference: `at most ${worst.toExponential(1)}`,
    };
  }
  writeFileSync(join(given.out, "losses.json"), JSON.stringify(curves));
  writeFileSync(join(given.out, "losses.svg"), drawLosses("Loss on GSM8K, two sequences a step", curves));
}

/** @param {string} log @returns {number[]} */
function losses(log) {
  const lines = readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  return lines.filter((line) => "loss" in line).map(({ loss }) => loss);
}
