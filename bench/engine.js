// The engine on a Llama of 125M parameters, or of another shape: prefill, cached decoding, one training step's forward and backward, in float32 and
// with weights as codes, against PyTorch eager and llama.cpp on the same weights and threads where they are there. Each figure comes from a process of its own.
import { spawnSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, DELTA_139M, LLAMA_1B, LLAMA_125M, MOE_137M, writeCheckpoint } from "./checkpoints.js";
import { describeMachine, median, spread } from "./measure.js";

const WORKER = fileURLToPath(new URL("./engine_worker.js", import.meta.url));
const PEER = fileURLToPath(new URL("./engine_peer.py", import.meta.url));

/** Modes of the workers; memory is looked at mode by mode. */
const MODES = ["prefill", "decode", "decode-8", "train"];
/** Shapes by their names. */
const SHAPES = { "125m": LLAMA_125M, "1b": LLAMA_1B, moe: MOE_137M, delta: DELTA_139M };
/** Types of the weights in llama.cpp. */
const TYPES = ["q8_0", "q4_k_m"];

/** @param {string[]} args */
export async function benchmarkEngine(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "5" },
      python: { type: "string", default: "python3" },
      threads: { type: "string", default: "2" },
      shape: { type: "string", default: "125m" },
      modes: { type: "string", default: MODES.join() },
    },
  });
  const shape = SHAPES[/** @type {keyof typeof SHAPES} */ (values.shape)];
  const modes = values.modes.split(",");
  const folder = writeCheckpoint(join(DATA, values.shape), shape, { seed: 1 });
  const floats = 2 * statSync(join(folder, "model.safetensors")).size;
  const hasTorch = spawnSync(values.python, ["-c", "import torch, transformers"]).status === 0;
  const hasLlama = await loads(process.env.NODE_LLAMA_CPP ?? "node-llama-cpp");
  if (hasLlama) writeTokenizer(folder, shape.vocabulary);
  /** @type {Record<string, string[]>} */
  const peers = {
    layergraft: [process.execPath, WORKER],
    ...(hasTorch ? { PyTorch: [values.python, PEER] } : {}),
    ...Object.fromEntries(hasLlama ? TYPES.map((type) => [`llama.cpp ${type}`, [process.execPath, WORKER]]) : []),
  };
  console.log(`machine: ${describeMachine()}`);
  console.log(`model: ${values.shape}, stored in bfloat16; ${values.threads} threads\n`);
  if (!hasLlama) console.log("(no node-llama-cpp; install it, or name its index.js in NODE_LLAMA_CPP, to compare)\n");
  if (!hasTorch) console.log(`(no torch and transformers for ${values.python}; give --python to compare)\n`);

  /** @type {Map<string, { rate: number, peak: number, cpu: number }[]>} */
  const results = new Map();
  for (let round = -1; round < Number(values.rounds); round++) {
    for (const mode of modes) {
      for (const [name, [command = "", script = ""]] of Object.entries(peers)) {
        const [, type = ""] = /^llama.cpp (.*)/.exec(name) ?? [];
        if (mode === "train" && type !== "") continue;
        const given = [script, folder, mode, values.threads, ...(type === "" ? [] : [type, join(DATA, "gguf")])];
        const run = spawnSync(command, given, {
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
  for (const mode of modes) {
    const ours = results.get(`layergraft ${mode}`) ?? [];
    for (const name of Object.keys(peers)) {
      const runs = results.get(`${name} ${mode}`) ?? [];
      if (runs.length === 0) continue;
      const memory = median(runs.map(({ peak }) => peak));
      const rates = spread(
        runs.map(({ rate }) => rate),
        0,
      );
      console.log(
        `${mode.padEnd(9)} ${name.padEnd(16)} ${rates} tokens/s  peak ${(memory / 1e6).toFixed(0)} MB, ${(memory / floats).toFixed(2)} x float32 weights${cpuOf(runs)}`,
      );
    }
    for (const name of Object.keys(peers).slice(1)) {
      const theirs = results.get(`${name} ${mode}`);
      if (!theirs) continue;
      const ratios = ours.map(({ rate }, i) => rate / (theirs[i]?.rate ?? Number.NaN));
      console.log(`${mode.padEnd(9)} layergraft / ${name}: ${spread(ratios)}`);
    }
    console.log("");
  }
}

/** @param {{ cpu?: number }[]} runs */
function cpuOf(runs) {
  const known = runs.flatMap(({ cpu }) => cpu ?? []);
  return known.length === 0 ? "" : `, ${median(known).toFixed(1)} s of CPU`;
}

/** @param {string} name @returns {Promise<boolean>} */
async function loads(name) {
  return import(name).then(
    () => true,
    () => false,
  );
}

/** Writes a tokenizer that llama.cpp takes: a token per byte; the others are never used. @param {string} folder @param {number} size */
function writeTokenizer(folder, size) {
  const visible = (/** @type {number} */ byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  const tokens = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(visible(byte) ? byte : next++));
  const all = [...tokens, ...Array.from({ length: size - 256 }, (_, i) => `unused${i}`)];
  const vocab = Object.fromEntries(all.map((token, id) => [token, id]));
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const json = { version: "1.0", pre_tokenizer: level, decoder: level, model: { type: "BPE", vocab, merges: [] } };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
}
