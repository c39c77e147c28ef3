// Runs a peer's script with a question on its standard input and reads the answer from its standard output.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const THREADS = "2";

/**
 * @param {string} python
 * @param {string} script a file of this folder
 * @param {unknown} question
 */
export function askPeer(python, script, question) {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const run = spawnSync(python, [file], {
    input: JSON.stringify(question),
    encoding: "utf8",
    maxBuffer: 2 ** 30,
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, OMP_NUM_THREADS: THREADS, HF_HUB_OFFLINE: "1", HF_DATASETS_OFFLINE: "1", TQDM_DISABLE: "1" },
  });
  if (run.status !== 0) throw new Error(`${script} ended with ${run.status}`);
  return JSON.parse(run.stdout.trim().split("\n").at(-1) ?? "");
}

/** Lines of FLORES, by language. @param {string} data @param {number} count lines of each language */
export function floresLines(data, count) {
  const folder = join(data, "flores200/devtest");
  return readdirSync(folder)
    .sort()
    .map((file) => readFileSync(join(folder, file), "utf8").split("\n").filter(Boolean).slice(0, count));
}

/** Largest distance of numbers in the same places. @param {number[]} a @param {number[]} b */
export function worstOf(a, b) {
  if (a.length !== b.length) throw new Error(`${a.length} numbers against ${b.length}`);
  return a.reduce((worst, x, i) => Math.max(worst, Math.abs(x - (b[i] ?? Number.NaN))), 0);
}

/** How many entries differ. @param {unknown[]} a @param {unknown[]} b */
export function differing(a, b) {
  const count = a.filter((x, i) => JSON.stringify(x) !== JSON.stringify(b[i])).length;
  return count === 0 ? "none" : `${count} of ${a.length} differ`;
}
