// The Hugging Face hub, faked on loopback: models from folders, with large files on a second origin, as the hub does it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll } from "vitest";

export interface FakeRequest {
  readonly origin: "hub" | "storage";
  readonly path: string;
  /** All headers as JSON. */
  readonly headers: string;
  readonly range: string | undefined;
  /** Bytes of the answer's body. */
  readonly bytes: number;
}

/** An answer in place of the right one. */
export interface Refusal {
  readonly status: number;
  readonly retryAfter?: string;
}

interface FakeFile {
  readonly content: Buffer;
  readonly oid: string;
  /** Of files that are stored elsewhere. */
  readonly sha256: string | undefined;
}

/** Files of a page of a listing. */
const PAGE = 3;

const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");

export class FakeHub {
  /** Requests so far, oldest first. */
  requests: FakeRequest[] = [];
  /** Answers to the next requests to the hub, before any other. */
  refusals: Refusal[] = [];
  /** Bytes after which the connections of the next contents are cut. */
  cuts: number[] = [];
  /** Token without which gated models are refused. */
  token = "hf_token_of_the_test";
  endpoint = "";
  readonly #models = new Map<string, { commits: Map<string, Map<string, FakeFile>>; gated: boolean }>();
  readonly #refs = new Map<string, string>();
  #storage = "";

  /** Starts both servers, which stop with the test file. */
  static async start(): Promise<FakeHub> {
    const hub = new FakeHub();
    hub.endpoint = await listen((request, response) => hub.#answer(request, response));
    hub.#storage = await listen((request, response) => hub.#answerStorage(request, response));
    return hub;
  }

  /**
   * Commits the files of a folder to a model.
   * @returns the commit
   */
  push(name: string, folder: string, options: { revision?: string; gated?: boolean; at?: string } = {}): string {
    const { revision = "main", gated = false, at = "" } = options;
    const model = this.#models.get(name) ?? { commits: new Map(), gated };
    const files = new Map(
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry): [string, FakeFile] => {
          const path = join(entry.parentPath, entry.name);
          const content = readFileSync(path);
          const oid = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
          const isLarge = /\.(safetensors|bin)$/.test(path);
          return [
            join(at, path.slice(folder.length + 1)),
            { content, oid, sha256: isLarge ? sha256(content) : undefined },
          ];
        }),
    );
    const digest = createHash("sha1").update([...files].map(([path, { oid }]) => `${path} ${oid}`).join("\n"));
    const commit = digest.digest("hex");
    model.commits.set(commit, files);
    this.#models.set(name, model);
    this.#refs.set(`${name}@${revision}`, commit);
    return commit;
  }

  /** Bytes of all answers. */
  get bytes(): number {
    return this.requests.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #note(origin: FakeRequest["origin"], request: IncomingMessage, bytes: number): void {
    const { headers, url = "" } = request;
    const path = decodeURIComponent(url);
    this.requests.push({ origin, path, headers: JSON.stringify(headers), range: headers.range, bytes });
  }

  #answer(request: IncomingMessage, response: ServerResponse): unknown {
    const url = new URL(request.url ?? "", this.endpoint);
    const json = (status: number, value: unknown, headers: Record<string, string> = {}): unknown => {
      const text = JSON.stringify(value);
      this.#note("hub", request, text.length);
      return response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
    };
    const refusal = this.refusals.shift();
    if (refusal) {
      const { status, retryAfter } = refusal;
      return json(status, { error: "refused" }, retryAfter === undefined ? {} : { "retry-after": retryAfter });
    }
    const path = decodeURIComponent(url.pathname);
    const [, api, name = "", verb, rest = ""] =
      /^\/(api\/models\/)?([^/]+\/[^/]+)\/(revision|tree|resolve)\/(.+)$/.exec(path) ?? [];
    const model = this.#models.get(name);
    const isAllowed = !model?.gated || request.headers.authorization === `Bearer ${this.token}`;
    // The hub does not say which models exist to those who may not read them.
    if (!model || !isAllowed) return json(model ? 403 : 401, { error: "Repository not found" });
    if (api !== undefined && verb === "revision") {
      const commit = model.commits.has(rest) ? rest : this.#refs.get(`${name}@${rest}`);
      return commit === undefined
        ? json(404, { error: `Invalid rev id: ${rest}` }, { "x-error-code": "RevisionNotFound" })
        : json(200, { _id: "1", id: name, sha: commit, lastModified: "2025-01-01T00:00:00.000Z", siblings: [] });
    }
    const [commit = "", ...parts] = rest.split("/");
    const files = model.commits.get(commit);
    if (!files) return json(404, { error: "Revision not found" }, { "x-error-code": "RevisionNotFound" });
    if (api !== undefined && verb === "tree") {
      const entries = [...files].map(([path, { content, oid, sha256: hash }]) => ({
        ...{ type: "file", path, size: content.length, oid },
        ...(hash ? { lfs: { oid: hash, size: content.length, pointerSize: 130 } } : {}),
      }));
      const from = Number(url.searchParams.get("cursor") ?? 0);
      const next = `<${this.endpoint}${url.pathname}?recursive=true&cursor=${from + PAGE}>; rel="next"`;
      return json(200, entries.slice(from, from + PAGE), from + PAGE < entries.length ? { link: next } : {});
    }
    const file = files.get(parts.join("/"));
    if (!file) return json(404, { error: "Entry not found" }, { "x-error-code": "EntryNotFound" });
    if (file.sha256 === undefined) return this.#send("hub", request, response, file, file.oid);
    this.#note("hub", request, 0);
    response.writeHead(302, {
      location: `${this.#storage}/${name}/${commit}/${parts.join("/")}?signature=abc`,
      "x-linked-size": String(file.content.length),
      "x-linked-etag": `"${file.sha256}"`,
      "x-repo-commit": commit,
    });
    return response.end();
  }

  #answerStorage(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "", this.#storage);
    const [, name = "", commit = "", path = ""] = /^\/([^/]+\/[^/]+)\/(\w+)\/(.+)$/.exec(url.pathname) ?? [];
    const file = this.#models.get(name)?.commits.get(commit)?.get(path);
    if (file) this.#send("storage", request, response, file, "an-etag-of-the-storage");
    else response.writeHead(404).end();
  }

  #send(
    origin: FakeRequest["origin"],
    request: IncomingMessage,
    response: ServerResponse,
    { content }: FakeFile,
    etag: string,
  ): unknown {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
    const last = to ? Math.min(Number(to), content.length - 1) : content.length - 1;
    const part = content.subarray(Number(from ?? 0), last + 1);
    const range = from === undefined ? {} : { "content-range": `bytes ${from}-${last}/${content.length}` };
    response.writeHead(from === undefined ? 200 : 206, {
      ...{ etag: `"${etag}"`, "accept-ranges": "bytes", "content-length": part.length },
      ...range,
    });
    const cut = this.cuts.shift();
    this.#note(origin, request, Math.min(cut ?? part.length, part.length));
    if (cut === undefined || cut >= part.length) return response.end(part);
    // Late enough that the other side has read what came: an error discards what it has not.
    return response.write(part.subarray(0, cut), () => setTimeout(() => response.destroy(), 50));
  }
}

async function listen(answer: (request: IncomingMessage, response: ServerResponse) => unknown): Promise<string> {
  const server: Server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
