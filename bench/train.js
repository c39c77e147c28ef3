// Whole steps of training, forward, backward and optimizer, on Llamas of 30M and 125M parameters: all weights, LoRA, and
// the lower half frozen; against PyTorch eager on the same weights and threads where it is there.
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_30M, LLAMA_125M, writeCheckpoint } from "./checkpoints.js";
import { describeMachine, median, spread } from "./measure.js";

const WORKER = fileURLToPath(new URL("./train_worker.js", import.meta.url));
const PEER = fileURLToPath(new URL("./train_peer.py", import.meta.url));

const MODELS = { "30M": LLAMA_30M, "125M": LLAMA_125M };
const MODES = ["full", "frozen", "lora"];

/** @typedef {{ rate: number, optimizer: number, peak: number }} Measured */

/** @param {string[]} args */
export async function benchmarkTrain(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "5" },
      python: { type: "string", default: "python3" },
      threads: { type: "string", default: "2" },
      rows: { type: "string", default: "2" },
      length: { type: "string", default: "256" },
      steps: { type: "string", default: "3" },
    },
  });
  const { threads, rows, length, steps } = values;
  const hasTorch = spawnSync(values.python, ["-c", "import torch, transformers, peft"]).status === 0;
  /** @type {Record<string, string[]>} */
  const peers = { layergraft: [process.execPath, WORKER], ...(hasTorch ? { PyTorch: [values.python, PEER] } : {}) };
  console.log(`machine: ${describeMachine()}`);
  console.log(`a step: ${rows} sequences of ${length} tokens, the best of ${steps}; ${threads} threads, float32`);
  console.log("frozen: embedding and lower half of the layers; lora: rank 64 beside all projections\n");
  if (!hasTorch) console.log(`(no torch, transformers and peft for ${values.python}; give --python to compare)\n`);

  for (const [size, shape] of Object.entries(MODELS)) {
    const folder = writeCheckpoint(join(DATA, size.toLowerCase()), shape, { seed: 1 });
    const floats = 2 * statSync(join(folder, "model.safetensors")).size;
    /** @type {Map<string, Measured[]>} */
    const results = new Map();
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const mode of MODES) {
        for (const [name, [command = "", script = ""]] of Object.entries(peers)) {
          const run = spawnSync(command, [script, folder, mode, threads, rows, length, steps], {
            encoding: "utf8",
            stdio: ["ignore", "pipe", "inherit"],
            env: { ...process.env, OMP_NUM_THREADS: threads, TQDM_DISABLE: "1" },
          });
          if (run.status !== 0) throw new Error(`${command} ${script} ${mode} ended with ${run.status}`);
          const key = `${name} ${mode}`;
          results.set(key, [...(results.get(key) ?? []), JSON.parse(run.stdout)]);
        }
      }
    }
    console.log(`Llama of ${size} parameters, ${(floats / 1e6).toFixed(0)} MB as float32`);
    report(results, Object.keys(peers), floats);
  }
}

/** @param {Map<string, Measured[]>} results @param {string[]} names @param {number} floats */
function report(results, names, floats) {
  /** @param {string} key */
  const of = (key) => results.get(key) ?? [];
  /** @param {string} above @param {string} below */
  const ratios = (above, below) => spread(of(above).map(({ rate }, i) => rate / (of(below)[i]?.rate ?? Number.NaN)));
  for (const mode of MODES) {
    for (const name of names) {
      const runs = of(`${name} ${mode}`);
      const rates = spread(
        runs.map(({ rate }) => rate),
        0,
      );
      const share = 100 * median(runs.map(({ optimizer }) => optimizer));
      const memory = median(runs.map(({ peak }) => peak));
      console.log(
        `${mode.padEnd(7)} ${name.padEnd(11)} ${rates} tokens/s, ${share.toFixed(0)}% of it the optimizer  peak ${(memory / 1e6).toFixed(0)} MB, ${(memory / floats).toFixed(1)} x weights`,
      );
    }
    if (names.length > 1)
      console.log(`        layergraft / PyTorch: ${ratios(`layergraft ${mode}`, `PyTorch ${mode}`)}`);
  }
  for (const name of names) {
    console.log(
      `${name}: frozen / full ${ratios(`${name} frozen`, `${name} full`)}, lora / full ${ratios(`${name} lora`, `${name} full`)}`,
    );
  }
  console.log("");
}
