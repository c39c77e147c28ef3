// The small files that make a folder of weights a model: configuration, tokenizer, templates, licences.
import { copyFile, readdir, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Checkpoint } from "../checkpoint/checkpoint.js";
import type { TorchDTypeName } from "../core/dtype.js";
import { exists } from "../core/files.js";
import type { Plan } from "./plan.js";

/** Files that belong to tokenizer and prompting, as transformers, sentencepiece and Mistral name them. */
const TOKENIZER_FILES = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "tokenizer.model",
  "spiece.model",
  "vocab.json",
  "vocab.txt",
  "merges.txt",
  "tekken.json",
  "chat_template.jinja",
  "chat_template.json",
  "generation_config.json",
  "preprocessor_config.json",
  "processor_config.json",
  "video_preprocessor_config.json",
];

/** Files of the lead checkpoint that the result inherits whatever its tokenizer: terms of use, and code it names. */
const INHERITED = /^(LICENSE|LICENCE|NOTICE|USE_POLICY)(\.(md|txt))?$/i;

/** Copies and writes the companions of a plan's output into a folder. */
export async function writeCompanions(
  plan: Plan,
  sources: ReadonlyMap<string, Checkpoint>,
  folder: string,
): Promise<void> {
  const lead = sources.get(plan.configFrom) as Checkpoint;
  const tokenizer = sources.get(plan.tokenizerFrom) as Checkpoint;
  await writeConfig(lead, plan, join(folder, basename(lead.config.file)));
  // PEFT saves the tokenizer that was trained with beside the adapter; it then goes before the base's.
  const homes = tokenizer.adapter ? [tokenizer.folder, tokenizer.adapter.path] : [tokenizer.folder];
  for (const home of homes) {
    const present = await Promise.all(TOKENIZER_FILES.map((name) => exists(join(home, name))));
    await copyNamed(
      home,
      folder,
      TOKENIZER_FILES.filter((_, i) => present[i]),
    );
  }
  const named = await readdir(lead.folder);
  await copyNamed(
    lead.folder,
    folder,
    named.filter((name) => INHERITED.test(name)),
  );
  // A model with code of its own (`auto_map`) cannot be opened without it. It is copied as text and never run here.
  if ("auto_map" in lead.config.json)
    await copyNamed(
      lead.folder,
      folder,
      named.filter((name) => name.endsWith(".py")),
    );
}

async function copyNamed(from: string, to: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    if ((await stat(join(from, name))).isFile()) await copyFile(join(from, name), join(to, name));
  }
}

/** The lead's configuration: as it is, but for the dtype where the result has another. */
async function writeConfig({ config }: Checkpoint, { recipe }: Plan, path: string): Promise<void> {
  if (recipe.dtype === "keep") await copyFile(config.file, path);
  else await writeFile(path, `${JSON.stringify(withDType(config.json, recipe.dtype), null, 2)}\n`);
}

/** transformers 4 calls the field torch_dtype, 5 dtype; text towers may repeat it. */
function withDType(json: Readonly<Record<string, unknown>>, dtype: TorchDTypeName): Record<string, unknown> {
  const changed = Object.entries(json).map(([key, value]): [string, unknown] => {
    if (key === "torch_dtype" || key === "dtype") return [key, dtype];
    const nested = key === "text_config" && typeof value === "object" && value !== null;
    return [key, nested ? withDType(value as Record<string, unknown>, dtype) : value];
  });
  const named = changed.some(([key]) => key === "torch_dtype" || key === "dtype");
  return Object.fromEntries(named || !("model_type" in json) ? changed : [...changed, ["torch_dtype", dtype]]);
}
