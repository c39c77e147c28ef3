// Data sets of the Hugging Face hub by name: which files a configuration and split are, and where in the cache they lie
// once they are fetched. Requests are made by @huggingface/hub; what is kept, and when it is right, is decided here.

import { open, readFile } from "node:fs/promises";
import { CancelledError, redactor } from "../../core/index.js";
import { DataError } from "../read/data-error.js";
import { type Choice, chooseFiles, missingShards } from "./choose.js";
import { downloadFiles, type HubFile } from "./download.js";
import { checkedPath, DatasetCache, isCommit, sizeOf } from "./hub-cache.js";
import { type Environment, type HubSettings, hubSettings } from "./hub-settings.js";

export { type Environment, type HubSettings, hubSettings } from "./hub-settings.js";

export interface HubDatasetOptions extends Choice {
  /** `organisation/name`. */
  readonly name: string;
  /** Branch, tag or commit. Default `main`. */
  readonly revision?: string | undefined;
  /** Called with bytes while files are fetched. */
  readonly onProgress?: ((state: { readonly done: number; readonly total: number }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Default: the process's. */
  readonly environment?: Environment | undefined;
  /** Milliseconds before a broken connection is tried again. Default 500, doubled each time. */
  readonly retryDelay?: number | undefined;
}

export interface HubDataset {
  /** The commit that the revision meant. */
  readonly commit: string;
  /** Files on this machine, sorted by their path in the data set. */
  readonly files: readonly string[];
}

const NAME = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/** Whether a text can be the name of a data set of the hub. */
export function isHubName(text: string): boolean {
  return NAME.test(text) && !text.includes("..");
}

/** A card is at most this long; past it the rest is not looked at. */
const MAX_CARD_BYTES = 4_000_000;

/**
 * Finds a data set and fetches what is missing of it, into the cache that huggingface_hub uses. Obeys HF_ENDPOINT,
 * HF_TOKEN, HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME.
 *
 * The card's configurations and splits decide, else the names of the files; the default configuration and the split
 * `train` where none is named.
 * @throws {DataError} if there is no such data set, configuration or split, it may not be read, the hub cannot be
 *   reached, or offline something is missing
 * @throws {CancelledError} when the signal fires; what was fetched is kept
 */
export async function hubDataset(options: HubDatasetOptions): Promise<HubDataset> {
  const { name, revision = "main" } = options;
  if (!isHubName(name))
    throw new DataError(`${JSON.stringify(name)} is not the name of a data set (organisation/name)`);
  const settings = await hubSettings(options.environment);
  const cache = new DatasetCache(settings.cache, name);
  checkedPath(revision);
  return settings.offline
    ? await fromCache(cache, revision, options)
    : await new HubDatasetFetcher(settings, cache, revision, options).fetch();
}

async function fromCache(cache: DatasetCache, revision: string, options: HubDatasetOptions): Promise<HubDataset> {
  const { name } = options;
  const commit = await cache.commitOf(revision);
  const paths = commit === undefined ? [] : await cache.paths(commit);
  if (commit === undefined || paths.length === 0) {
    throw new DataError(
      `${name} (${revision}) is not in the cache ${cache.folder}, and HF_HUB_OFFLINE forbids to fetch it; unset that once`,
      { file: cache.folder },
    );
  }
  const card = paths.includes("README.md") ? await readCard(cache.snapshot(commit, "README.md")) : undefined;
  const chosen = chooseFiles(name, paths, card, options);
  const [missing] = missingShards(chosen);
  if (missing !== undefined) {
    throw new DataError(`${name}: only ${missing} are in the cache, and HF_HUB_OFFLINE forbids to fetch the others`, {
      file: cache.folder,
    });
  }
  return { commit, files: chosen.map((path) => cache.snapshot(commit, path)) };
}

async function readCard(file: string): Promise<string> {
  if (((await sizeOf(file)) ?? 0) <= MAX_CARD_BYTES) return await readFile(file, "utf8");
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_CARD_BYTES), 0, MAX_CARD_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

class HubDatasetFetcher {
  readonly #settings: HubSettings;
  readonly #cache: DatasetCache;
  readonly #revision: string;
  readonly #options: HubDatasetOptions;

  constructor(settings: HubSettings, cache: DatasetCache, revision: string, options: HubDatasetOptions) {
    this.#settings = settings;
    this.#cache = cache;
    this.#revision = revision;
    this.#options = options;
  }

  async fetch(): Promise<HubDataset> {
    const { name } = this.#options;
    const commit = await this.#asking(() => this.#commit());
    const listed = await this.#asking(() => this.#list(commit));
    const cardFile = listed.get("README.md");
    const card = cardFile ? await readCard((await this.#download(commit, [cardFile]))[0] ?? "") : undefined;
    const chosen = chooseFiles(name, [...listed.keys()], card, this.#options);
    const files = await this.#download(
      commit,
      chosen.flatMap((path) => listed.get(path) ?? []),
      this.#options.onProgress,
    );
    await this.#cache.remember(this.#revision, commit);
    return { commit, files };
  }

  async #commit(): Promise<string> {
    if (isCommit(this.#revision)) return this.#revision;
    const { datasetInfo } = await import("@huggingface/hub");
    const { name } = this.#options;
    const { sha } = await datasetInfo({ ...this.#request, name, revision: this.#revision, additionalFields: ["sha"] });
    if (typeof sha === "string" && isCommit(sha)) return sha;
    throw new DataError(`the hub does not say which commit ${name} (${this.#revision}) is`);
  }

  async #list(commit: string): Promise<Map<string, HubFile>> {
    const { listFiles } = await import("@huggingface/hub");
    const found = new Map<string, HubFile>();
    const repo = { type: "dataset", name: this.#options.name } as const;
    for await (const entry of listFiles({ ...this.#request, repo, recursive: true, revision: commit })) {
      if (entry.type !== "file") continue;
      const hash = entry.lfs?.oid ?? entry.oid ?? "";
      const size = entry.lfs?.size ?? entry.size;
      if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0) {
        throw new DataError(`the hub lists ${entry.path} without a usable hash and size`);
      }
      found.set(checkedPath(entry.path), { path: entry.path, size, hash });
    }
    return found;
  }

  async #download(
    commit: string,
    files: readonly HubFile[],
    onProgress?: HubDatasetOptions["onProgress"],
  ): Promise<string[]> {
    const { downloadFile } = await import("@huggingface/hub");
    const { name, signal, retryDelay } = this.#options;
    const openFrom = async (path: string, start: number): Promise<AsyncIterable<Uint8Array>> => {
      const encoded = path.split("/").map(encodeURIComponent).join("/");
      const repo = { type: "dataset", name } as const;
      // Plain HTTP, of which any byte can be asked for: an interrupted download goes on where it stopped.
      const content = await downloadFile({ ...this.#request, repo, path: encoded, revision: commit, xet: false });
      if (!content) throw new DataError(`the hub lists ${path} of ${name}, and does not have it`);
      return content.slice(start, content.size).stream() as AsyncIterable<Uint8Array>;
    };
    const options = { cache: this.#cache, commit, openFrom, onProgress, signal, retryDelay };
    return await this.#asking(() => downloadFiles(files, options));
  }

  /** What every request has: where to, and in whose name. */
  get #request() {
    const { endpoint, token } = this.#settings;
    const { signal } = this.#options;
    // The token goes to the hub alone, not to where it redirects; fetch drops it there.
    const request: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      const url = new URL(input instanceof Request ? input.url : input);
      if (token !== undefined && url.origin === new URL(endpoint).origin)
        headers.set("Authorization", `Bearer ${token}`);
      return fetch(input, { ...init, headers, ...(signal ? { signal } : {}) });
    };
    return { hubUrl: endpoint, fetch: request };
  }

  /** Makes errors of the hub and of the network say what to do. */
  async #asking<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const { name, signal } = this.#options;
      if (error instanceof CancelledError) throw error;
      if (signal?.aborted) throw new CancelledError(`stopped while fetching ${name}; what is here is kept`);
      const status = error instanceof Error && "statusCode" in error ? Number(error.statusCode) : undefined;
      if (status === 401 || status === 403) {
        throw new DataError(
          `${name} may not be read: it does not exist, is private, or its terms must be accepted on its page first; ` +
            `then set HF_TOKEN to a token of your account${this.#settings.token === undefined ? "" : " (the one that is set is not enough)"}`,
          {},
          error,
        );
      }
      if (status === 404) {
        throw new DataError(
          `there is no data set ${name} with a revision ${this.#revision} on the hub, nor a file or folder of that name here`,
          {},
          error,
        );
      }
      if (status !== undefined || isNetworkError(error)) {
        const cached = (await this.#cache.commitOf(this.#revision)) !== undefined;
        const { endpoint, token } = this.#settings;
        const reason = redactor([token])(reasonOf(error)).slice(0, MOST_REASON);
        throw new DataError(
          `${name} could not be fetched from ${endpoint}: ${reason}${cached ? "; HF_HUB_OFFLINE=1 uses what is in the cache" : ""}`,
          {},
          error,
        );
      }
      throw error;
    }
  }
}

/** Characters of what the hub says of an error. */
const MOST_REASON = 300;

/** fetch() throws a TypeError with the cause within; a broken stream of @huggingface/hub ends with a text. */
function isNetworkError(error: unknown): boolean {
  return (
    typeof error === "string" || (error instanceof TypeError && /fetch failed|terminated|network/i.test(error.message))
  );
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return `${error.message}${cause}`;
}
