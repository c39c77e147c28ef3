// The Hugging Face hub, faked on loopback: repositories from folders, with large files on a second origin, as the hub does
// it. test/reference/check_fake_hub.py compares it with Python's huggingface_hub.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { answerUpload, receiveUpload } from "./fake-hub-uploads.js";

export interface FakeRequest {
  readonly origin: "hub" | "storage";
  readonly method: string;
  readonly path: string;
  /** All headers as JSON. */
  readonly headers: string;
  readonly range: string | undefined;
  /** Bytes of the answer's body. */
  readonly bytes: number;
  /** Bytes of the request's body. */
  readonly sent: number;
}

/** An answer in place of the right one. */
export interface Refusal {
  readonly status: number;
  readonly retryAfter?: string;
  readonly rateLimit?: string;
  /** Path of the request to refuse. Default: the next request's. */
  readonly path?: RegExp;
  /** Text in place of a reason. */
  readonly body?: string;
  /** Reason of the status line, as it is sent. */
  readonly reason?: string;
  /** Value of the Link and the Location header. */
  readonly link?: string;
  /** After what nothing more is sent. */
  readonly silentAfter?: "nothing" | "headers";
}

export interface FakeFile {
  readonly content: Buffer;
  /** Bytes of the file, if it has zeros after its content. */
  readonly size?: number;
  readonly oid: string;
  /** Of files that are stored elsewhere. */
  readonly sha256: string | undefined;
}

export type FakeContent = Pick<FakeFile, "content" | "size">;

export type FakeFiles = ReadonlyMap<string, FakeFile>;

export interface FakeRepository {
  readonly commits: Map<string, FakeFiles>;
  /** Commits of branches and tags. */
  readonly refs: Map<string, string>;
  readonly gated: boolean;
  readonly private: boolean;
}

const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");

/** A file as the hub keeps it: what is not text is stored elsewhere. */
export function fakeFile(path: string, content: Buffer): FakeFile {
  const oid = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
  return { content, oid, sha256: isLarge(path) ? sha256(content) : undefined };
}

/** A large file of this size, of which only the beginning is held: the rest is zeros, which no test reads whole. */
export function hollowFile(begin: Buffer, size: number): FakeFile {
  return { content: begin, size, oid: "0".repeat(40), sha256: sha256(Buffer.concat([begin, Buffer.from(` ${size}`)])) };
}

const sizeOf = ({ content, size = content.length }: FakeContent) => size;

export const isLarge = (path: string) => /\.(safetensors|bin|parquet|gguf|png)$/.test(path);

export class FakeHub {
  /** Requests so far, oldest first. */
  requests: FakeRequest[] = [];
  /** Answers to the next requests to the hub, before any other. */
  refusals: Refusal[] = [];
  /** Bytes after which the connections of the next contents are cut. */
  cuts: number[] = [];
  /** Bytes and milliseconds between two parts of contents, where they come slowly. */
  slow: { readonly bytes: number; readonly ms: number } | undefined;
  /** Path of answers that come byte by byte, and milliseconds between two bytes. */
  trickle: { readonly path: RegExp; readonly ms: number } | undefined;
  /** In the addresses of the storage, which refuses those with an earlier one. */
  signature = "abc";
  /** Bytes after which the connections of the next uploads are cut. */
  uploadCuts: number[] = [];
  /** How the storage holds up uploads. */
  stuck: "never reads" | "never answers" | undefined;
  /** Uploads that came since and are held up. */
  held = 0;
  /** Token of `tester`, a member of `org`, without which gated and private repositories are refused. */
  token = "hf_token_of_the_test";
  /** Token of the same user that may not write. */
  readToken = "hf_token_that_only_reads";
  /** Bytes of a part of an upload in parts; larger files are uploaded so. */
  partBytes = 5_000_000;
  /** Files of a page of a listing. */
  pageFiles = 3;
  endpoint = "";
  storage = "";
  /** By name; those of data sets begin with `datasets/`. */
  readonly repositories = new Map<string, FakeRepository>();
  /** New names of renamed repositories. */
  readonly renamed = new Map<string, string>();
  /** Uploaded contents by SHA-256. */
  readonly objects = new Map<string, Buffer>();
  /** Sizes of those with zeros after their content. */
  readonly #sizes = new Map<string, number>();

  /** Starts both servers, which do not keep the process alive. */
  static async start(): Promise<FakeHub> {
    const hub = new FakeHub();
    hub.endpoint = await listen((request, response) => hub.#answer(request, response));
    const storage = await listen((request, response) => hub.#answerStorage(request, response));
    // Python's huggingface_hub follows redirects within a host when it asks for headers, whatever the port.
    hub.storage = storage.replace("127.0.0.1", "localhost");
    return hub;
  }

  /**
   * Commits the files of a folder to a repository.
   * @returns the commit
   */
  push(
    name: string,
    folder: string,
    options: { revision?: string; gated?: boolean; private?: boolean; at?: string } = {},
  ): string {
    const { revision = "main", gated = false, at = "" } = options;
    const files = new Map(
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry): [string, FakeFile] => {
          const path = join(entry.parentPath, entry.name);
          return [join(at, path.slice(folder.length + 1)), fakeFile(path, readFileSync(path))];
        }),
    );
    this.create(name, { gated, private: options.private ?? false });
    return this.commit(name, revision, files);
  }

  /** Makes a repository without commits, unless there is one. */
  create(name: string, options: Pick<FakeRepository, "gated" | "private">): FakeRepository {
    const repository = this.repositories.get(name) ?? { commits: new Map(), refs: new Map(), ...options };
    this.repositories.set(name, repository);
    return repository;
  }

  /** Sets the files of a branch. */
  commit(name: string, branch: string, files: FakeFiles): string {
    const { commits, refs } = this.repositories.get(name) as FakeRepository;
    const digest = createHash("sha1").update([...files].map(([path, { oid }]) => `${path} ${oid}`).join("\n"));
    const commit = digest.digest("hex");
    for (const { content, size, sha256: hash } of files.values()) {
      if (hash !== undefined) this.objects.set(hash, content);
      if (hash !== undefined && size !== undefined) this.#sizes.set(hash, size);
    }
    commits.set(commit, files);
    refs.set(branch, commit);
    return commit;
  }

  /** The account of a request's token. */
  roleOf(request: IncomingMessage): "write" | "read" | undefined {
    const { authorization } = request.headers;
    if (authorization === `Bearer ${this.token}`) return "write";
    return authorization === `Bearer ${this.readToken}` ? "read" : undefined;
  }

  /** Bytes of all answers. */
  get bytes(): number {
    return this.requests.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  note(origin: FakeRequest["origin"], request: IncomingMessage, bytes: number, sent = 0): void {
    const { headers, url = "", method = "" } = request;
    const path = decodeURIComponent(url);
    this.requests.push({ origin, method, path, headers: JSON.stringify(headers), range: headers.range, bytes, sent });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const url = new URL(request.url ?? "", this.endpoint);
    const path = decodeURIComponent(url.pathname);
    const body = await bodyOf(request);
    const json = (status: number, value: unknown, headers: Record<string, string> = {}): unknown => {
      const text = JSON.stringify(value);
      this.note("hub", request, text.length, body.length);
      if (this.trickle?.path.test(path)) {
        response.writeHead(status, { "content-type": "application/json", ...headers });
        const timer = setInterval(() => response.write(" "), this.trickle.ms);
        return response.on("close", () => clearInterval(timer));
      }
      return response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
    };
    const refused = this.refusals.findIndex((one) => one.path?.test(path) ?? true);
    if (refused >= 0) {
      const [{ status, retryAfter, rateLimit, body: text, link, silentAfter, reason }] = this.refusals.splice(
        refused,
        1,
      ) as [Refusal];
      if (reason !== undefined) {
        // Node.js itself refuses to send such a line.
        const [length, said] = [Buffer.byteLength(text ?? "{}"), text ?? "{}"];
        return response.socket?.end(
          `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-length: ${length}\r\n\r\n${said}`,
        );
      }
      if (text !== undefined || link !== undefined || silentAfter !== undefined) {
        this.note("hub", request, text?.length ?? 0, body.length);
        if (silentAfter === "nothing") return;
        response.writeHead(status, link === undefined ? {} : { link: `<${link}>; rel="next"`, location: link });
        return silentAfter === "headers" ? response.write("[") : response.end(text);
      }
      // An answer that says too much.
      const error = `refused to ${request.headers.authorization}. ${"x".repeat(1000)}`;
      const retry = retryAfter === undefined ? {} : { "retry-after": retryAfter };
      return json(status, { error }, { ...retry, ...(rateLimit === undefined ? {} : { ratelimit: rateLimit }) });
    }
    if (answerUpload(this, request, url, body, json)) return;
    const [, kind, dataset, own, verb, rest = "main"] =
      /^\/(?:api\/(model|dataset)s\/|(datasets)\/)?([^/]+\/[^/]+)(?:\/(revision|tree|resolve)\/(.+))?$/.exec(path) ??
      [];
    const isApi = kind !== undefined;
    const newName = this.renamed.get(own ?? "");
    if (newName) return json(307, {}, { location: `${url.pathname.replace(own ?? "", newName)}${url.search}` });
    const name = kind === "dataset" || dataset ? `datasets/${own}` : (own ?? "");
    const repository = this.repositories.get(name);
    const isKnown = this.roleOf(request) !== undefined;
    // The hub does not say which repositories exist to those who may not read them.
    if (!repository || (repository.private && !isKnown)) {
      const headers = { "x-error-code": "RepoNotFound", "x-error-message": "Repository not found" };
      return json(isKnown ? 404 : 401, { error: "Repository not found" }, headers);
    }
    const { commits, refs } = repository;
    const commitOf = (revision: string) =>
      commits.has(revision) ? revision : refs.get(revision === "HEAD" ? "main" : revision);
    const noRevision = (revision: string) =>
      json(404, { error: `Invalid rev id: ${revision}` }, { "x-error-code": "RevisionNotFound" });
    if (isApi && (verb === undefined || verb === "revision")) {
      const commit = commitOf(rest);
      if (commit === undefined) return noRevision(rest);
      const siblings = [...(commits.get(commit)?.keys() ?? [])].map((rfilename) => ({ rfilename }));
      const { gated, private: isPrivate } = repository;
      const info = { _id: "1", id: own, modelId: own, sha: commit, lastModified: "2025-01-01T00:00:00.000Z", siblings };
      return json(200, {
        ...info,
        private: isPrivate,
        gated: gated ? "manual" : false,
        tags: [],
        downloads: 0,
        likes: 0,
      });
    }
    // A branch may have a slash in its name; its commit has none.
    const revision = [...refs.keys()].find((ref) => rest.startsWith(`${ref}/`)) ?? rest.split("/")[0] ?? "";
    const inside = rest.slice(revision.length + 1);
    const commit = commitOf(refs.has(rest) ? rest : revision);
    const files = commit === undefined ? undefined : commits.get(commit);
    if (commit === undefined || !files) return noRevision(revision);
    if (isApi && verb === "tree") {
      const folders = new Set([...files.keys()].map((path) => dirname(path)).filter((folder) => folder !== "."));
      const listed = [...files].map(([path, file]) => ({
        ...{ type: "file", path, size: sizeOf(file), oid: file.oid },
        ...(file.sha256 ? { lfs: { oid: file.sha256, size: sizeOf(file), pointerSize: 130 } } : {}),
      }));
      const entries = [...[...folders].map((path) => ({ type: "directory", path, size: 0, oid: "0" })), ...listed];
      const from = Number(url.searchParams.get("cursor") ?? 0);
      const next = `<${this.endpoint}${url.pathname}?recursive=true&cursor=${from + this.pageFiles}>; rel="next"`;
      const to = from + this.pageFiles;
      return json(200, entries.slice(from, to), to < entries.length ? { link: next } : {});
    }
    if (repository.gated && !isKnown) {
      return json(401, { error: `Access to model ${name} is restricted.` }, { "x-error-code": "GatedRepo" });
    }
    const file = files.get(inside);
    if (!file)
      return json(404, { error: "Entry not found" }, { "x-error-code": "EntryNotFound", "x-repo-commit": commit });
    response.setHeader("x-repo-commit", commit);
    if (file.sha256 === undefined) return this.#send("hub", request, response, file, file.oid);
    this.note("hub", request, 0);
    response.writeHead(302, {
      location: `${this.storage}/${file.sha256}?signature=${this.signature}`,
      "x-linked-size": String(sizeOf(file)),
      "x-linked-etag": `"${file.sha256}"`,
    });
    return response.end();
  }

  async #answerStorage(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const url = new URL(request.url ?? "", this.storage);
    if (request.method === "PUT") return receiveUpload(this, request, url, response);
    const hash = url.pathname.slice(1);
    const content = this.objects.get(hash);
    if (!content) return response.writeHead(404).end();
    if (url.searchParams.get("signature") !== this.signature) return response.writeHead(403).end();
    const file = { content, size: this.#sizes.get(hash) ?? content.length };
    return this.#send("storage", request, response, file, "an-etag-of-the-storage");
  }

  #send(
    origin: FakeRequest["origin"],
    request: IncomingMessage,
    response: ServerResponse,
    file: FakeContent,
    etag: string,
  ): unknown {
    const [{ content }, size] = [file, sizeOf(file)];
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
    const last = to ? Math.min(Number(to), size - 1) : size - 1;
    const stored = content.subarray(Number(from ?? 0), last + 1);
    const zeros = last + 1 - Number(from ?? 0) - stored.length;
    const part = zeros > 0 ? Buffer.concat([stored, Buffer.alloc(zeros)]) : stored;
    const range = from === undefined ? {} : { "content-range": `bytes ${from}-${last}/${size}` };
    response.writeHead(from === undefined ? 200 : 206, {
      ...{ etag: `"${etag}"`, "accept-ranges": "bytes", "content-length": part.length },
      ...range,
    });
    if (request.method === "HEAD") {
      this.note(origin, request, 0);
      return response.end();
    }
    const cut = this.cuts.shift();
    this.note(origin, request, Math.min(cut ?? part.length, part.length));
    if (cut === undefined || cut >= part.length) return this.#pour(response, part);
    // Late enough that the other side has read what came: an error discards what it has not.
    return response.write(part.subarray(0, cut), () => setTimeout(() => response.destroy(), 50));
  }

  #pour(response: ServerResponse, part: Buffer): unknown {
    const { slow } = this;
    if (!slow || part.length <= slow.bytes) return response.end(part);
    response.write(part.subarray(0, slow.bytes));
    return setTimeout(() => this.#pour(response, part.subarray(slow.bytes)), slow.ms);
  }
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function listen(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<unknown>,
): Promise<string> {
  const server: Server = createServer((request, response) => {
    // A connection that was cut ends its answer.
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
