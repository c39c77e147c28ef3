// The rows: every command that opens a model, with the sources that it can run.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** @typedef {import("./models.js").Rung} Rung */
/**
 * @typedef {object} Step
 * @property {string[]} args of the command line
 * @property {string} [stdin]
 * @property {number[] | undefined} [codes] exit statuses of a command that works; default 0
 * @property {"ask"} [meanwhile] serve: ask the server for a completion, then stop it
 */
/**
 * @typedef {object} Row
 * @property {string} name
 * @property {(at: (name: string) => string, rung: Rung) => Step[]} steps run one after the other until one does not work
 * @property {(rung: Rung) => number} [writes] bytes that it leaves on the disk while it runs
 * @property {boolean} [needsLlama] whether it runs node-llama-cpp
 */

export const PROMPT = "def add(a, b):";
export const TOKENS = 16;
const CONTINUATION = " return a + b";
const RANK = "8";

const TEXTS = [
  "The ladder has many rungs, and each of them is a model.",
  "A merge averages what two experts have learned.",
  "Layers at the bottom read a language, layers at the top write it.",
  "Every command either works or says why it cannot.",
];
const OTHER_TEXTS = [
  "Die Leiter hat viele Sprossen, und jede ist ein Modell.",
  "Eine Verschmelzung mittelt, was zwei Experten gelernt haben.",
  "Die unteren Schichten lesen eine Sprache, die oberen schreiben sie.",
  "Jeder Befehl gelingt oder sagt, warum er es nicht kann.",
];
const QUIZ = [
  ["2 + 2 =", ["3", "4", "5", "6"], "B"],
  ["3 + 3 =", ["6", "5", "8", "9"], "A"],
  ["1 + 4 =", ["2", "3", "4", "5"], "D"],
  ["7 - 4 =", ["1", "2", "3", "4"], "C"],
].map(([question, options, answer]) => ({ question, options, answer }));

/** Sources by name. @type {Record<string, (at: (name: string) => string, rung: Rung) => string>} */
const SOURCES = {
  model: (_, { base }) => base,
  soup: (at) => at("soup.json"),
  swap: (at) => at("swap.json"),
  TIES: (at) => at("ties.json"),
  SLERP: (at) => at("slerp.json"),
  DELLA: (at) => at("della.json"),
  adapter: (_, { base, adapter }) => `${base}+${adapter}`,
};

/** What the recipes say, and mergekit's form of them where it has one. @param {Rung} rung */
export function recipesOf({ base, a, b, isFile }) {
  // A GGUF file has other types than the folders of its experts.
  const dtype = isFile ? { dtype: "bfloat16" } : {};
  return {
    soup: { method: "soup", models: [base, a], ...dtype },
    swap: { method: "swap", task: base, language: a, ...dtype },
    ties: { method: "ties", base, models: [a, b], density: 0.2, trim: "tensor", ...dtype },
    slerp: { method: "slerp", models: [base, a], t: 0.5, ...dtype },
    della: { method: "della", base, models: [a, b], density: 0.4, ...dtype },
  };
}

/** Writes the recipes, texts, tasks and data that commands read. @param {string} folder @param {Rung} rung */
export function writeInputs(folder, rung) {
  mkdirSync(folder, { recursive: true });
  const at = (/** @type {string} */ name) => join(folder, name);
  const lines = (/** @type {unknown[]} */ rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  for (const [name, recipe] of Object.entries(recipesOf(rung)))
    writeFileSync(at(`${name}.json`), JSON.stringify(recipe));
  writeFileSync(at("texts.txt"), TEXTS.join("\n"));
  writeFileSync(at("other.txt"), OTHER_TEXTS.join("\n"));
  writeFileSync(at("quiz.jsonl"), lines(QUIZ));
  const choose = { answer: "choose", prompt: "{question} Answer:", choices: "options", correct: "{answer}" };
  writeFileSync(at("quiz.yaml"), JSON.stringify({ task: "quiz", data: "quiz.jsonl", ...choose }));
  writeFileSync(
    at("train.jsonl"),
    lines(TEXTS.map((text) => ({ prompt: text.slice(0, 20), response: text.slice(20) }))),
  );
  const run = {
    base: rung.base,
    data: "train.jsonl",
    method: "lora",
    lora: { rank: Number(RANK) },
    batch: 1,
    steps: 2,
    sequence_length: 64,
  };
  writeFileSync(at("run.yaml"), JSON.stringify(run));
  const full = { ...run, method: "full", lora: undefined };
  writeFileSync(at("full.yaml"), JSON.stringify(full));
}

/** Commands that run a model, by name. @type {Record<string, (source: string, at: (name: string) => string) => Step>} */
const RUN = {
  generate: (source) => ({ args: ["generate", source, "--prompt", PROMPT, "--max-new-tokens", String(TOKENS)] }),
  score: (source) => ({ args: ["score", source, "--prompt", PROMPT, "--continuation", CONTINUATION] }),
  chat: (source) => ({ args: ["chat", source, "--max-new-tokens", String(TOKENS)], stdin: `${PROMPT}\n` }),
  serve: (source) => ({ args: ["serve", source, "--port", "0"], meanwhile: "ask" }),
  eval: (source, at) => ({ args: ["eval", source, "--tasks", at("quiz.yaml")] }),
};

const gguf = (/** @type {Rung} */ { bytes }) => 0.32 * bytes; // q4_k_m of bfloat16
const grams = (/** @type {Rung} */ { bytes }) => 2.4 * bytes; // float32 of [in, in] for [out, in], as of Llama 3.1 8B
const once = (/** @type {Rung} */ { bytes }) => bytes;

/** @param {string} name @param {string[]} args @param {number[]} [codes] @returns {Row} */
const look = (name, args, codes) => ({
  name,
  steps: (at, rung) => [{ args: args.map((arg) => filled(arg, at, rung)), codes }],
});

/** BASE, A, B of an argument are models, OUT is a place to write; @name is a file beside. @param {string} arg @param {(name: string) => string} at @param {Rung} rung */
const filled = (arg, at, { base, a, b }) =>
  arg
    .replace(/\bBASE\b/, base)
    .replace(/\bA\b/, a)
    .replace(/\bB\b/, b)
    .replace(/\bOUT\b/, at("out"))
    .replace(/^@(.+)/, (_, name) => at(name));

/** @param {string} recipe @returns {Row} */
const written = (recipe) => ({
  name: `merge ${recipe}`,
  writes: once,
  steps: (at) => [{ args: ["merge", at(`${recipe.toLowerCase()}.json`), "--out", at("out"), "--force"] }],
});

/** @param {string} kind @param {string} name */
const measured = (kind, name) => [
  "measure",
  "BASE",
  "--kind",
  kind,
  "--on",
  `@${name}.txt`,
  "--samples",
  "4",
  "--length",
  "64",
  "--force",
];

/** @type {Row[]} */
export const ROWS = [
  look("doctor", ["doctor"]),
  look("inspect", ["inspect", "BASE"]),
  look("diff", ["diff", "BASE", "A"], [0, 1]),
  look("analyze", ["analyze", "--base", "BASE", "--expert", "a=A", "--expert", "b=B"]),
  look("explain", ["explain", "A", "--from", "BASE", "--from", "B"], [0, 1]),
  look("extract", ["extract", "--base", "BASE", "--model", "A", "--rank", RANK, "--out", "OUT"]),
  ...Object.keys(RUN).flatMap((command) =>
    Object.keys(SOURCES).map((source) => ({
      name: source === "model" ? command : `${command} ${source}`,
      steps: (/** @type {(name: string) => string} */ at, /** @type {Rung} */ rung) => {
        const step = RUN[command]?.(SOURCES[source]?.(at, rung) ?? "", at);
        return step ? [step] : [];
      },
    })),
  ),
  {
    name: "generate, llama.cpp",
    writes: gguf,
    needsLlama: true,
    steps: (_, { base }) => {
      const type = base.endsWith(".gguf") ? [] : ["--type", "q4_k_m"];
      const words = ["--prompt", PROMPT, "--max-new-tokens", String(TOKENS)];
      return [{ args: ["generate", base, ...words, "--backend", "llama", ...type] }];
    },
  },
  ...["fisher", "gram", "inputs", "activations"].map((kind) =>
    Object.assign(
      look(`measure ${kind}`, [...measured(kind, "texts"), "--out", "OUT"]),
      kind === "gram" ? { writes: grams } : {},
    ),
  ),
  {
    name: "neurons",
    steps: (at, rung) => [
      ...["texts", "other"].map((name) => ({
        args: [...measured("activations", name), "--out", `@${name}`].map((arg) => filled(arg, at, rung)),
      })),
      { args: ["neurons", "--language", `en=${at("texts")}`, "--language", `de=${at("other")}`] },
    ],
  },
  look("train LoRA", ["train", "@run.yaml", "--out", "OUT", "--force"]),
  look("train", ["train", "@full.yaml", "--out", "OUT", "--force"]),
  { ...look("export q4_k_m", ["export", "BASE", "--type", "q4_k_m", "--out", "@out.gguf", "--force"]), writes: gguf },
  {
    ...look("export TIES", ["export", "@ties.json", "--type", "q4_k_m", "--out", "@out.gguf", "--force"]),
    writes: gguf,
  },
  ...["soup", "TIES", "SLERP", "DELLA"].map(written),
  {
    name: "swap, verify",
    writes: once,
    steps: (at) => [
      { args: ["merge", at("swap.json"), "--out", at("out"), "--force"] },
      { args: ["verify", at("out")] },
    ],
  },
];
