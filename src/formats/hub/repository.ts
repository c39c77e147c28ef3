// A repository of the hub at one commit: its files, and their content.

import { CancelledError, HubError, type Progress } from "../../kit/index.js";
import { checkedPath, isCommit, RepositoryCache } from "./cache.js";
import { downloadFiles } from "./download.js";
import { listRepository } from "./listing.js";
import { Contents, type HubFile } from "./ranges.js";
import { EXPLAINED, explain, hubFetch, type RequestOptions, StatusError } from "./requests.js";
import type { HubSettings } from "./settings.js";

export interface RepositoryOptions extends RequestOptions {
  readonly type: "model" | "dataset";
  /** `organisation/name`. */
  readonly name: string;
  /** Branch, tag or commit. Default `main`. */
  readonly revision?: string | undefined;
}

export interface Repository {
  readonly commit: string;
  /** All files by path, at any depth. */
  readonly files: ReadonlyMap<string, HubFile>;
  /**
   * Downloads what is missing of these files into the cache.
   * @returns their paths on this machine, in order
   */
  download(files: readonly HubFile[], onProgress?: (progress: Progress) => void): Promise<string[]>;
  /** Stores the commit of the branch or tag in the cache, when what is needed of it is there. */
  remember(): Promise<void>;
  /** The bytes of a file from `start` up to, not including, `end`. */
  read(file: HubFile, start: number, end: number): Promise<Uint8Array>;
  /** Streams the same bytes. `signal` ends this stream alone. */
  stream(file: HubFile, start: number, end: number, signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

const NAME = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/** Whether a name can be that of a repository on the hub. */
export function isHubName(name: string): boolean {
  return NAME.test(name) && !name.includes("..");
}

/** Requests about a repository, whose errors name it and say what to do. */
function requestsOf(settings: HubSettings, options: RepositoryOptions) {
  const { type, name, revision = "main", signal } = options;
  const cache = new RepositoryCache(settings.cache, type, name);
  const request = hubFetch(settings, options);
  const fetchOk: typeof fetch = async (input, init) => {
    const response = await request(input, init);
    // Errors of @huggingface/hub have the server's text, but not its headers.
    if (EXPLAINED.includes(response.status)) throw await StatusError.of(response);
    return response;
  };
  const explained = async (error: unknown) => {
    if (signal?.aborted) return new CancelledError(`stopped while downloading ${name}; what is here is kept`);
    const isCached = (await cache.commitOf(revision)) !== undefined;
    const kind = type === "dataset" ? "data set" : type;
    return explain(error, settings, { name, revision, kind, isCached });
  };
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw await explained(error);
    }
  };
  return { cache, request, fetchOk, attempt, explained };
}

/**
 * Asks the hub for the commit of a branch, tag or commit.
 * @throws as `openRepository`
 */
export async function commitOnHub(settings: HubSettings, options: RepositoryOptions): Promise<string> {
  const { datasetInfo, modelInfo } = await import("@huggingface/hub");
  const { type, name, revision = "main" } = options;
  checkedPath(revision);
  if (isCommit(revision)) return revision;
  const { attempt, fetchOk } = requestsOf(settings, options);
  return attempt(async () => {
    const asked = { hubUrl: settings.endpoint, fetch: fetchOk, name, revision, additionalFields: ["sha" as const] };
    const { sha } = type === "dataset" ? await datasetInfo(asked) : await modelInfo(asked);
    if (!isCommit(String(sha))) throw new HubError(`the Hub does not name the commit of ${name} (${revision})`);
    return String(sha);
  });
}

/**
 * Asks the hub for the commit and the files of a repository.
 * @throws HubError if it does not exist, may not be read, or the hub cannot be reached; the methods throw the same
 * @throws CancelledError when the signal fires
 */
export async function openRepository(settings: HubSettings, options: RepositoryOptions): Promise<Repository> {
  const { endpoint } = settings;
  const { type, name, revision = "main", signal } = options;
  const { cache, request, fetchOk, attempt, explained } = requestsOf(settings, options);
  const commit = await commitOnHub(settings, options);
  const files = await attempt(async () => {
    const listed = await listRepository({ hubUrl: endpoint, fetch: fetchOk, repo: { type, name }, revision: commit });
    for (const { path, size, hash } of listed.values()) {
      if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0) {
        throw new HubError(`the Hub lists ${path} without a usable hash and size`);
      }
      checkedPath(path);
    }
    return listed;
  });

  const root = `${endpoint}/${type === "dataset" ? "datasets/" : ""}${name}/resolve/${commit}`;
  const contents = new Contents({ ...options, root, fetch: request });
  return {
    commit,
    files,
    download: (wanted, onProgress) =>
      attempt(async () => {
        const openFrom = (file: HubFile, start: number) => contents.stream(file, start, file.size);
        return await downloadFiles(wanted, { cache, commit, openFrom, onProgress, signal });
      }),
    remember: () => cache.remember(revision, commit),
    read: (file, start, end) => attempt(() => contents.read(file, start, end)),
    stream: async function* (file, start, end, ended) {
      try {
        yield* contents.stream(file, start, end, ended);
      } catch (error) {
        throw await explained(error);
      }
    },
  };
}
