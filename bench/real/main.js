// Asks a real model the same questions of layergraft and of the tools that people use, and prints where they differ:
//   npm run bench -- real MODEL.gguf --data DIR --python PYTHON [--llama node-llama-cpp/dist/index.js] [--js FOLDER] [--mergekit PYTHON]
// Each comparison says how much was compared and its largest difference. docs/results.md has the table of one run.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { CLI, describeMachine, measure } from "../measure.js";
import { compareFineTuning } from "./fine-tuning.js";
import { compareAnswers, compareChoices } from "./harness.js";
import { compareLlama } from "./llama.js";
import { compareMerges } from "./merges.js";
import { compareOnnx } from "./onnx.js";
import { compareSpeed } from "./speed.js";
import { compareTransformers } from "./transformers.js";

/** @typedef {{ what: string, against: string, compared: string, difference: string }} Row */
/**
 * @typedef {{ gguf: string, float32: string, bfloat16: string, data: string, python: string, out: string, items: number,
 *   experts: string[], llama: string | undefined, js: string | undefined, mergekit: string | undefined }} Given
 */

const COMPARISONS = {
  transformers: compareTransformers,
  choices: compareChoices,
  answers: compareAnswers,
  llama: compareLlama,
  onnx: compareOnnx,
  "fine-tuning": compareFineTuning,
  merges: compareMerges,
  speed: compareSpeed,
};

/** @param {string[]} args */
export async function benchmarkReal(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      data: { type: "string" },
      python: { type: "string", default: "python3" },
      llama: { type: "string" },
      js: { type: "string" },
      mergekit: { type: "string" },
      experts: { type: "string", default: "" },
      items: { type: "string", default: "10" },
      only: { type: "string", default: Object.keys(COMPARISONS).join() },
      out: { type: "string", default: "real-model" },
    },
  });
  const [gguf] = positionals;
  if (!gguf || !values.data) throw new Error("usage: npm run bench -- real MODEL.gguf --data DIR --python PYTHON");
  const out = resolve(values.out);
  mkdirSync(out, { recursive: true });
  const folders = { float32: join(out, "float32"), bfloat16: join(out, "bfloat16") };
  for (const [type, folder] of Object.entries(folders)) {
    await measure(process.execPath, [
      CLI,
      "export",
      gguf,
      "--format",
      "hf",
      "--type",
      type,
      "--out",
      folder,
      "--force",
      "--quiet",
    ]);
  }
  const { data, python, llama, js, mergekit } = values;
  const experts = values.experts.split(",").filter(Boolean);
  const given = { gguf, ...folders, data, python, out, items: Number(values.items), experts, llama, js, mergekit };
  console.log(`machine: ${describeMachine()}\n`);
  console.log("| what | against | compared | difference |\n| --- | --- | --- | --- |");
  const rows = [];
  for (const name of values.only.split(",")) {
    for await (const row of COMPARISONS[/** @type {keyof typeof COMPARISONS} */ (name)](given)) {
      rows.push(row);
      console.log(`| ${row.what} | ${row.against} | ${row.compared} | ${row.difference} |`);
      writeFileSync(join(out, "rows.json"), JSON.stringify(rows, null, 2));
    }
  }
}
