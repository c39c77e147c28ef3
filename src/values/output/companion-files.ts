// Copies and writes the files beside the weights: configuration, tokenizer, templates, licences.

import { copyFile, lstat, readdir, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  digestOf,
  exists,
  isFile,
  isObject,
  readJsonObject,
  rewriteJson,
  staysIn,
  type TorchDTypeName,
} from "../../core/index.js";
import {
  ADAPTER_CONFIG,
  type AddedToken,
  type Checkpoint,
  isTower,
  type Json,
  mapTowers,
  stackedConfig,
} from "../../weights/index.js";
import { PROVENANCE_FILE, type TensorPlan } from "../plan.js";

/** Tokenizer files of transformers, sentencepiece and Mistral. */
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
];

/** Templates, generation defaults, processors of multimodal models. */
const PROMPTING_FILES = [
  "chat_template.jinja",
  "chat_template.json",
  "generation_config.json",
  "preprocessor_config.json",
  "processor_config.json",
  "video_preprocessor_config.json",
];

/** Files that `copyTextFiles` copies. */
export const TEXT_FILES: readonly string[] = [...TOKENIZER_FILES, ...PROMPTING_FILES];

/** Files always copied from the lead checkpoint: terms of use, and custom code. */
const INHERITED = /^(LICENSE|LICENCE|NOTICE|USE_POLICY)(\.(md|txt))?$/i;

/**
 * Copies and writes the companions of a plan's output into a folder.
 * @returns warnings, such as a missing tokenizer
 */
export async function writeCompanions(
  plan: TensorPlan,
  sources: ReadonlyMap<string, Checkpoint>,
  folder: string,
): Promise<string[]> {
  const lead = sources.get(plan.configFrom) as Checkpoint;
  const tokenizer = sources.get(plan.tokenizerFrom) as Checkpoint;
  await writeConfig(lead, plan, join(folder, basename(lead.config.file)));
  // PEFT saves the tokenizer used in training beside the adapter; it overrides the base's.
  const homes = [tokenizer.texts, ...(tokenizer.adapter ? [tokenizer.adapter.path] : [])];
  const hasTokenizer = await copyTextFiles(homes, plan.vocabulary?.added ?? [], folder);
  if (plan.recipe.chat_template !== undefined) await writeTemplate(folder, plan.recipe.chat_template);
  // A model with custom code (`auto_map`) cannot be opened without it. The code is copied and never run.
  const hasCode = "auto_map" in lead.config.json;
  await copyFiles(
    dirname(lead.config.file),
    folder,
    (name) => INHERITED.test(name) || (hasCode && name.endsWith(".py")),
  );
  if (hasTokenizer) return [];
  return [
    `${tokenizer.name} has no tokenizer files, so the result has none; copy those of its model into it, or name another source as tokenizer_from`,
  ];
}

/**
 * Copies tokenizer, templates and generation defaults.
 * @param homes folders to copy from; files of later ones override
 * @param added tokens that the tokenizer gets
 * @returns whether there are tokenizer files
 */
export async function copyTextFiles(
  homes: readonly string[],
  added: readonly AddedToken[],
  folder: string,
): Promise<boolean> {
  const copied = new Set<string>();
  for (const home of homes) {
    for (const name of await copyFiles(home, folder, (one) => TEXT_FILES.includes(one))) copied.add(name);
  }
  if (added.length > 0) await addTokens(folder, added);
  return TOKENIZER_FILES.some((name) => copied.has(name));
}

/** Writes a chat template in the place of the tokenizer's. */
async function writeTemplate(folder: string, template: string): Promise<void> {
  const settings = join(folder, "tokenizer_config.json");
  if (await exists(settings)) await rewriteJson(settings, settings, ({ chat_template: _, ...json }) => json);
  await rm(join(folder, "chat_template.json"), { force: true });
  await writeFile(join(folder, "chat_template.jinja"), template);
}

/** Writes the companions of an adapter: its configuration, and the tokenizer files that its experts were saved with. */
export async function writeAdapterCompanions(
  plan: TensorPlan,
  sources: ReadonlyMap<string, Checkpoint>,
  config: object,
  folder: string,
): Promise<string[]> {
  await writeFile(join(folder, ADAPTER_CONFIG), `${JSON.stringify(config, undefined, 2)}\n`);
  const { adapter } = sources.get(plan.tokenizerFrom) as Checkpoint;
  if (adapter) await copyFiles(adapter.path, folder, (name) => TEXT_FILES.includes(name));
  return [];
}

/** Problems with a checkpoint's tokenizer files, as notes of the plan. */
export async function tokenizerNotes({ texts: folder, name }: Pick<Checkpoint, "texts" | "name">): Promise<string[]> {
  const notes: string[] = [];
  for (const file of await readdir(folder)) {
    if (!TEXT_FILES.includes(file)) continue;
    const path = join(folder, file);
    if (await leadsElsewhere(folder, file)) {
      notes.push(
        `${file} of ${name} is a symbolic link out of its folder, so it is not copied; replace the link with the file`,
      );
    } else if (!(await isFile(path))) {
      notes.push(`${file} of ${name} is not a regular file, so it is not copied; replace it with the file`);
    } else if ((await stat(path)).size === 0) {
      notes.push(`${file} of ${name} is empty; download it again`);
    } else if (file.endsWith(".json")) {
      await readJsonObject(path).catch(() => notes.push(`${file} of ${name} is not valid JSON; download it again`));
    }
  }
  return notes;
}

/** Whether a name is that of a file that models have beside their weights and configuration. */
export function isCompanionName(name: string): boolean {
  return TEXT_FILES.includes(name) || INHERITED.test(name);
}

/** Whether a file is a symbolic link out of its model. Snapshots in a hub cache link to the blobs beside them. */
export async function leadsElsewhere(folder: string, name: string): Promise<boolean> {
  if (!(await lstat(join(folder, name))).isSymbolicLink()) return false;
  const snapshots = dirname(await realpath(folder));
  const blobs = basename(snapshots) === "snapshots" ? [join(dirname(snapshots), "blobs")] : [];
  return !(await staysIn(join(folder, name), folder, ...blobs));
}

async function copyFiles(from: string, to: string, isWanted: (name: string) => boolean): Promise<string[]> {
  const wanted = (await readdir(from)).filter(isWanted);
  const copied: string[] = [];
  for (const name of wanted) {
    if (!(await stat(join(from, name))).isFile() || (await leadsElsewhere(from, name))) continue;
    await copyFile(join(from, name), join(to, name));
    copied.push(name);
  }
  return copied;
}

/** Writes the lead's configuration, byte for byte if nothing changes. */
async function writeConfig({ config }: Checkpoint, plan: TensorPlan, path: string): Promise<void> {
  if (outputConfig(plan, config) === config.json && !config.edit) return copyFile(config.file, path);
  // The file is read again, as it keeps how numbers are written.
  await rewriteJson(config.file, path, (json) => outputConfig(plan, { ...config, json: config.edit?.(json) ?? json }));
}

/** The configuration of a plan's output: the lead's, with the plan's layers, vocabulary and dtype. */
export function outputConfig(
  { recipe, layerOrder, vocabulary, config: fields }: TensorPlan,
  config: Checkpoint["config"],
): Json {
  let { json } = config;
  if (fields) json = withFields(json, fields);
  if (layerOrder) json = stackedConfig({ ...config, json }, layerOrder);
  if (vocabulary) json = mapTowers(json, (key, value) => (key === "vocab_size" ? vocabulary.rows : value));
  return recipe.dtype === "keep" ? json : withDType(json, recipe.dtype);
}

/** A configuration with other fields, also within its text tower. */
function withFields(json: Json, fields: Json): Json {
  const replaced = Object.entries(fields).map(([key, value]): [string, unknown] => {
    const tower = json[key];
    return [key, isTower(key, tower) && isObject(value) ? withFields(tower, value) : value];
  });
  return { ...json, ...Object.fromEntries(replaced) };
}

/** Adds tokens to the tokenizer files of a folder, at their rows in the weights. */
async function addTokens(folder: string, added: readonly AddedToken[]): Promise<void> {
  const edit = async (name: string, change: (json: Record<string, unknown>) => Record<string, unknown>) => {
    const path = join(folder, name);
    if (await exists(path)) await rewriteJson(path, path, change);
  };
  await edit("tokenizer.json", (json) => {
    const known = Array.isArray(json.added_tokens) ? json.added_tokens : [];
    return { ...json, added_tokens: [...known, ...added] };
  });
  await edit("tokenizer_config.json", (json) => {
    const known = (json.added_tokens_decoder ?? {}) as Record<string, unknown>;
    const described = Object.fromEntries(added.map(({ id, ...token }) => [String(id), token]));
    return { ...json, added_tokens_decoder: { ...known, ...described } };
  });
  await edit("added_tokens.json", (json) => {
    return { ...json, ...Object.fromEntries(added.map(({ id, content }) => [content, id])) };
  });
}

/** transformers 4 calls the field torch_dtype, 5 dtype; text towers may repeat it. */
function withDType(json: Json, dtype: TorchDTypeName): Json {
  const changed = Object.entries(json).map(([key, value]): [string, unknown] => {
    if (key === "torch_dtype" || key === "dtype") return [key, dtype];
    return [key, isTower(key, value) ? withDType(value, dtype) : value];
  });
  const named = changed.some(([key]) => key === "torch_dtype" || key === "dtype");
  return Object.fromEntries(named || !("model_type" in json) ? changed : [...changed, ["torch_dtype", dtype]]);
}

/** Users may edit the model card. */
const UNCHECKED = [PROVENANCE_FILE, "README.md"];

/** SHA-256 of every file of an output but its weights, its journal, layergraft.json itself and the model card, by name. */
export async function digestCompanions(folder: string, weights: readonly string[]): Promise<Record<string, string>> {
  const names = (await readdir(folder)).filter(
    (name) => !weights.includes(name) && !name.startsWith(".layergraft-") && !UNCHECKED.includes(name),
  );
  return digestFiles(folder, names.sort());
}

/** SHA-256 of files by name; missing files and links out of the folder are left out. */
export async function digestFiles(folder: string, names: readonly string[]): Promise<Record<string, string>> {
  const digests = new Map<string, string>();
  for (const name of names) {
    if (name !== basename(name) || !(await isFile(join(folder, name)))) continue;
    const content = await readFile(join(folder, name)).catch(() => undefined);
    if (content) digests.set(name, digestOf(content));
  }
  return Object.fromEntries(digests);
}
