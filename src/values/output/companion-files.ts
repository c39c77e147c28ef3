// Copies and writes the files beside the weights: configuration, tokenizer, templates, licences.

import { copyFile, mkdir, readdir, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import {
  digestOf,
  exists,
  formatSome,
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
  type CompanionKind,
  companionOf,
  isCompanionFolder,
  isTower,
  isWorthNoting,
  type Json,
  mapTowers,
  stackedConfig,
  textFoldersOf,
  UNKNOWN_BYTES,
  UNKNOWN_FILES,
} from "../../weights/index.js";
import { PROVENANCE_FILE, type TensorPlan } from "../plan.js";

/** What comes from the model that gives the tokenizer, and what from the one that gives the configuration. */
const OF_TOKENIZER: readonly CompanionKind[] = ["tokenizer", "prompting"];
const OF_CONFIG: readonly CompanionKind[] = ["processing", "code", "terms", "unknown"];

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
  await copyCompanions(homeOf(lead), OF_CONFIG, folder);
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

/** The folder of a configuration. That of the tokenizer is another one after a transplant. */
const homeOf = ({ config }: Checkpoint) => dirname(config.file);

/** Notes on the files that are copied from the models that give the configuration and the tokenizer, and on those that are not. */
export async function companionNotes(lead: Checkpoint, tokenizer: Checkpoint): Promise<string[]> {
  const notes: string[] = [];
  const ofConfig = await companionsIn(homeOf(lead), OF_CONFIG);
  if (ofConfig.unknown.length > 0) {
    notes.push(`${lead.name} has small files of unknown purpose, which are copied: ${formatSome(ofConfig.unknown)}`);
  }
  if (ofConfig.leftOut.length > 0) {
    notes.push(
      `${lead.name} has files that are not copied: ${formatSome(ofConfig.leftOut)}; copy what the model needs into the result`,
    );
  }
  const { paths } = await companionsIn(tokenizer.texts, OF_TOKENIZER);
  for (const path of paths) notes.push(...(await problemsOf(tokenizer.texts, path, tokenizer.name)));
  for (const path of ofConfig.paths) notes.push(...(await problemsOf(homeOf(lead), path, lead.name)));
  return notes;
}

async function problemsOf(folder: string, path: string, name: string): Promise<string[]> {
  if (await leadsElsewhere(folder, path)) {
    return [
      `${path} of ${name} is a symbolic link out of its folder, so it is not copied; replace the link with the file`,
    ];
  }
  const file = join(folder, path);
  if (!(await isFile(file)))
    return [`${path} of ${name} is not a regular file, so it is not copied; replace it with the file`];
  const { size } = await stat(file);
  if (size === 0 && companionOf(path) !== "code") return [`${path} of ${name} is empty; download it again`];
  if (!path.endsWith(".json") || size > MAX_PARSED_BYTES) return [];
  try {
    JSON.parse(await readFile(file, "utf8"));
    return [];
  } catch {
    return [`${path} of ${name} is not valid JSON; download it again`];
  }
}

// The largest tokenizers have 35 MB.
const MAX_PARSED_BYTES = 300_000_000;

export interface Companions {
  /** Paths of the files of the kinds that were asked for, sorted. */
  readonly paths: readonly string[];
  /** Those of them whose purpose is not known. */
  readonly unknown: readonly string[];
  /** Files and folders that are none, except weights and records of training. */
  readonly leftOut: readonly string[];
}

/** The files of a model's folder that go beside other weights. */
export async function companionsIn(folder: string, kinds: readonly CompanionKind[]): Promise<Companions> {
  const names = (await readdir(folder)).sort();
  const inFolders = names.filter(isCompanionFolder).map(async (name) => {
    const inside = await readdir(join(folder, name)).catch(() => []);
    return inside.sort().map((one) => `${name}/${one}`);
  });
  const all = [...names, ...(await Promise.all(inFolders)).flat()];
  // A model with custom code (`auto_map`) cannot be opened without it. The code is copied and never run.
  const hasCode = kinds.includes("code") && (await namesCode(folder, names));
  const paths = all.filter((path) => {
    const kind = companionOf(path);
    return kind === "code" ? hasCode : kind && kind !== "unknown" && kinds.includes(kind);
  });
  const unknown: string[] = [];
  const leftOut: string[] = [];
  for (const path of kinds.includes("unknown") ? names : []) {
    const kind = companionOf(path) ?? "none";
    const found = await stat(join(folder, path)).catch(() => undefined);
    if (!found || !["unknown", "none"].includes(kind)) continue;
    const isSmall = found.isFile() && found.size <= UNKNOWN_BYTES && unknown.length < UNKNOWN_FILES;
    if (kind === "unknown" && isSmall && !(await leadsElsewhere(folder, path))) unknown.push(path);
    else if (isWorthNoting(path, found.isDirectory())) leftOut.push(path);
  }
  return { paths: [...paths, ...unknown], unknown, leftOut };
}

/** Whether a configuration in a folder names classes in files beside it. */
async function namesCode(folder: string, names: readonly string[]): Promise<boolean> {
  for (const name of names) {
    const mayName = name === "config.json" || ["tokenizer", "processing"].includes(companionOf(name) ?? "");
    if (!mayName || !name.endsWith("config.json")) continue;
    const json = await readJsonObject(join(folder, name)).catch(() => undefined);
    if (json && "auto_map" in json) return true;
  }
  return false;
}

/** Whether a file is a symbolic link out of its model. Snapshots in a hub cache link to the blobs beside them. */
export async function leadsElsewhere(folder: string, path: string): Promise<boolean> {
  const home = await realpath(folder);
  const [, repository] = /^(.*)[/\\]snapshots[/\\][^/\\]+/.exec(home) ?? [];
  const blobs = repository === undefined ? [] : [join(repository, "blobs")];
  return !(await staysIn(join(folder, path), folder, ...blobs).catch(() => false));
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
