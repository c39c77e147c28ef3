// Makes the folder in which the commands of README.md and docs/ run: npm run example [-- FOLDER]
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { writeWorld } from "./world.js";

const folder = process.argv[2] ?? fileURLToPath(new URL("../example", import.meta.url));
if (existsSync(folder)) {
  console.error(`error: ${folder} already exists. Delete it, or choose another folder: npm run example -- FOLDER`);
  process.exit(1);
}
await writeWorld(folder);
console.log(`Wrote ${folder}:

  base                                a Llama with 16 layers, 0.2M parameters, random weights
  math-expert, math-expert-2          the base, changed most in the upper half
  swahili-expert, swahili-expert-2    the base, changed most in the first and last layers
  math-adapter, swahili-adapter       LoRA adapters of the base
  recipe.yaml, mergekit.yml           merges
  prompts.txt, tokens.json            prompts
  problems.jsonl, run.yaml            training data and a training run
  quiz.yaml, words.yaml, rows.jsonl   evaluation tasks and their questions
  plan.yaml, matrix.yaml              experiments

The models have learned nothing: their answers are random words. Try:

  cd ${folder}
  layergraft swap --task math-expert --language swahili-expert --dry-run
  layergraft swap --task math-expert --language swahili-expert --out merged
  layergraft verify merged`);
