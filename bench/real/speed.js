// Seconds and peak memory of whole commands on a real model, each beside the tools that people use, three rounds.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { CLI, measure, median } from "../measure.js";

const ROUNDS = 3;
const TOKENS = 64;
const STEPS = 20;
const PROMPT = "Write about the sea.";
const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareSpeed(given) {
  const [task, language] = given.experts.map((expert) => resolve(expert));
  if (task === undefined || language === undefined) return;
  const folder = join(given.out, "speed");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const at = (/** @type {string} */ name) => join(folder, name);
  const config = at("linear.yml");
  const models = [task, language].map((model) => ({ model, parameters: { weight: 1 } }));
  writeFileSync(config, JSON.stringify({ merge_method: "linear", models, dtype: "bfloat16" }));
  const run = {
    base: given.float32,
    data: { sets: [{ source: "problems.jsonl", map: { prompt: "question", response: "answer" } }] },
    method: "full",
    batch: 2,
    steps: STEPS,
    sequence_length: 192,
  };
  writeFileSync(at("problems.jsonl"), readFileSync(join(given.data, "gsm8k/test.jsonl")));
  writeFileSync(at("run.yaml"), JSON.stringify(run));
  await measure(process.execPath, [CLI, "train", at("run.yaml"), "--out", at("trl"), "--engine", "trl", "--quiet"]);

  const layergraft =
    (/** @type {string[]} */ ...args) =>
    () =>
      measure(process.execPath, [CLI, ...args]);
  const python =
    (/** @type {string[]} */ ...args) =>
    () =>
      measure(given.python, [here("speed_peer.py"), ...args]);
  const prompt = ["--prompt", PROMPT, "--max-new-tokens", String(TOKENS)];
  const out = (/** @type {string} */ name) => ["--out", at(name), "--force", "--quiet"];
  /** @type {[string, string, Record<string, () => Promise<{ seconds: number, peakBytes: number | undefined }>>][]} */
  const tasks = [
    [
      "swap",
      "two experts, 269 MB each",
      { layergraft: layergraft("swap", "--task", task, "--language", language, ...out("swap")) },
    ],
    [
      "average",
      "two experts, 269 MB each",
      {
        layergraft: layergraft("merge", config, ...out("soup")),
        mergekit: () => measure(given.mergekit ?? given.python, [here("../methods_peer.py"), config, at("theirs")]),
      },
    ],
    [
      "analyze",
      "two experts and their base",
      {
        layergraft: layergraft(
          "analyze",
          "--base",
          given.bfloat16,
          "--expert",
          `a=${task}`,
          "--expert",
          `b=${language}`,
          ...out("analysis"),
        ),
        PyTorch: python("analyze", given.bfloat16, task, language),
      },
    ],
    ["export q4_k_m", "one model", { layergraft: layergraft("export", task, "--type", "q4_k_m", ...out("q4.gguf")) }],
    [
      "generate",
      `${TOKENS} tokens, float32`,
      {
        layergraft: layergraft("generate", given.float32, ...prompt, "--quiet"),
        transformers: python("generate", given.float32, PROMPT, String(TOKENS)),
      },
    ],
    [
      "train, all weights",
      `${STEPS} steps of 2 sequences of 192 tokens`,
      { layergraft: layergraft("train", at("run.yaml"), ...out("trained")), TRL: python("train", at("trl")) },
    ],
  ];
  for (const [what, compared, peers] of tasks) {
    /** @type {Map<string, { seconds: number, peakBytes: number | undefined }[]>} */
    const found = new Map(Object.keys(peers).map((name) => [name, []]));
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, peer] of Object.entries(peers)) found.get(name)?.push(await peer());
      for (const made of ["theirs", "trl/out"]) rmSync(at(made), { recursive: true, force: true });
    }
    for (const [against, runs] of found) {
      const seconds = median(runs.map((one) => one.seconds)).toFixed(1);
      const peak = Math.max(...runs.map(({ peakBytes = 0 }) => peakBytes)) / 1e6;
      yield { what, against, compared, difference: `${seconds} s, ${peak.toFixed(0)} MB` };
    }
  }
}
