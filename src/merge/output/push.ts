// Pushes a folder to the hub: a listed set of its files, without paths of this machine.

import { readdir, stat } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import {
  ADAPTER_CONFIG,
  ADAPTER_WEIGHTS,
  companionsIn,
  folderName,
  leadsElsewhere,
} from "../../formats/checkpoint/index.js";
import {
  checkUploadAccess,
  hubSettings,
  isHubName,
  type UploadFile,
  type UploadResult,
  uploadFiles,
} from "../../formats/hub/index.js";
import { checkpointOfRun, INDEX_FILE, openSafetensors, openShards } from "../../formats/safetensors/index.js";
import { digestOf, exists, isFile, rewrittenJson } from "../../kit/files/index.js";
import { type CallOptions, CheckpointError, isSystemError, usageError, VERSION } from "../../kit/index.js";
import { PROVENANCE_FILE } from "../model-plan.js";
import { CARD_PICTURE, unknownFields } from "./model-card.js";
import { publicProvenance } from "./provenance.js";

export interface PushTarget {
  /** Repository on the hub, such as `org/name`; created if missing. */
  readonly name: string;
  /** Create the repository as private; an existing public one is an error. Default: false. */
  readonly private?: boolean | undefined;
  /** Branch to push to, created if missing. Default: `main`. */
  readonly branch?: string | undefined;
}

export interface PushOptions extends PushTarget, CallOptions {
  /** Title of the commit. Default: names the folder and layergraft's version. */
  readonly message?: string | undefined;
  /** Send nothing, and return what would be sent. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** Milliseconds before the first retry, doubled each time. Default: 500. */
  readonly retryDelay?: number | undefined;
  /** Milliseconds without an answer after which a request fails; ten times as many for a file. Default: 30,000. */
  readonly timeout?: number | undefined;
}

/** What was pushed. */
export interface PushResult extends UploadResult {
  /** Files and folders that are not part of a model, so that they were not sent. */
  readonly leftOut: readonly string[];
  /** What the hub asks for and the model card does not say, such as `license`. */
  readonly unknown: readonly string[];
}

/**
 * Checks that a token is there that may write to the target, so that a merge need not fail at its end.
 * @throws HubError if not
 * @throws LayergraftError if it cannot be the name of a repository or a branch
 */
export async function checkPush(target: PushTarget, signal?: AbortSignal): Promise<void> {
  checkNames(target);
  await checkUploadAccess(await hubSettings(), { name: target.name, signal });
}

function checkNames({ name, branch = "main" }: PushTarget): void {
  if (!isHubName(name)) throw usageError(`${JSON.stringify(name)} is not the name of a repository, such as org/name`);
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(branch) || branch.includes(".."))
    throw usageError(`${JSON.stringify(branch)} is not the name of a branch`);
}

/**
 * Pushes a folder as one commit: the weights and a listed set of files beside them, without paths of this machine.
 * Repository and branch are created if missing. Files that are there with the same hash are not sent.
 * @throws HubError if the hub refuses or cannot be reached
 * @throws CheckpointError if the folder is not a complete model or adapter
 * @throws FormatError if a weight file is broken
 * @throws CancelledError if the signal fires
 */
export async function pushFolder(folder: string, options: PushOptions): Promise<PushResult> {
  const { message = `Push ${basename(resolve(folder))} with layergraft ${VERSION}`, ...rest } = options;
  checkNames(options);
  if (message.trim() === "") throw usageError("the message of the commit is empty");
  const { leftOut, ...published } = await publishedFiles(folder);
  const result = await uploadFiles(await hubSettings(), {
    ...rest,
    ...published,
    message,
  });
  return { ...result, leftOut, unknown: await unknownFields(folder) };
}

interface PublishedFiles {
  readonly files: readonly UploadFile[];
  /** Names of other files and folders, hidden ones not included. */
  readonly leftOut: readonly string[];
  /** Whether a file of an earlier model would be loaded instead of these weights. */
  isStale(path: string): boolean;
}

const CONFIGS = ["config.json", "params.json", ADAPTER_CONFIG];
/** What layergraft writes beside the weights. The log of a training run has paths, so it is not among them. */
const OWN_FILES = ["README.md", PROVENANCE_FILE, "extraction.json", "heatmap.svg", CARD_PICTURE];
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
async function publishedFiles(folder: string): Promise<PublishedFiles> {
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
  const checkpoint = checkpointOfRun(folder, names);
  throw refusal(
    checkpoint === undefined
      ? `${folder} is not a model or adapter: it has neither config.json nor ${ADAPTER_CONFIG}`
      : `${folder} is a training run, not a model. Push one of its checkpoints, such as ${checkpoint.path}.`,
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
