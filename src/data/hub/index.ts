// Data sets of the Hugging Face Hub by name: their files, downloaded into the cache.

import { createReadStream } from "node:fs";
import { text } from "node:stream/consumers";
import { CancelledError, LayergraftError, redactor } from "../../core/index.js";
import { DataError } from "../read/data-error.js";
import { type Choice, chooseFiles, missingShards } from "./choose.js";
import { downloadFiles, type HubFile } from "./download.js";
import { checkedPath, DatasetCache, isCommit } from "./hub-cache.js";
import { type Environment, type HubSettings, hubSettings } from "./hub-settings.js";

export type { Environment } from "./hub-settings.js";

export interface HubDatasetOptions extends Choice {
  /** `organisation/name`. */
  readonly name: string;
  /** Branch, tag or commit. Default `main`. */
  readonly revision?: string | undefined;
  /** Called with bytes while files are downloaded. */
  readonly onProgress?: ((state: { readonly done: number; readonly total: number }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Default: that of the process. */
  readonly environment?: Environment | undefined;
  /** Milliseconds before the first retry of a broken connection, doubled each time. Default 500. */
  readonly retryDelay?: number | undefined;
}

export interface HubDataset {
  /** The commit of the revision. */
  readonly commit: string;
  /** Files on this machine, sorted by their path in the data set. */
  readonly files: readonly string[];
}

const NAME = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/** Whether a name can be that of a data set on the Hub. */
export function isHubName(name: string): boolean {
  return NAME.test(name) && !name.includes("..");
}

/** The configurations are in the head of a card. */
const MAX_CARD_BYTES = 4_000_000;

/**
 * Finds a data set and downloads what is missing of it, into the cache that huggingface_hub uses. Obeys HF_ENDPOINT,
 * HF_TOKEN, HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME.
 *
 * The configurations and splits of the card decide which files are read, else the names of the files. The default
 * configuration and the split `train` are read where none is named.
 * @throws DataError if there is no such data set, configuration or split, it may not be read, the Hub cannot be
 *   reached, or files are missing offline
 * @throws CancelledError when the signal fires; what was downloaded is kept
 */
export async function hubDataset(options: HubDatasetOptions): Promise<HubDataset> {
  const { name, revision = "main", signal } = options;
  if (!isHubName(name))
    throw new DataError(`${JSON.stringify(name)} is not the name of a data set (organisation/name)`);
  const settings = await hubSettings(options.environment);
  const cache = new DatasetCache(settings.cache, name);
  checkedPath(revision);
  if (settings.offline) return await findInCache(cache, revision, options);
  try {
    return await download(settings, cache, revision, options);
  } catch (error) {
    if (error instanceof LayergraftError) throw error;
    if (signal?.aborted) throw new CancelledError(`stopped while downloading ${name}; what is here is kept`);
    const isCached = (await cache.commitOf(revision)) !== undefined;
    throw hubError(error, settings, `${name} (${revision})`, isCached);
  }
}

async function findInCache(cache: DatasetCache, revision: string, options: HubDatasetOptions): Promise<HubDataset> {
  const { name } = options;
  const commit = await cache.commitOf(revision);
  const paths = commit === undefined ? [] : await cache.paths(commit);
  const offline = "and HF_HUB_OFFLINE is set. Unset it once to download";
  if (commit === undefined || paths.length === 0) {
    throw new DataError(`${name} (${revision}) is not in the cache ${cache.folder}, ${offline} it`, {
      file: cache.folder,
    });
  }
  const card = paths.includes("README.md") ? await readCard(cache.snapshot(commit, "README.md")) : undefined;
  const chosen = chooseFiles(name, paths, card, options);
  const [missing] = missingShards(chosen);
  if (missing !== undefined) {
    throw new DataError(`${name}: only ${missing} are in the cache, ${offline} the others`, { file: cache.folder });
  }
  return { commit, files: chosen.map((path) => cache.snapshot(commit, path)) };
}

function readCard(file: string): Promise<string> {
  return text(createReadStream(file, { end: MAX_CARD_BYTES - 1 }));
}

async function download(
  { endpoint, token }: HubSettings,
  cache: DatasetCache,
  revision: string,
  options: HubDatasetOptions,
): Promise<HubDataset> {
  const { datasetInfo, downloadFile, listFiles } = await import("@huggingface/hub");
  const { name, signal, retryDelay, onProgress } = options;
  const repo = { type: "dataset", name } as const;
  const request = {
    hubUrl: endpoint,
    // Only the Hub gets the token, not the hosts that it redirects to: fetch drops the header there.
    fetch: (async (input, init) => {
      const headers = new Headers(init?.headers);
      const url = new URL(input instanceof Request ? input.url : input);
      if (token !== undefined && url.origin === new URL(endpoint).origin)
        headers.set("Authorization", `Bearer ${token}`);
      return await fetch(input, { ...init, headers, ...(signal ? { signal } : {}) });
    }) satisfies typeof fetch,
  };
  const commit = isCommit(revision)
    ? revision
    : (await datasetInfo({ ...request, name, revision, additionalFields: ["sha"] })).sha;
  if (!isCommit(String(commit))) throw new DataError(`the Hub does not name the commit of ${name} (${revision})`);

  const listed = new Map<string, HubFile>();
  for await (const entry of listFiles({ ...request, repo, recursive: true, revision: commit })) {
    if (entry.type !== "file") continue;
    const hash = entry.lfs?.oid ?? entry.oid ?? "";
    const size = entry.lfs?.size ?? entry.size;
    if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0) {
      throw new DataError(`the Hub lists ${entry.path} without a usable hash and size`);
    }
    listed.set(checkedPath(entry.path), { path: entry.path, size, hash });
  }

  const openFrom = async (path: string, start: number): Promise<AsyncIterable<Uint8Array>> => {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    // Over plain HTTP, a download can resume at any byte.
    const content = await downloadFile({ ...request, repo, path: encoded, revision: commit, xet: false });
    if (!content) throw new DataError(`the Hub lists ${path} of ${name}, but does not have it`);
    return content.slice(start, content.size).stream() as AsyncIterable<Uint8Array>;
  };
  const fetchFiles = (files: readonly HubFile[], progress?: HubDatasetOptions["onProgress"]) =>
    downloadFiles(files, { cache, commit, openFrom, onProgress: progress, signal, retryDelay });
  const cardFile = listed.get("README.md");
  const card = cardFile ? await readCard((await fetchFiles([cardFile]))[0] ?? "") : undefined;
  const chosen = chooseFiles(name, [...listed.keys()], card, options);
  const files = await fetchFiles(
    chosen.flatMap((path) => listed.get(path) ?? []),
    onProgress,
  );
  await cache.remember(revision, commit);
  return { commit, files };
}

/** Longest text of a server that is shown, in characters. */
const MAX_REASON = 300;

/** An error of the Hub or of the network, with what to do about it. */
function hubError(error: unknown, { endpoint, token }: HubSettings, what: string, isCached: boolean): unknown {
  const status = error instanceof Error && "statusCode" in error ? Number(error.statusCode) : undefined;
  if (status === 401 || status === 403) {
    const advice = token === undefined ? "Set HF_TOKEN" : "HF_TOKEN is not enough; set it";
    return new DataError(
      `${what} cannot be read: it does not exist, is private, or its terms are not accepted yet. ${advice} to a token of an account with access.`,
      {},
      error,
    );
  }
  if (status === 404) {
    return new DataError(`${what} is not a data set on the Hub, nor a file or folder here`, {}, error);
  }
  // fetch throws a TypeError with a cause; a broken stream of @huggingface/hub throws a text.
  const isNetwork =
    typeof error === "string" || (error instanceof TypeError && /fetch failed|terminated|network/i.test(error.message));
  if (status === undefined && !isNetwork) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  const reason = redactor([token])(`${error instanceof Error ? error.message : error}${cause}`).slice(0, MAX_REASON);
  const advice = isCached ? "; HF_HUB_OFFLINE=1 uses what is in the cache" : "";
  return new DataError(`${what} could not be downloaded from ${endpoint}: ${reason}${advice}`, {}, error);
}
