// @ts-nocheck: node-llama-cpp is not installed with the project.
// Exports published tokenizers as GGUF and compares llama.cpp's tokens with ours, on lines of FLORES in all its languages.
// Then reads files with each name of a pre-tokenizer, and compares again.
// Not part of `npm test`. The vocabularies are those that llama.cpp tests itself with. After a build:
//     npm install --no-save node-llama-cpp
//     node test/reference/check_gguf_tokenizers.js LLAMA_CPP/models FLORES/devtest [LINES] [TOKENIZERS]
// TOKENIZERS is a folder of tokenizers to check as well, from make_unigram_tokenizers.py.
// NODE_LLAMA_CPP names another copy, as a path to its dist/index.js.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadSourceTokenizer, openModelSource } from "#engine";
import { readSpec, weightsOf } from "#engine/model";
import { planGguf, writeGguf } from "#export";
import { parseConfig } from "#formats/checkpoint";
import { writeSafetensors } from "#formats/safetensors";
import { loadTokenizer } from "#text";
import { readVocabulary, tokenizerJson } from "./gguf_tokenizers.js";

const { getLlama, LlamaLogLevel } = await import(process.env.NODE_LLAMA_CPP ?? "node-llama-cpp");
const [models, flores, lines = "20", others] = process.argv.slice(2);

const BYTES = (use_regex) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex });
const SPLIT = (Regex) => ({
  type: "Sequence",
  pretokenizers: [{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false }, BYTES(false)],
});
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const WORDS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const DIGITS = { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, BYTES(true)] };
const SPACES = { type: "Replace", pattern: { String: " " }, content: "▁" };
const PREFIXED = { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, SPACES] };

const GEMMA4 = {
  ...{
    num_key_value_heads: 1,
    head_dim: 8,
    global_head_dim: 8,
    hidden_size_per_layer_input: 0,
    num_kv_shared_layers: 0,
  },
  ...{ layer_types: ["full_attention"], bos_token_id: 2 },
};

/** The parts of each tokenizer.json, as its model publishes them. */
const CASES = process.env.ONLY_OTHERS
  ? {}
  : {
      "llama-bpe": { pre_tokenizer: SPLIT(`${WORDS}|\\p{N}{1,3}|${REST}`), ignore_merges: true },
      qwen2: { normalizer: { type: "NFC" }, pre_tokenizer: SPLIT(`${WORDS}|\\p{N}|${REST}`) },
      "gpt-2": { pre_tokenizer: BYTES(true) },
      "command-r": { normalizer: { type: "NFC" }, pre_tokenizer: DIGITS },
      starcoder: { pre_tokenizer: DIGITS },
      refact: { pre_tokenizer: DIGITS },
      "llama-spm": { normalizer: PREFIXED },
      "phi-3": { normalizer: PREFIXED },
      "llama-spm, as Gemma": { normalizer: SPACES },
      "gemma-4": { normalizer: SPACES },
      "llama-spm, as Mistral": {
        pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false },
      },
    };

/** Names of pre-tokenizers by the vocabulary that they are tried on. All but the first are written into its file. */
const NAMES = {
  "llama-bpe": [
    ...["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "glm4", "dbrx"],
    ...["smaug-bpe", "chatglm-bpe", "gpt-2", "phi-2", "olmo", "exaone4"],
    ...["granite-docling", "trillion", "a.x-4.0", "mellum", "command-r", "starcoder", "refact", "smollm", "codeshell"],
    ...["exaone", "minerva-7b", "qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "qwen35", "tekken", "deepseek-v3"],
    ...["hunyuan-dense", "deepseek-coder", "gpt-4o", "llama4", "minicpm5", "seed-coder", "viking"],
  ],
  "deepseek-coder": ["deepseek-coder"],
  qwen35: ["qwen35"],
};

/** llama.cpp cuts words at combining marks and beside capitals beyond ASCII here, unlike the models' own tokenizers. */
const CASED = ["tekken", "gpt-4o", "llama4"];

const folder = mkdtempSync(join(tmpdir(), "layergraft-gguf-"));
const llama = await getLlama({ build: "never", logLevel: LlamaLogLevel.error, gpu: false });
let failures = 0;
try {
  for (const [name, parts] of cases()) {
    const path = join(folder, name.replaceAll(/\W+/g, "-"));
    await writeModel(path, parts);
    const tokenizer = await loadTokenizer(path);
    const out = await exported(path);
    const model = await llama.loadModel({ modelPath: out, vocabOnly: true });
    const isUnigram = Array.isArray(parts.model.vocab);
    const wrong = new Map();
    let [total, known] = [0, 0];
    for (const [language, text] of texts()) {
      total++;
      const [ours, theirs] = [tokenizer.encode(text), model.tokenize(text)];
      if (ours.join() === theirs.join()) continue;
      const isComposed = text.normalize("NFC") === text;
      if (parts.normalizer?.type === "NFC" && !isComposed) known++;
      else if (parts.model.type === "BPE" && parts.pre_tokenizer?.type === "Metaspace" && text.startsWith(" ")) known++;
      // White space at the end.
      else if (isUnigram && Math.abs(ours.length - theirs.length) === 1 && startAlike(ours, theirs)) known++;
      else wrong.set(language, [...(wrong.get(language) ?? []), { text, ours, theirs }]);
    }
    await model.dispose();
    const count = [...wrong.values()].reduce((sum, list) => sum + list.length, 0);
    if (count > 0) failures++;
    const others = known > 0 ? `; ${known} have the differences that docs/ollama-and-llama-cpp.md names` : "";
    const equal = total - count - known;
    console.log(`${count === 0 ? "ok  " : "FAIL"} ${name}: ${equal} of ${total} texts have equal tokens${others}`);
    for (const [language, [{ text, ours, theirs }]] of [...wrong].slice(0, 3)) {
      const at = ours.findIndex((id, i) => id !== theirs[i]);
      const shown = (ids) =>
        ids
          .slice(at, at + 4)
          .map((id) => `${id} ${JSON.stringify(tokenizer.tokenOf(id))}`)
          .join(", ");
      console.log(
        `  ${language}: ${JSON.stringify(text.slice(0, 60))} ours ${shown(ours)}; llama.cpp ${shown(theirs)}`,
      );
    }
  }
  for (const [vocabulary, names] of process.env.ONLY_OTHERS ? [] : Object.entries(NAMES))
    await readAs(vocabulary, names);
} finally {
  rmSync(folder, { recursive: true, force: true });
  await llama.dispose();
}
process.exitCode = failures > 0 ? 1 : 0;

async function exported(path) {
  const out = join(folder, "model.gguf");
  await writeGguf(await planGguf(await openModelSource(path), { type: "f16" }), { out, force: true });
  return out;
}

/** Compares the tokens of a file, read by layergraft and by llama.cpp, under each name. */
async function readAs(vocabulary, names) {
  const path = join(folder, `${vocabulary}-${"x".repeat(40)}`);
  const json = tokenizerJson(readVocabulary(join(models, `ggml-vocab-${vocabulary}.gguf`)), {
    pre_tokenizer: SPLIT(`${WORDS}|\\p{N}{1,3}|${REST}`),
    ignore_merges: true,
  });
  await writeModel(path, json);
  const file = readFileSync(await exported(path));
  for (const name of names) {
    const out = join(folder, `${name}.gguf`);
    writeFileSync(out, renamed(file, name));
    try {
      const model = await llama.loadModel({ modelPath: out, vocabOnly: true });
      const tokenizer = await loadSourceTokenizer(await openModelSource(out));
      let [total, equal, known, first] = [0, 0, 0];
      for (const [, text] of texts()) {
        const composed = text.normalize("NFC");
        const [ours, theirs] = [tokenizer.encode(composed), model.tokenize(composed)];
        total++;
        if (ours.join() === theirs.join()) equal++;
        else if (CASED.includes(name) && /\p{M}|(?![A-Z])\p{Lu}/u.test(text)) known++;
        else first ??= { text, ours, theirs };
      }
      console.log(
        `${first ? "FAIL" : "ok  "} ${name} on ${vocabulary}: ${equal} of ${total} texts have equal tokens, ${known} have others, as the guide says`,
      );
      if (first) {
        failures++;
        const pieces = (ids) => ids.map((id) => tokenizer.tokenOf(id)).join("|");
        console.log(
          `  ${JSON.stringify(first.text)}\n  ours ${pieces(first.ours)}\n  llama.cpp ${pieces(first.theirs)}`,
        );
      }
      await model.dispose();
    } catch (error) {
      failures++;
      console.log(`FAIL ${name}: ${error.message}`);
    } finally {
      rmSync(out);
    }
  }
}

/** A file with another name of its pre-tokenizer; the model's name makes up for the length, so that tensors stay in place. */
function renamed(file, pre) {
  const put = (bytes, key, change) => {
    const at = bytes.indexOf(key) + key.length + 4;
    const end = at + 8 + Number(bytes.readBigUInt64LE(at));
    const value = Buffer.from(change(bytes.toString("utf8", at + 8, end)));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(value.length));
    return Buffer.concat([bytes.subarray(0, at), length, value, bytes.subarray(end)]);
  };
  const changed = put(file, "tokenizer.ggml.pre", () => pre);
  const excess = changed.length - file.length;
  return put(changed, "general.name", (name) => (excess > 0 ? name.slice(excess) : name + "x".repeat(-excess)));
}

function* texts() {
  for (const language of readdirSync(flores)) {
    for (const line of readFileSync(join(flores, language), "utf8").trim().split("\n").slice(0, Number(lines))) {
      yield [language, line];
      yield [language, ` ${line.toUpperCase()}  1234 \n\n\t"${line.slice(0, 20)}"\n`];
    }
  }
}

/** Each tokenizer.json with its name. */
function* cases() {
  for (const [name, parts] of Object.entries(CASES)) {
    const [file] = name.split(",");
    yield [name, tokenizerJson(readVocabulary(join(models, `ggml-vocab-${file}.gguf`)), parts)];
  }
  if (others === undefined) return;
  for (const name of readdirSync(others).filter((file) => file.endsWith(".json"))) {
    yield [name, JSON.parse(readFileSync(join(others, name), "utf8"))];
  }
}

function startAlike(one, other) {
  const length = Math.min(one.length, other.length);
  return one.slice(0, length).join() === other.slice(0, length).join();
}

/** Writes a model as small as can be with a tokenizer. */
async function writeModel(path, json) {
  mkdirSync(path);
  const size = Object.keys(json.model.vocab).length;
  // Its merges do not follow from scores, and its family says so.
  const isGemma4 = "<|channel>" in json.model.vocab;
  const config = {
    architectures: [isGemma4 ? "Gemma4ForCausalLM" : "LlamaForCausalLM"],
    ...(isGemma4 ? { model_type: "gemma4_text", ...GEMMA4 } : { model_type: "llama" }),
    ...{ hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: size },
    tie_word_embeddings: true,
  };
  writeFileSync(join(path, "config.json"), JSON.stringify(config));
  writeFileSync(join(path, "tokenizer.json"), JSON.stringify(json));
  const spec = readSpec(parseConfig(config, "config.json"));
  const tensors = weightsOf(spec).map(({ name, shape }) => {
    const bytes = 4 * shape.reduce((product, extent) => product * extent, 1);
    return { name: `model.${name}`, dtype: "F32", shape: [...shape], data: new Uint8Array(bytes) };
  });
  await writeSafetensors(join(path, "model.safetensors"), tensors);
}
