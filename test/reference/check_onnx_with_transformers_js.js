// Opens ONNX exports of all tiny decoders of test/fixtures with transformers.js, and compares greedy tokens with those of
// the engine, and logits of the types. transformers.js has 470 MB with its packages, so it is not a development
// dependency: install @huggingface/transformers@4 in a folder of its own and pass that.
//   npm run build && node test/reference/check_onnx_with_transformers_js.js FOLDER
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { openEngine, openModelSource } from "#engine";
import { buildDecoder, readSpec } from "#engine/model";
import { ONNX_TYPES, planOnnx, writeOnnx } from "#export";
import { parseConfig } from "#formats/checkpoint";
import { writeSafetensors } from "#formats/safetensors";

const [place] = process.argv.slice(2);
if (!place) throw new Error("pass the folder in which @huggingface/transformers is installed");
const require = createRequire(join(resolve(place), "package.json"));
const entry = require.resolve("@huggingface/transformers").replace(/\.cjs$/, ".mjs");
const { AutoModelForCausalLM, env, Tensor } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = "/";

const DECODERS = join(import.meta.dirname, "../fixtures/decoders");
const PROMPTS = [
  [3, 5, 8, 13, 1, 2, 14, 6],
  [1, 10, 7, 7, 12],
];
const NEW_TOKENS = 12;
/** @param {readonly number[]} values */
const integers = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

const TYPES = /** @type {(keyof typeof ONNX_TYPES)[]} */ (Object.keys(ONNX_TYPES));
/** The engine knows how long a text will be, and rotates by that; transformers and transformers.js do not. */
const KNOWN = ["phi3-longrope"];

/** Of these, a wide model is made, too: rows of the fixtures do not fill blocks of codes. */
const WIDE = ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];
const SIZES = {
  hidden_size: 256,
  intermediate_size: 512,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
};

/**
 * Writes a model with the fixture's traits and normally distributed weights.
 * @param {string} fixture
 * @param {string} folder
 */
async function writeWide(fixture, folder) {
  const json = { ...JSON.parse(readFileSync(join(fixture, "config.json"), "utf8")), ...SIZES };
  mkdirSync(folder);
  writeFileSync(join(folder, "config.json"), JSON.stringify(json));
  let state = 1;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  const { weights } = buildDecoder(readSpec(parseConfig(json, join(folder, "config.json"))));
  const tensors = [...weights.values()].map(({ name, shape }) => {
    const scale = shape.length === 1 ? 0.1 : (shape[1] ?? 1) ** -0.5;
    const centre = shape.length === 1 && !name.endsWith("bias") && !json.model_type.startsWith("gemma") ? 1 : 0;
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => centre + scale * normal());
    const stored = name.startsWith("lm_head") ? name : `model.${name}`;
    return {
      name: stored,
      dtype: /** @type {const} */ ("F32"),
      shape: [...shape],
      data: new Uint8Array(values.buffer),
    };
  });
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
}

let failed = false;
const scratch = mkdtempSync(join(tmpdir(), "layergraft-onnx-"));
try {
  const fixtures = readdirSync(DECODERS, { withFileTypes: true }).filter((one) => one.isDirectory());
  const folders = new Map(fixtures.map(({ name }) => [name, join(DECODERS, name)]));
  for (const name of WIDE) {
    folders.set(`wide ${name}`, join(scratch, `wide-${name}`));
    await writeWide(join(DECODERS, name), join(scratch, `wide-${name}`));
  }
  for (const [name, folder] of folders) {
    const source = await openModelSource(folder);
    const engine = await openEngine(folder);
    const answers = await engine.generate(PROMPTS, { maxNewTokens: NEW_TOKENS, stopIds: [] });
    await engine.close();
    /** @type {number[]} */
    let exact = [];
    const shown = [];
    for (const type of TYPES) {
      const out = join(scratch, `${name}-${type}`);
      await writeOnnx(planOnnx(source, { type }), { out });
      // The type comes from the configuration.
      const model = await AutoModelForCausalLM.from_pretrained(out);
      let equal = 0;
      /** @type {number[]} */
      const logits = [];
      for (const [i, prompt] of PROMPTS.entries()) {
        const inputs = { input_ids: integers(prompt), attention_mask: integers(prompt.map(() => 1)) };
        const ids = await model.generate({
          ...inputs,
          max_new_tokens: NEW_TOKENS,
          do_sample: false,
          eos_token_id: null,
        });
        const found = Array.from(ids.data, Number).slice(prompt.length);
        equal += found.filter((id, at) => id === answers[i]?.ids[at]).length;
        logits.push(...(await model(inputs)).logits.data);
      }
      await model.dispose();
      if (type === "fp32") exact = logits;
      const rms = Math.hypot(...logits.map((x, at) => x - Number(exact[at]))) / Math.hypot(...exact);
      shown.push(`${type} ${equal}/${NEW_TOKENS * PROMPTS.length} tokens, logits off by ${(100 * rms).toFixed(2)} %`);
      if (type === "fp32" && !KNOWN.includes(name) && equal !== NEW_TOKENS * PROMPTS.length) failed = true;
    }
    console.log(`${name}: ${shown.join("; ")}`);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
if (failed) process.exitCode = 1;
