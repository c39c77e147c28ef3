// The studio's server: the page, operations as POST /api/NAME, and events as one stream. Only this machine reaches it, and
// only requests with the project's token are answered.
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo, Socket } from "node:net";
import { dirname, extname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { isAnySystemError, isSystemError, LayergraftError, systemMessage, usageError } from "../../kit/index.js";
import { checkKey, checkOrigin, pathOf, readBody } from "../../serve/index.js";
import { Jobs } from "../jobs/jobs.js";
import { ProjectFolder } from "../project/project.js";
import { type OperationName, operations, type StudioEvent } from "../protocol/index.js";
import { Asker, AskerPool } from "./asker.js";
import { CHANGING, type Context, HANDLERS } from "./operations.js";
import { REPORTS, Reports } from "./reports.js";

const HOST = "127.0.0.1";
const MAX_BODY = 4_000_000;
/** Of files that are dropped onto the page. */
const MAX_FILES = 100_000_000;
/** Bytes of events that a page may leave unread. */
const MAX_UNREAD = 16_000_000;
/** Threads that read models. */
const READERS = 2;
/** Milliseconds between comments that keep a stream of events open. */
const HEARTBEAT = 15_000;

export interface StudioOptions {
  /** Folder of the project; made if there is none. */
  readonly folder: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Called with errors that are bugs. */
  readonly onBug: (error: unknown) => void;
}

export interface Studio {
  /** Address of the page, with its token. */
  readonly url: string;
  /** Whether jobs run. */
  isBusy(): boolean;
  /** Cancels jobs and stops listening. */
  close(): Promise<void>;
}

/**
 * Starts the studio on a project.
 * @throws LayergraftError code `usage` if the port is taken or the project cannot be read, `locked` if it is open elsewhere
 */
export async function startStudio({ folder, port, onBug }: StudioOptions): Promise<Studio> {
  const project = await ProjectFolder.open(folder);
  const streams = new Map<ServerResponse, Socket>();
  const onEvent = (event: StudioEvent) => {
    for (const [stream, socket] of streams) {
      // A page that reads again after it was suspended connects again, and loads what it missed.
      if (stream.writableLength > MAX_UNREAD) socket.destroy();
      else stream.write(`data: ${JSON.stringify(event)}\n\n`);
    }
  };
  const jobs = await Jobs.open({ folder: `${project.private}/jobs`, project: project.folder, onEvent });
  project.watch(() => onEvent({ type: "project" }));
  const token = await project.token();
  const [experiments, scores, checks] = Array.from({ length: 3 }, () => new Asker(project.folder)) as [
    Asker,
    Asker,
    Asker,
  ];
  const models = new AskerPool(project.folder, READERS);
  const reports = new Reports();
  const context: Context = { project, jobs, experiments, scores, models, checks, reports };
  const guard = { isLoopback: true, apiKey: token, origins: [] as string[] };
  const server = createServer({ requestTimeout: 60_000, headersTimeout: 10_000 }, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      // The client went away.
      if (error === request.errored) return;
      if (!(error instanceof LayergraftError) && !isAnySystemError(error)) onBug(error);
      fail(response, error);
    });
  });
  server.maxConnections = 256;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    setSafeHeaders(response);
    const pathname = pathOf(request);
    checkOrigin(request, response, guard);
    if (pathname.startsWith(REPORTS)) return reports.serve(pathname, request, response);
    if (!pathname.startsWith("/api/")) return servePage(pathname, request, response);
    checkKey(request, guard);
    const name = pathname.slice("/api/".length);
    if (name === "events" && request.method === "GET") return follow(request, response);
    if (!Object.hasOwn(operations, name) || request.method !== "POST") {
      throw new LayergraftError("not-found", "There is no such operation. Reload the page.");
    }
    const value = await call(name as OperationName, await readBody(request, name === "take" ? MAX_FILES : MAX_BODY));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(value));
  }

  async function call<N extends OperationName>(name: N, body: unknown): Promise<unknown> {
    const { input } = operations[name];
    const { data, error } = input.safeParse(body);
    if (error) throw usageError(problemsOf(error.issues));
    const value = await HANDLERS[name](data as never, context);
    if (CHANGING.has(name)) onEvent({ type: "project" });
    return value;
  }

  function follow(request: IncomingMessage, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(": connected\n\n");
    // The connection is watched: a response behind another one on it has no socket yet, and fails when it is destroyed.
    const { socket } = request;
    if (socket.destroyed) return;
    streams.set(response, socket);
    const timer = setInterval(() => response.write(": still here\n\n"), HEARTBEAT);
    socket.once("close", () => {
      clearInterval(timer);
      streams.delete(response);
    });
  }

  const close = async () => {
    await Promise.all([experiments, scores, models, checks, jobs].map((one) => one.close()));
    for (const stream of streams.keys()) stream.end();
    server.close();
    server.closeAllConnections();
    await project.close();
  };
  try {
    server.listen(port, HOST);
    await once(server, "listening");
  } catch (error) {
    await close();
    if (isSystemError(error, "EADDRINUSE")) throw usageError(`Port ${port} is in use`, { option: "port" });
    if (isSystemError(error, "EACCES"))
      throw usageError(`Port ${port} is reserved; use one from 1024`, { option: "port" });
    throw error;
  }
  // The fragment of an address is not sent to servers, nor to other pages.
  const origin = `http://${HOST}:${(server.address() as AddressInfo).port}`;
  guard.origins.push(origin);
  return { url: `${origin}/#token=${token}`, isBusy: () => jobs.isBusy, close };
}

/**
 * The page loads nothing from elsewhere, and no other page may show or read it. The editor sets the width of tabs by an
 * attribute, so style attributes are allowed; style elements are not.
 */
function setSafeHeaders(response: ServerResponse): void {
  const policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  response.setHeader("content-security-policy", policy);
  response.setHeader("x-content-type-options", "nosniff");
  response.setHeader("referrer-policy", "no-referrer");
  response.setHeader("cross-origin-resource-policy", "same-origin");
  response.setHeader("cross-origin-opener-policy", "same-origin");
}

const STATUS: Readonly<Record<string, number>> = { "not-found": 404, conflict: 409, locked: 409 };

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const isOurs = error instanceof LayergraftError;
  const code = isOurs ? error.code : "internal";
  const message = isOurs
    ? error.message
    : isAnySystemError(error)
      ? systemMessage(error)
      : "This is a bug of layergraft; the terminal shows it.";
  const status = isOurs && "status" in error ? Number(error.status) : (STATUS[code] ?? (isOurs ? 400 : 500));
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: { code, message } }));
}

function problemsOf(issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]): string {
  return issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.map(String).join(".") || "input"}: ${message}`)
    .join("; ");
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Files of the page, which the build makes. */
let names: ReadonlyMap<string, string> | undefined;

/** Paths of addresses; a path of a request is only ever looked up, so it cannot leave the folder. */
function filesOfPage(): ReadonlyMap<string, string> {
  if (names) return names;
  const index = createRequire(import.meta.url).resolve("#studio-page");
  const folder = dirname(index);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/"));
  names = new Map([...files.map((file): [string, string] => [`/${file}`, join(folder, file)]), ["/", index]]);
  return names;
}

/** Files of the page as they are sent: people reach the studio over slow lines, too. */
const packed = new Map<string, Promise<Buffer>>();
function packedOf(file: string): Promise<Buffer> {
  const found = packed.get(file) ?? readFile(file).then((bytes) => promisify(gzip)(bytes));
  // The page itself has no number in its name, and may be built again.
  if (extname(file) !== ".html") packed.set(file, found);
  return found;
}

/** Sends a file of the page. @throws LayergraftError code `not-found` */
async function servePage(pathname: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const file = filesOfPage().get(pathname);
  const type = file && TYPES[extname(file)];
  if (!type || request.method !== "GET") throw new LayergraftError("not-found", "There is no such page.");
  // Names under assets/ change with what is inside.
  const isFixed = pathname.startsWith("/assets/");
  response.setHeader("cache-control", isFixed ? "private, max-age=31536000, immutable" : "no-cache");
  response.setHeader("content-type", type);
  const isPacked = /\bgzip\b/.test(String(request.headers["accept-encoding"] ?? ""));
  response.setHeader("vary", "accept-encoding");
  if (isPacked) response.setHeader("content-encoding", "gzip");
  response.end(isPacked ? await packedOf(file) : await readFile(file));
}
