// Finds the folders of a source: FOLDER, FOLDER+ADAPTER, or names on the hub in their place.

import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, normalize, resolve } from "node:path";
import { beginsHere, exists, isFile } from "../../kit/files/index.js";
import { CheckpointError } from "../../kit/index.js";
import { commandLine, didYouMean } from "../../kit/printing/index.js";
import { INDEX_FILE, type RemoteFolder, SINGLE_FILE } from "../safetensors/sharded.js";
import { ADAPTER_CONFIG } from "./adapter-config.js";
import { ADAPTER_WEIGHTS, adapterWeights } from "./adapter-files.js";
import {
  type FoundFolder,
  findOnHub,
  HUB_PREFIX,
  type HubAccess,
  isCached,
  parseHubName,
  type Role,
} from "./hub-source.js";

export interface SourceLocation {
  /** Absolute path of the checkpoint's folder. */
  readonly folder: string;
  /** Absolute path of the adapter's folder, for FOLDER+ADAPTER. */
  readonly adapter?: string;
}

/** A location with the files that are on the hub only. */
export interface RemoteLocation extends SourceLocation {
  readonly remote?: RemoteFolder | undefined;
  /** Branch, tag or commit that was asked for, if the folder was found by its name on the hub. */
  readonly revision?: string | undefined;
  readonly remoteAdapter?: RemoteFolder | undefined;
  readonly adapterRevision?: string | undefined;
  /** Notes on how the names were understood. */
  readonly notes?: readonly string[];
  /** A sentence for each branch or tag that is at another commit now. */
  readonly moved?: readonly string[];
}

/**
 * Finds the folders that a source names, on the disk or in the cache of the hub.
 * @param base folder that relative paths start from; the working folder by default
 * @throws CheckpointError if a folder is not there
 */
export async function locateSource(source: string, base = "."): Promise<SourceLocation> {
  const { folder, adapter } = await locateOrFetch(source, base);
  return adapter === undefined ? { folder } : { folder, adapter };
}

/**
 * Finds the folders that a source names, and fetches them from the hub where access is given.
 * @throws CheckpointError if a folder is not there
 * @throws HubError if the hub refuses or cannot be reached
 */
export async function locateOrFetch(source: string, base = ".", hub?: HubAccess): Promise<RemoteLocation> {
  const whole = await locateFolder(source, base, "model", hub);
  if (whole) return { ...whole, moved: [whole.moved ?? []].flat() };
  // A folder name may contain '+', so every split is tried, the longest folder first.
  for (let plus = source.lastIndexOf("+"); plus > 0; plus = source.lastIndexOf("+", plus - 1)) {
    const found = await locateFolder(source.slice(0, plus), base, "model", hub);
    if (!found) continue;
    const adapter = await locateFolder(source.slice(plus + 1), base, "adapter", hub);
    if (adapter) {
      const { folder, remote: remoteAdapter, revision: adapterRevision } = adapter;
      const notes = [...(found.notes ?? []), ...(adapter.notes ?? [])];
      const moved = [found.moved ?? [], adapter.moved ?? []].flat();
      return { ...found, adapter: folder, remoteAdapter, adapterRevision, notes, moved };
    }
    throw new CheckpointError(
      `${source.slice(plus + 1)} does not exist; give the folder of a LoRA adapter after the '+'`,
      { file: source.slice(plus + 1) },
    );
  }
  const beside = await readdir(dirname(resolve(base, source))).catch(() => []);
  const elsewhere = parseHubName(source)
    ? `, neither as a folder nor in the local cache of the hub; download it with: ${commandLine`inspect ${source} --download`}`
    : "; give the folder of a checkpoint, FOLDER+ADAPTER, or a name on the hub such as org/model";
  const meant = beside.map((name) => join(dirname(source), name));
  const hint = didYouMean(normalize(source), meant) || elsewhere;
  const where = base === "." || isAbsolute(source) ? "" : ` in ${base}, where relative paths start`;
  throw new CheckpointError(`${source} does not exist${where}${hint}`, { file: source });
}

async function locateFolder(
  path: string,
  base: string,
  role: Role,
  hub: HubAccess | undefined,
): Promise<(FoundFolder & { readonly notes?: readonly string[] }) | undefined> {
  if (path === "") return undefined;
  // The shell expands ~ only at the start of an argument: not in a recipe, and not after the '+' of an adapter.
  const folder = /^~(?=[/\\]|$)/.test(path) ? join(homedir(), path.slice(1)) : resolve(base, path);
  if (path.startsWith(HUB_PREFIX)) return findOnHub(path, role, hub);
  if (!(await exists(folder))) {
    const isMeantHere = hub && parseHubName(path) && !(await isCached(path)) && (await beginsHere(path, base));
    if (!isMeantHere) return findOnHub(path, role, hub);
    const message = `${path} does not exist, but its folder ${path.split("/")[0]} does. For the model on the hub, write ${HUB_PREFIX}${path}`;
    throw new CheckpointError(message, { file: path });
  }
  const file = (await isFile(folder)) && folder.endsWith(".safetensors");
  if (file) return { folder: await folderOfFile(path, folder, role) };
  const note = `${path} is read from the folder of that name; write ${HUB_PREFIX}${path} for the model on the hub`;
  return { folder, notes: hub && (await isCached(path)) ? [note] : [] };
}

/** The only weight file of a folder, whatever it is called. */
function onlyWeights(names: readonly string[]): string | undefined {
  const [only, another] = names.filter((name) => name.endsWith(".safetensors"));
  return another === undefined ? only : undefined;
}

/**
 * The folder of a model that is given as its one weight file.
 * @throws CheckpointError if the folder has other weights too, or does not say what the file is
 */
async function folderOfFile(path: string, file: string, role: Role): Promise<string> {
  const folder = dirname(file);
  const config = role === "adapter" ? ADAPTER_CONFIG : "config.json";
  const names = await readdir(folder);
  const has = (name: string) => names.includes(name);
  const single = has(SINGLE_FILE) || has(INDEX_FILE) ? SINGLE_FILE : onlyWeights(names);
  const read = role === "adapter" ? await adapterWeights(has) : single;
  if (has(config) && basename(file) === read) return folder;
  const target = role === "adapter" ? ADAPTER_WEIGHTS : SINGLE_FILE;
  const advice =
    role === "model" && has(ADAPTER_CONFIG) && !has(config)
      ? `is the file of a LoRA adapter. Write BASE+${dirname(path)}, with the folder of its base model in place of BASE.`
      : has(config)
        ? `is not the only weight file of its folder. Give the folder, ${dirname(path)}, or copy this file as ${target} into a folder of its own, with ${config}.`
        : `has no ${config} beside it. Copy it as ${target} into a folder with the ${config} of its model, and give this folder.`;
  throw new CheckpointError(`${path} ${advice}`, { file });
}

// Folder names that training runs write; meaningless without the run's name.
const WITHIN_RUN = /^(last|best|merged|reverted|checkpoint-\d+)$/;

/** Displayed name of a folder: `org/name` for a hub snapshot, `run/last` inside a training run, else its own name. */
export function folderName(folder: string): string {
  const onHub = hubPlace(folder);
  if (onHub) return onHub.name;
  const name = basename(folder).replace(/\.gguf$/i, "");
  return WITHIN_RUN.test(name) ? `${basename(dirname(folder))}/${name}` : name;
}

/** The model on the hub that a folder of the hub's cache holds: `org/name`, or `org/name/subfolder`. */
export function hubPlace(folder: string): { readonly name: string; readonly commit: string } | undefined {
  const parts = /models--([^/\\]+?)--([^/\\]+)[/\\]snapshots[/\\]([0-9a-f]+)([/\\].+)?$/.exec(folder);
  if (!parts) return undefined;
  const [, organization, name, commit = "", inside = ""] = parts;
  return { name: `${organization}/${name}${inside.replaceAll("\\", "/")}`, commit };
}
