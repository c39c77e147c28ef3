// The engine on a Llama of 125M parameters: prefill, cached decoding, one training step's forward and backward, against
// PyTorch eager on the same weights and threads where it is there. Each figure comes from a process of its own.
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_125M, writeCheckpoint } from "./checkpoints.js";
import { describeMachine, median, spread } from "./measure.js";

const WORKER = fileURLToPath(new URL("./engine_worker.js", import.meta.url));
const PEER = fileURLToPath(new URL("./engine_peer.py", import.meta.url));

/** Modes of the workers; memory is looked at mode by mode. */
const MODES = ["prefill", "decode", "decode-8", "train"];

/** @param {string[]} args */
export async function benchmarkEngine(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "5" },
      python: { type: "string", default: "python3" },
      threads: { type: "string", default: "2" },
    },
  });
  const folder = writeCheckpoint(join(DATA, "125m"), LLAMA_125M, { seed: 1 });
  const floats = 2 * statSync(join(folder, "model.safetensors")).size;
  const hasTorch = spawnSync(values.python, ["-c", "import torch, transformers"]).status === 0;
  /** @type {Record<string, string[]>} */
  const peers = {
    layergraft: [process.execPath, WORKER],
    ...(hasTorch ? { PyTorch: [values.python, PEER] } : {}),
  };
  console.log(`machine: ${describeMachine()}`);
  console.log(`model: Llama, 125M parameters, stored in bfloat16, computed in float32; ${values.threads} threads\n`);
  if (!hasTorch) console.log(`(no torch and transformers for ${values.python}; give --python to compare)\n`);

  /** @type {Map<string, { rate: number, peak: number }[]>} */
  const results = new Map();
  for (let round = -1; round < Number(values.rounds); round++) {
    for (const mode of MODES) {
      for (const [name, [command = "", script = ""]] of Object.entries(peers)) {
        const run = spawnSync(command, [script, folder, mode, values.threads], {
          encoding: "utf8",
          stdio: ["ignore", "pipe", "inherit"],
          env: { ...process.env, OMP_NUM_THREADS: values.threads },
        });
        if (run.status !== 0) throw new Error(`${command} ${script} ${mode} ended with ${run.status}`);
        if (round < 0) continue; // the disk's cache is cold in the first
        const key = `${name} ${mode}`;
        results.set(key, [...(results.get(key) ?? []), JSON.parse(run.stdout)]);
      }
    }
  }
  for (const mode of MODES) {
    const ours = results.get(`layergraft ${mode}`) ?? [];
    for (const name of Object.keys(peers)) {
      const runs = results.get(`${name} ${mode}`) ?? [];
      const memory = median(runs.map(({ peak }) => peak));
      const rates = spread(
        runs.map(({ rate }) => rate),
        0,
      );
      console.log(
        `${mode.padEnd(9)} ${name.padEnd(11)} ${rates} tokens/s  peak ${(memory / 1e6).toFixed(0)} MB, ${(memory / floats).toFixed(2)} x float32 weights`,
      );
    }
    const theirs = results.get(`PyTorch ${mode}`);
    if (theirs)
      console.log(
        `${mode.padEnd(9)} layergraft / PyTorch: ${spread(ours.map(({ rate }, i) => rate / (theirs[i]?.rate ?? Number.NaN)))}\n`,
      );
  }
}
