// Ranges of bytes of a repository's files, by requests. A broken connection resumes where it ended.

import { createHash, type Hash } from "node:crypto";
import { HubError } from "../../kit/index.js";
import { LEAST_PROGRESS, paceOf } from "./pace.js";
import {
  isBrokenStream,
  isUnreachable,
  MAX_RETRIES,
  pause,
  RETRY_DELAY,
  type RequestOptions,
  SILENT_MS,
  StatusError,
} from "./requests.js";

export interface HubFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 of a large file, git's hash of another: the ETag of the Hub, and the name of the blob in the cache. */
  readonly hash: string;
}

/** The hash of a file, before its bytes. Git's hash of a blob covers a header with its size. */
export function beginHash({ hash, size }: HubFile): Hash {
  return hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${size}\0`);
}

export interface ContentsOptions extends RequestOptions {
  /** Address of the commit's files, without a trailing slash. */
  readonly root: string;
  /** Name of the repository for messages. */
  readonly name: string;
  readonly fetch: typeof fetch;
}

/** The Hub redirects once, and once more where a repository was renamed. */
const MAX_REDIRECTS = 5;

/** A refusal of the storage to which the Hub redirects, such as that of an address that has expired. */
class StorageError extends HubError {}

/** The contents of files at one commit. */
export class Contents {
  readonly #options: ContentsOptions;
  /** Where the storage of a file answered last, by path. Asking the Hub each time would meet its limits. */
  readonly #storage = new Map<string, string>();

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  /**
   * Streams the bytes of a file from `start` up to, not including, `end`.
   * @param signal ends this stream alone
   * @throws HubError if the file is not what the Hub listed, or its connection breaks again and again
   */
  async *stream(file: HubFile, start: number, end: number, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const { name, retryDelay = RETRY_DELAY, timeout = SILENT_MS } = this.#options;
    const ended = AbortSignal.any([this.#options.signal, signal].filter((one) => one !== undefined));
    for (let [at, failures] = [start, 0]; at < end; ) {
      const before = at;
      let reason: unknown;
      try {
        for await (const chunk of chunksOf(await this.#open(file, at, end, ended), timeout)) {
          if (chunk.length > end - at) throw new HubError(`${file.path} of ${name} is longer than announced`);
          at += chunk.length;
          yield chunk;
        }
      } catch (error) {
        if (ended.aborted) throw error;
        // The hub answered when the repository was opened, so the network may come back.
        if (error instanceof StorageError || isUnreachable(error)) reason = error;
        else if (!isBrokenStream(error)) throw error;
      }
      if (at === end) return;
      ended.throwIfAborted();
      // A stream that ends early is a broken connection, too.
      failures = at - before >= LEAST_PROGRESS ? 0 : failures + 1;
      if (failures > MAX_RETRIES) {
        if (reason !== undefined) throw reason;
        throw new HubError(
          `${file.path} of ${name} ended after ${at} of ${file.size} bytes, ${failures} times in a row. Check the connection, then run again.`,
          { file: file.path },
        );
      }
      if (failures > 0) await pause(retryDelay * 2 ** (failures - 1), this.#options, ended);
    }
  }

  /** The bytes of a file from `start` up to, not including, `end`. */
  async read(file: HubFile, start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start);
    let at = 0;
    for await (const chunk of this.stream(file, start, end)) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
    return bytes;
  }

  async #open(file: HubFile, start: number, end: number, signal: AbortSignal): Promise<Response> {
    const { path, size } = file;
    const isWhole = start === 0 && end === size;
    // Compressed, a range would not be the bytes of the file.
    const headers = { "Accept-Encoding": "identity", ...(isWhole ? {} : { Range: `bytes=${start}-${end - 1}` }) };
    const known = this.#storage.get(path);
    const init = { headers, signal };
    const { response, storage } =
      known === undefined
        ? await this.#resolve(file, init)
        : { response: await this.#options.fetch(known, init), storage: known };
    if (!response.ok) {
      const refusal = await StatusError.of(response);
      if (storage === undefined) throw refusal;
      // Asked again, the Hub signs a new address. Another request may have one already.
      if (this.#storage.get(path) === storage) this.#storage.delete(path);
      throw new StorageError(
        `${path} of ${this.#options.name}: its storage ${new URL(storage).host} answers with ${refusal.message}. Run again; a proxy may block it.`,
        { file: path },
        refusal,
      );
    }
    const range = response.headers.get("content-range");
    if (!isWhole && (response.status !== 206 || range !== `bytes ${start}-${end - 1}/${size}`)) {
      await response.body?.cancel();
      throw new HubError(
        `${path} of ${this.#options.name}: the hub was asked for bytes ${start} to ${end - 1} of ${size} and sent ${range ?? "no range"}. Try again, or another HF_ENDPOINT.`,
      );
    }
    return response;
  }

  /** Asks the Hub for a file and follows it to its storage, whose address is kept. */
  async #resolve(file: HubFile, init: RequestInit): Promise<{ response: Response; storage: string | undefined }> {
    const { root, name, fetch } = this.#options;
    let url = `${root}/${file.path.split("/").map(encodeURIComponent).join("/")}`;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await fetch(url, { ...init, redirect: "manual" });
      this.#checkListed(file, response.headers);
      const location = response.headers.get("location");
      if (response.status < 300 || response.status >= 400 || location === null) {
        const storage = new URL(url).origin === new URL(root).origin ? undefined : url;
        if (storage !== undefined) this.#storage.set(file.path, storage);
        return { response, storage };
      }
      await response.body?.cancel();
      const next = URL.canParse(location, url) ? new URL(location, url) : undefined;
      if (next?.protocol !== "https:" && next?.protocol !== "http:") {
        throw new HubError(
          `${file.path} of ${name}: the hub redirects to an address that is not http. Try again, or another HF_ENDPOINT.`,
          { file: file.path },
        );
      }
      url = next.href;
    }
    throw new HubError(`${file.path} of ${name}: the hub redirects more than ${MAX_REDIRECTS} times`);
  }

  /** @throws HubError if a file has another size or hash than in the listing of its commit */
  #checkListed({ path, size, hash }: HubFile, headers: Headers): void {
    const actual = [headers.get("x-linked-size"), headers.get("x-linked-etag")?.replace(/^W\/|"/g, "")];
    const isListed = [String(size), hash].every((expected, i) => (actual[i] ?? expected) === expected);
    if (isListed) return;
    throw new HubError(
      `${path} of ${this.#options.name} is another file than the hub lists for its commit (${actual.join(", ")} in place of ${size}, ${hash}). Try again, or another HF_ENDPOINT.`,
      { file: path },
    );
  }
}

async function* chunksOf({ body }: Response, timeout: number): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader();
  if (!reader) return;
  // A stream that is cancelled ends early, and is resumed.
  const cancel = () => reader.cancel().catch(() => undefined);
  const pace = paceOf(timeout, cancel);
  try {
    for (;;) {
      pace.wait();
      const { done, value } = await reader.read();
      if (done) return;
      pace.came(value.length);
      yield value;
    }
  } finally {
    pace.stop();
    await cancel();
  }
}
