// The folder in which the commands of README.md and docs/ run: the shipped models, adapters, recipes, tasks, data and plans.
import { cp, mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { filesOfRun } from "../kit/files/index.js";
import { extractAdapter } from "../merge/extract/index.js";
import { MINIATURE_MODELS, writeMiniature } from "./miniature.js";

/** Of the adapters. */
const RANK = 16;

export interface ExampleFolder {
  readonly folder: string;
  /** What was written, in the order of the listing. */
  readonly files: readonly { readonly names: readonly string[]; readonly about: string }[];
}

const FILES: ExampleFolder["files"] = [
  { names: ["base"], about: "a Llama with 8 layers and 0.9M parameters" },
  { names: ["math-expert"], about: "the base, fine-tuned on math in English, in layers 3-7" },
  { names: ["swahili-expert"], about: "the base, fine-tuned on Swahili without math, in embeddings and layers 0-2" },
  { names: ["math-adapter", "swahili-adapter"], about: `the experts' changes as LoRA adapters of rank ${RANK}` },
  { names: ["recipe.yaml", "mergekit.yml", "mixture.yml", "adapters.yaml", "fisher.yaml"], about: "merges" },
  { names: ["prompts.txt", "texts.txt", "texts-english.txt", "tokens.json"], about: "prompts and texts" },
  { names: ["problems.jsonl", "run.yaml"], about: "training data and a training run" },
  { names: ["problems.yaml", "swahili.jsonl"], about: "held-out word problems in Swahili, as a task" },
  { names: ["quiz.yaml", "rows.jsonl"], about: "some of them with four choices, in English and Swahili" },
  { names: ["translate.yaml", "sentences.jsonl"], about: "sentences to translate" },
  { names: ["plan.yaml", "matrix.yaml"], about: "experiments" },
];

/**
 * Writes the example folder, which is the same on every machine. Its own files are replaced if they exist.
 * @throws OutputError if the folder has other files and no example in it
 */
export async function writeExample(folder: string, signal?: AbortSignal): Promise<ExampleFolder> {
  await filesOfRun(folder, "example", (names) => names.includes("rows.jsonl"));
  await mkdir(folder, { recursive: true });
  await cp(dirname(createRequire(import.meta.url).resolve("#example")), folder, { recursive: true });
  await writeMiniature(folder);
  const { base, math, language } = MINIATURE_MODELS;
  for (const [expert, name] of [
    [math, "math-adapter"],
    [language, "swahili-adapter"],
  ] as const) {
    await extractAdapter({ base, model: expert, rank: RANK, folder, signal }, { out: join(folder, name), force: true });
  }
  return { folder, files: FILES };
}
