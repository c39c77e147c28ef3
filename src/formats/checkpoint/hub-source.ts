// Sources on the hub: ORG/MODEL[/SUBFOLDER][@REVISION], from the cache or from the hub.

import { createHash } from "node:crypto";
import { mkdir, readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { exists } from "../../kit/files/index.js";
import { HubError, LayergraftError, type Progress } from "../../kit/index.js";
import { RepositoryCache } from "../hub/cache.js";
import type { HubFile } from "../hub/ranges.js";
import { commitOnHub, isHubName, openRepository, type Repository, type RepositoryOptions } from "../hub/repository.js";
import { type HubSettings, hubSettings } from "../hub/settings.js";
import { type RemoteFile, readHeader, type SafetensorsFile } from "../safetensors/reader.js";
import { INDEX_FILE, openShards, type RemoteFolder } from "../safetensors/sharded.js";
import { ADAPTER_CONFIG } from "./adapter-config.js";
import { ADAPTER_WEIGHTS, adapterWeights } from "./adapter-files.js";
import { companionOf, UNKNOWN_BYTES } from "./companion-names.js";

/** Leave to ask the hub for sources that are not on this machine. */
export interface HubAccess {
  /**
   * What to fetch at once. `headers`: configuration and the headers of weight files. `plan`: also tokenizers and other
   * small files. `stream`: also adapters. `files`: also the weight files. All but headers stay in the cache of
   * huggingface_hub. Weights that are not fetched at once are streamed when they are read, and not kept.
   */
  readonly fetch: "headers" | "plan" | "stream" | "files";
  /** Commits to read in place of those that revisions have now, by `pinKey`. */
  readonly pins?: ReadonlyMap<string, string> | undefined;
  /** Called with bytes while weight files are downloaded. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Called with the seconds before a wait that the hub asks for, or before a late retry. */
  readonly onWait?: ((seconds: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds before the first retry, doubled each time. Default 500. */
  readonly retryDelay?: number | undefined;
}

/** Where sources are looked for. */
export interface SourceOptions {
  /** Folder that relative paths start from. Default: the working folder. */
  readonly folder?: string | undefined;
  /** Access to the hub for models that are not on this machine. Default: none. */
  readonly hub?: HubAccess | undefined;
}

/** The folder of a source, and what is missing of it here. */
export interface FoundFolder {
  readonly folder: string;
  readonly remote?: RemoteFolder;
  /** Branch, tag or commit that was asked for, if it was found by its name on the hub. */
  readonly revision?: string;
  /** A sentence if its branch or tag is at another commit now. */
  readonly moved?: string | undefined;
}

/** Key of a revision in `HubAccess.pins`. */
export function pinKey(name: string, revision: string): string {
  const [organisation, model] = name.split("/");
  return `${organisation}/${model}@${revision}`;
}

interface HubName {
  readonly name: string;
  /** Without slashes at its ends; empty for the whole repository. */
  readonly subfolder: string;
  readonly revision: string;
}

export type Role = "model" | "adapter";

/** Before a name, means the hub even if there is a folder of that name. */
export const HUB_PREFIX = "hub:";

/** Parts of a name on the hub; undefined if the text cannot be one. */
export function parseHubName(text: string): HubName | undefined {
  const parts = /^(?:hub:)?([\w.-]+\/[\w.-]+)((?:\/[\w.-]+)*)(?:@([\w.-]+(?:\/[\w.-]+)*))?$/.exec(text);
  if (!parts || text.includes("..") || !isHubName(parts[1] ?? "")) return undefined;
  return { name: parts[1] ?? "", subfolder: (parts[2] ?? "").slice(1), revision: parts[3] ?? "main" };
}

/**
 * The folder of a source with a commit in the cache of huggingface_hub, whether or not it is there.
 * @param source `org/model@COMMIT` or `org/model/subfolder@COMMIT`
 */
export async function cachedFolder(source: string): Promise<string> {
  const parsed = parseHubName(source);
  if (!parsed) throw new HubError(`${JSON.stringify(source)} is not a name on the hub`);
  const settings = await hubSettings();
  const cache = new RepositoryCache(settings.cache, "model", parsed.name);
  return join(cache.folder, "snapshots", parsed.revision, parsed.subfolder);
}

/** Folder of the cache of huggingface_hub. */
export async function hubCache(): Promise<string> {
  return (await hubSettings()).cache;
}

/** Whether the cache has a repository of this name, so that a folder of the same name may not be what is meant. */
export async function isCached(text: string): Promise<boolean> {
  const parsed = parseHubName(text);
  if (!parsed) return false;
  const settings = await hubSettings();
  return exists(new RepositoryCache(settings.cache, "model", parsed.name).folder);
}

/** Weight files of any format; a cached folder without one was fetched for its configuration only. */
const WEIGHTS = /\.(safetensors|bin|pt|pth|ckpt)$/;

/**
 * Finds a source in the cache of huggingface_hub, or on the hub where access is given and the cache lacks its weights.
 * @throws HubError if the hub refuses, cannot be reached, or may not be asked (HF_HUB_OFFLINE)
 */
export async function findOnHub(
  text: string,
  role: Role,
  access: HubAccess | undefined,
): Promise<FoundFolder | undefined> {
  const parsed = parseHubName(text);
  if (!parsed) return undefined;
  const { name, subfolder, revision } = parsed;
  const settings = await hubSettings();
  const cache = new RepositoryCache(settings.cache, "model", name);
  const folderOf = (commit: string) => join(cache.folder, "snapshots", commit, subfolder);
  const pinned = access?.pins?.get(pinKey(name, revision));
  const commit = pinned ?? (await cache.commitOf(revision));
  const cached = commit === undefined ? undefined : folderOf(commit);
  if (cached !== undefined && (await exists(cached))) {
    const isUsable = access
      ? await isComplete(cached, role)
      : (await readdir(cached)).some((file) => WEIGHTS.test(file));
    if (isUsable) return { folder: cached, revision };
  }
  if (!access) return undefined;
  if (settings.offline) {
    throw new HubError(
      `${pinned === undefined ? text : `${name}@${pinned}`} is neither a folder nor complete in the cache ${cache.folder}, and HF_HUB_OFFLINE is set. Unset it once to download the model.`,
      { file: cache.folder },
    );
  }

  const repository = await openRepository(settings, { ...access, type: "model", name, revision: pinned ?? revision });
  const prefix = subfolder === "" ? "" : `${subfolder}/`;
  const files = new Map(
    [...repository.files.values()]
      .filter(({ path }) => path.startsWith(prefix))
      .map((file) => [file.path.slice(prefix.length), file]),
  );
  if (files.size === 0) throw new HubError(`${name} (${revision}) has no folder ${subfolder || "with files"}`);
  const folder = folderOf(repository.commit);
  await mkdir(folder, { recursive: true });
  const fetchFiles = (names: readonly string[], onProgress?: HubAccess["onProgress"]) =>
    repository.download(
      names.flatMap((one) => files.get(one) ?? []),
      onProgress,
    );
  const needed = [...files].filter(([one, { size }]) => {
    if (isConfiguration(one)) return size <= MAX_COMPANION_BYTES;
    return access.fetch !== "headers" && size <= mostBytes(one);
  });
  await fetchFiles(needed.map(([one]) => one));
  // An adapter is small, and each of its factors is read for every piece of a tensor.
  const ofAdapter = [(await adapterWeights((one) => files.has(one))) ?? ADAPTER_WEIGHTS];
  if (role === "adapter" && access.fetch === "stream") await fetchFiles(ofAdapter, access.onProgress);

  const missing = new Set<string>();
  for (const one of files.keys()) if (!(await exists(join(folder, one)))) missing.add(one);
  const remote: RemoteFolder = {
    source: name + subfolder.replace(/^(?=.)/, "/"),
    names: missing,
    open: (one) => openRemote(repository, files.get(one) as HubFile, join(folder, one)),
  };
  if (access.fetch !== "files") {
    const moved = pinned && (await movedFrom(pinned, settings, { ...access, type: "model", name, revision }));
    return { folder, remote, revision, moved };
  }
  const weights =
    role === "adapter"
      ? ofAdapter
      : (await openShards(folder, remote)).map(({ path }) => relative(folder, path).replaceAll("\\", "/"));
  await fetchFiles(weights, access.onProgress);
  if (pinned === undefined) await repository.remember();
  return { folder, revision };
}

/** A sentence if a branch or tag is at another commit now. */
async function movedFrom(
  pinned: string,
  settings: HubSettings,
  options: RepositoryOptions,
): Promise<string | undefined> {
  const { name, revision } = options;
  // The pinned commit is read in any case; the branch may even be gone.
  const now = await commitOnHub(settings, options).catch(() => pinned);
  const short = (commit: string) => commit.slice(0, 10);
  if (now === pinned) return undefined;
  return `${name} (${revision}) has moved from ${short(pinned)} to ${short(now)}; using ${short(pinned)} as before`;
}

/** Whether a folder has configuration and all weight files. */
async function isComplete(folder: string, role: Role): Promise<boolean> {
  const has = (name: string) => exists(join(folder, name));
  if (role === "adapter") return (await has(ADAPTER_CONFIG)) && (await adapterWeights(has)) !== undefined;
  if (!(await has("config.json")) && !(await has("params.json"))) return false;
  try {
    await openShards(folder);
    return true;
  } catch (error) {
    if (error instanceof LayergraftError) return false;
    throw error;
  }
}

function isConfiguration(name: string): boolean {
  return ["config.json", "params.json", INDEX_FILE, ADAPTER_CONFIG].includes(name);
}

/** Larger files beside the weights are data: tokenizers have tens of megabytes at most. */
const MAX_COMPANION_BYTES = 100_000_000;

/** Most bytes of a file beside the weights that is fetched; -1 if none. The model card names terms and languages. */
function mostBytes(path: string): number {
  const kind = companionOf(path) ?? (path === "README.md" ? "terms" : undefined);
  return kind === undefined ? -1 : kind === "unknown" ? UNKNOWN_BYTES : MAX_COMPANION_BYTES;
}

/** The headers of most files are smaller, so one request is enough. */
const FIRST_BYTES = 32_768;

async function openRemote(repository: Repository, file: HubFile, path: string): Promise<SafetensorsFile> {
  const first = await repository.read(file, 0, Math.min(FIRST_BYTES, file.size));
  let start = first;
  const header = await readHeader(path, file.size, async (from, end) => {
    if (end > start.length) start = Buffer.concat([start, await repository.read(file, start.length, end)]);
    return start.slice(from, end);
  });
  const at = header.tensors.reduce((least, { offset }) => Math.min(least, offset), file.size);
  const begun = createHash("sha256").update(start.subarray(0, at));
  let fetched = 0;
  const remote: RemoteFile = {
    sha256: file.hash,
    beginHash: () => ({ hash: begun.copy(), at }),
    get fetched() {
      return fetched;
    },
    stream: async function* (start, end, signal) {
      for await (const chunk of repository.stream(file, start, end, signal)) {
        fetched += chunk.length;
        yield chunk;
      }
    },
  };
  return { path, bytes: file.size, modified: 0, stamp: "", remote, ...header };
}
