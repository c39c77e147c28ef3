// Copies and writes the files beside the weights: configuration, tokenizer, templates, licences.

import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import {
  ADAPTER_CONFIG,
  type Checkpoint,
  type CompanionKind,
  companionOf,
  companionsIn,
  homeOf,
  isTower,
  leadsElsewhere,
  mapTowers,
  OF_TOKENIZER,
  ofConfig,
  stackedConfig,
} from "../../formats/checkpoint/index.js";
import { type AddedToken, textFoldersOf } from "../../formats/vocabulary/index.js";
import { digestOf, exists, isFile, rewriteJson } from "../../kit/files/index.js";
import { isObject, type JsonObject, type TorchDTypeName } from "../../kit/index.js";
import { PROVENANCE_FILE, type TensorPlan } from "../model-plan.js";

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
  const hasTokenizer = await copyTextFiles(
    [...textFoldersOf(tokenizer)].reverse(),
    plan.vocabulary?.added ?? [],
    folder,
  );
  if (plan.recipe.chat_template !== undefined) await writeTemplate(folder, plan.recipe.chat_template);
  await copyCompanions(tokenizer.texts, ["code"], folder);
  await copyCompanions(homeOf(lead), ofConfig(lead), folder);
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
    for (const path of await copyCompanions(home, OF_TOKENIZER, folder)) copied.add(path);
  }
  if (added.length > 0) await addTokens(folder, added);
  return [...copied].some((path) => companionOf(path) === "tokenizer");
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
  if (adapter) await copyTextFiles([adapter.path], [], folder);
  return [];
}

async function copyCompanions(from: string, kinds: readonly CompanionKind[], to: string): Promise<string[]> {
  const copied: string[] = [];
  for (const path of (await companionsIn(from, kinds)).paths) {
    if (!(await isFile(join(from, path))) || (await leadsElsewhere(from, path))) continue;
    await mkdir(dirname(join(to, path)), { recursive: true });
    await copyFile(join(from, path), join(to, path));
    copied.push(path);
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
): JsonObject {
  let { json } = config;
  if (fields) json = withFields(json, fields);
  if (layerOrder) json = stackedConfig({ ...config, json }, layerOrder);
  if (vocabulary) json = mapTowers(json, (key, value) => (key === "vocab_size" ? vocabulary.rows : value));
  return recipe.dtype === "keep" || recipe.dtype === "fp8" ? json : withDType(json, recipe.dtype);
}

/** A configuration with other fields, also within its text tower. */
function withFields(json: JsonObject, fields: JsonObject): JsonObject {
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
function withDType(json: JsonObject, dtype: TorchDTypeName): JsonObject {
  const changed = Object.entries(json).map(([key, value]): [string, unknown] => {
    if (key === "torch_dtype" || key === "dtype") return [key, dtype];
    return [key, isTower(key, value) ? withDType(value, dtype) : value];
  });
  const named = changed.some(([key]) => key === "torch_dtype" || key === "dtype");
  return Object.fromEntries(named || !("model_type" in json) ? changed : [...changed, ["torch_dtype", dtype]]);
}

/** Users may edit the model card. */
const UNCHECKED = [PROVENANCE_FILE, "README.md"];

/** SHA-256 of every file of an output but its weights, its journal, layergraft.json itself and the model card, by path. */
export async function digestCompanions(folder: string, weights: readonly string[]): Promise<Record<string, string>> {
  const paths = (await readdir(folder, { recursive: true })).map((path) => path.replaceAll("\\", "/"));
  const checked = paths.filter(
    (path) => !weights.includes(path) && !path.startsWith(".layergraft-") && !UNCHECKED.includes(path),
  );
  return digestFiles(folder, checked.sort());
}

/** SHA-256 of files by path; missing files and links out of the folder are left out. */
export async function digestFiles(folder: string, paths: readonly string[]): Promise<Record<string, string>> {
  const digests = new Map<string, string>();
  for (const path of paths) {
    if (isAbsolute(path) || path.split(/[/\\]/).includes("..") || !(await isFile(join(folder, path)))) continue;
    const content = await readFile(join(folder, path)).catch(() => undefined);
    if (content) digests.set(path, digestOf(content));
  }
  return Object.fromEntries(digests);
}
