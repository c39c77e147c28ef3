// A repository of the hub at one commit: its files, and their content.

import { CancelledError } from "../core/index.js";
import { checkedPath, isCommit, RepositoryCache } from "./cache.js";
import { downloadFiles, type HubFile } from "./download.js";
import { HubError } from "./hub-error.js";
import { explain, hubFetch, isBrokenStream, MAX_RETRIES, StatusError } from "./requests.js";
import type { HubSettings } from "./settings.js";

export interface RepositoryOptions {
  readonly type: "model" | "dataset";
  /** `organisation/name`. */
  readonly name: string;
  /** Branch, tag or commit. Default `main`. */
  readonly revision?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds before the first retry, doubled each time. Default 500. */
  readonly retryDelay?: number | undefined;
}

export type DownloadProgress = (state: { readonly done: number; readonly total: number }) => void;

export interface Repository {
  readonly commit: string;
  /** All files by path, at any depth. */
  readonly files: ReadonlyMap<string, HubFile>;
  /**
   * Downloads what is missing of these files into the cache.
   * @returns their paths on this machine, in order
   */
  download(files: readonly HubFile[], onProgress?: DownloadProgress): Promise<string[]>;
  /** Stores the commit of the branch or tag in the cache, when what is needed of it is there. */
  remember(): Promise<void>;
  /** The bytes of a file from `start` up to, not including, `end`. */
  read(file: HubFile, start: number, end: number): Promise<Uint8Array>;
}

const NAME = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/** Whether a name can be that of a repository on the hub. */
export function isHubName(name: string): boolean {
  return NAME.test(name) && !name.includes("..");
}

/**
 * Asks the hub for the commit and the files of a repository.
 * @throws HubError if it does not exist, may not be read, or the hub cannot be reached; the methods throw the same
 * @throws CancelledError when the signal fires
 */
export async function openRepository(settings: HubSettings, options: RepositoryOptions): Promise<Repository> {
  const { datasetInfo, listFiles, modelInfo } = await import("@huggingface/hub");
  const { endpoint } = settings;
  const { type, name, revision = "main", signal, retryDelay } = options;
  const cache = new RepositoryCache(settings.cache, type, name);
  const what = `${name} (${revision})`;
  const request = { hubUrl: endpoint, fetch: hubFetch(settings, options) };
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted) throw new CancelledError(`stopped while downloading ${name}; what is here is kept`);
      const isCached = (await cache.commitOf(revision)) !== undefined;
      throw explain(error, settings, { what, kind: type === "dataset" ? "data set" : type, isCached });
    }
  };

  checkedPath(revision);
  const commit = await attempt(async () => {
    if (isCommit(revision)) return revision;
    const asked = { ...request, name, revision, additionalFields: ["sha" as const] };
    const { sha } = type === "dataset" ? await datasetInfo(asked) : await modelInfo(asked);
    if (!isCommit(String(sha))) throw new HubError(`the Hub does not name the commit of ${what}`);
    return String(sha);
  });
  const files = await attempt(async () => {
    const listed = new Map<string, HubFile>();
    for await (const entry of listFiles({ ...request, repo: { type, name }, recursive: true, revision: commit })) {
      if (entry.type !== "file") continue;
      const hash = entry.lfs?.oid ?? entry.oid ?? "";
      const size = entry.lfs?.size ?? entry.size;
      if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0) {
        throw new HubError(`the Hub lists ${entry.path} without a usable hash and size`);
      }
      listed.set(checkedPath(entry.path), { path: entry.path, size, hash });
    }
    return listed;
  });

  const root = `${endpoint}/${type === "dataset" ? "datasets/" : ""}${name}/resolve/${commit}`;
  const open = async ({ path, size }: HubFile, start: number, end: number): Promise<AsyncIterable<Uint8Array>> => {
    const isWhole = start === 0 && end === size;
    // Compressed, a range would not be the bytes of the file.
    const headers = { "Accept-Encoding": "identity", ...(isWhole ? {} : { Range: `bytes=${start}-${end - 1}` }) };
    const url = `${root}/${path.split("/").map(encodeURIComponent).join("/")}`;
    const response = await request.fetch(url, { headers });
    if (!response.ok) throw new StatusError(response);
    const range = response.headers.get("content-range");
    if (!isWhole && (response.status !== 206 || range !== `bytes ${start}-${end - 1}/${size}`)) {
      await response.body?.cancel();
      throw new HubError(
        `${path} of ${name}: ${endpoint} was asked for bytes ${start} to ${end - 1} of ${size} and sent ${range ?? "no range"}. Try again, or another HF_ENDPOINT.`,
      );
    }
    return response.body as unknown as AsyncIterable<Uint8Array>;
  };

  return {
    commit,
    files,
    download: (wanted, onProgress) =>
      attempt(async () => {
        const openFrom = (file: HubFile, start: number) => open(file, start, file.size);
        return await downloadFiles(wanted, { cache, commit, openFrom, onProgress, signal, retryDelay });
      }),
    remember: () => cache.remember(revision, commit),
    read: (file, start, end) =>
      attempt(async () => {
        const bytes = new Uint8Array(end - start);
        for (let at = 0, failures = 0; at < bytes.length; ) {
          const before = at;
          try {
            for await (const chunk of await open(file, start + at, end)) {
              if (at + chunk.length > bytes.length)
                throw new HubError(`${file.path} of ${name} is longer than announced`);
              bytes.set(chunk, at);
              at += chunk.length;
            }
          } catch (error) {
            if (!isBrokenStream(error) || failures >= MAX_RETRIES) throw error;
          }
          failures = at > before ? 0 : failures + 1;
          if (failures > MAX_RETRIES) throw new HubError(`${file.path} of ${name} ended early; run again`);
        }
        return bytes;
      }),
  };
}
