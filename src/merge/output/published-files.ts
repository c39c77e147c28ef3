// The files of a folder that are published: a listed set, without paths of this machine.

import { readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import {
  ADAPTER_CONFIG,
  ADAPTER_WEIGHTS,
  companionsIn,
  folderName,
  leadsElsewhere,
} from "../../formats/checkpoint/index.js";
import type { UploadFile } from "../../formats/hub/index.js";
import { INDEX_FILE, openSafetensors, openShards } from "../../formats/safetensors/index.js";
import { digestOf, exists, isFile, rewrittenJson } from "../../kit/files/index.js";
import { CheckpointError, isSystemError } from "../../kit/index.js";
import { PROVENANCE_FILE } from "../model-plan.js";
import { publicProvenance } from "./provenance.js";

export interface PublishedFiles {
  readonly files: readonly UploadFile[];
  /** Names of other files and folders, hidden ones not included. */
  readonly leftOut: readonly string[];
  /** Whether a file of an earlier model would be loaded instead of these weights. */
  isStale(path: string): boolean;
}

const CONFIGS = ["config.json", "params.json", ADAPTER_CONFIG];
/** What layergraft writes beside the weights. The log of a training run has paths, so it is not among them. */
const OWN_FILES = ["README.md", PROVENANCE_FILE, "extraction.json", "heatmap.svg"];
/** Scores for the hub, which `eval --format hub` writes. */
const SCORES = ".eval_results";
/** Files of unknown purpose may be private. */
const PUBLISHED = ["tokenizer", "prompting", "processing", "code", "terms"] as const;
const MODEL_WEIGHTS = /^model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?$/;

/** Fields in which transformers and PEFT store where a model was loaded from. */
const PATH_FIELDS = ["_name_or_path", "name_or_path", "base_model_name_or_path"];
const LOCAL_PATH = /^([/~.]|[A-Za-z]:[\\/])|\\/;

/**
 * Lists the files of a model or adapter to publish.
 * @throws CheckpointError if the folder is neither, or not complete
 * @throws FormatError if a weight file is broken
 */
export async function publishedFiles(folder: string): Promise<PublishedFiles> {
  const names = await namesOf(folder);
  const isAdapter = names.includes(ADAPTER_CONFIG);
  const isGguf = names.some(isGgufName) && !names.some((name) => name.endsWith(".safetensors"));
  const weights = isAdapter
    ? [await openSafetensors(join(folder, ADAPTER_WEIGHTS))]
    : isGguf
      ? []
      : await openShards(folder);
  const weightNames = weights.map(({ path }) => relative(folder, path).replaceAll("\\", "/"));
  const { paths: companions } = await companionsIn(folder, PUBLISHED);
  const isSharded = weightNames.length > 1;
  const isListed = (name: string) =>
    CONFIGS.includes(name) ||
    OWN_FILES.includes(name) ||
    companions.includes(name) ||
    isGgufName(name) ||
    (isSharded && name === INDEX_FILE);

  const files: UploadFile[] = [];
  for (const path of weightNames) files.push(await onDisk(folder, path));
  const leftOut: string[] = [];
  const rewritten = new Map<string, string>();
  const inFolders = companions.filter((path) => path.includes("/"));
  const isTaken = (name: string) => inFolders.some((path) => path.startsWith(`${name}/`));
  for (const name of [...names.filter((one) => !isTaken(one)), ...inFolders]) {
    if (name.startsWith(".") || weightNames.some((path) => path.split("/")[0] === name)) continue;
    if (!isListed(name) || !(await isFile(join(folder, name))) || (await leadsElsewhere(folder, name))) {
      leftOut.push(name);
    } else if (name !== PROVENANCE_FILE) {
      const text = name.endsWith("config.json") ? await withoutPaths(join(folder, name)) : undefined;
      if (text !== undefined) rewritten.set(name, text);
      files.push(text === undefined ? await onDisk(folder, name) : fromText(name, text));
    }
  }
  for (const name of await readdir(join(folder, SCORES)).catch(() => [])) {
    const path = `${SCORES}/${name}`;
    if (name.endsWith(".yaml") && !(await leadsElsewhere(folder, path))) files.push(await onDisk(folder, path));
  }
  if (await exists(join(folder, PROVENANCE_FILE))) {
    const digests = [...rewritten].map(([name, text]) => [name, digestOf(text)]);
    files.push(fromText(PROVENANCE_FILE, await publicProvenance(folder, Object.fromEntries(digests))));
  }
  return { files, leftOut, isStale: (path) => !isAdapter && !isGguf && MODEL_WEIGHTS.test(path) };
}

const isGgufName = (name: string) => name.endsWith(".gguf");

/** The names in a folder, sorted. @throws CheckpointError if they cannot be those of a model or adapter */
async function namesOf(folder: string): Promise<string[]> {
  const refusal = (text: string, error?: unknown) => new CheckpointError(text, { file: folder }, error);
  const names = await readdir(folder).catch(async (error: unknown) => {
    if (!isSystemError(error, "ENOENT") && !isSystemError(error, "ENOTDIR")) throw error;
    const partial = `${folder}.partial`;
    throw (await exists(partial))
      ? refusal(`${folder} is not complete: ${partial} holds an interrupted run. Finish it first`, error)
      : refusal(`${folder} is not a folder; give the folder of a model or adapter`, error);
  });
  if (names.some((name) => CONFIGS.includes(name) || isGgufName(name))) return names.sort();
  const checkpoint = ["best", "last"].find((name) => names.includes(name));
  throw refusal(
    checkpoint === undefined
      ? `${folder} is not a model or adapter: it has neither config.json nor ${ADAPTER_CONFIG}`
      : `${folder} is a training run, not a model. Push one of its checkpoints, such as ${join(folder, checkpoint)}.`,
  );
}

async function onDisk(folder: string, path: string): Promise<UploadFile> {
  const content = join(folder, path);
  return { path, content, bytes: (await stat(content)).size };
}

function fromText(path: string, text: string): UploadFile {
  const content = Buffer.from(text);
  return { path, content, bytes: content.length };
}

/** The text of a configuration with names in place of local paths; undefined if it has none. */
async function withoutPaths(file: string): Promise<string | undefined> {
  let found = false;
  const text = await rewrittenJson(file, (json) => {
    const changed = { ...json };
    for (const field of PATH_FIELDS) {
      const value = json[field];
      if (typeof value !== "string" || !LOCAL_PATH.test(value)) continue;
      found = true;
      changed[field] = folderName(value.replaceAll("\\", "/").replace(/\/+$/, ""));
    }
    return changed;
  });
  return found ? text : undefined;
}
