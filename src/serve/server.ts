// The OpenAI API over HTTP: routes, the queue, streams, and an end that leaves no request without an answer.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { CancelledError, VERSION } from "../kit/index.js";
import { formatSome } from "../kit/printing/index.js";
import { type Address, listen, requireKey } from "./address.js";
import {
  type AnswerOptions,
  answerAll,
  type ChoicePart,
  encodePrompts,
  requireShort,
  type ScoredToken,
  type Usage,
} from "./answers.js";
import { ApiError, apiErrorOf } from "./api-error.js";
import { checkKey, checkOrigin, type GuardOptions, isLoopback, pathOf, readBody } from "./http-guard.js";
import { chatReplies, completionReplies, type ReplyWriter } from "./replies.js";
import { type ChatRequest, type CompletionRequest, readChat, readCompletion, readTokenize } from "./requests.js";
import type { ServedModel } from "./served-model.js";
import { endWithEvent, ServerSentEvents } from "./server-sent-events.js";
import { TokenTexts } from "./token-texts.js";

/** A request that was answered or refused. */
export interface RequestRecord {
  readonly method: string;
  readonly path: string;
  /** HTTP status; 499 if the client left before its answer. */
  readonly status: number;
  readonly seconds: number;
  readonly model?: string | undefined;
  readonly usage?: Usage | undefined;
  /** Why it failed, if the client is not to blame. */
  readonly error?: unknown;
}

/** Limits on what clients take, so that one of them cannot harm the others; tests shorten them. */
export interface ServerLimits {
  /** Bytes of a body. Default: 4 MiB. */
  readonly bodyBytes: number;
  /** Seconds to send the headers of a request. Default: 10. */
  readonly headerSeconds: number;
  /** Seconds of silence after which a stream gets a comment. */
  readonly silentSeconds: number;
  /** Seconds to send a whole request. Default: 60. */
  readonly bodySeconds: number;
  /** Connections at a time. Default: 1024. */
  readonly connections: number;
}

const LIMITS: ServerLimits = {
  bodyBytes: 2 ** 22,
  headerSeconds: 10,
  silentSeconds: 15,
  bodySeconds: 60,
  connections: 1024,
};

export interface ServeOptions extends Address {
  /** Models by the names that requests choose them by. */
  readonly models: ReadonlyMap<string, ServedModel>;
  /** Answers that may wait. Further requests get status 429. Default: 256. */
  readonly queue?: number | undefined;
  /** Origins of web pages that may use the server; `"*"` for all. Default: none. */
  readonly origins?: readonly string[] | undefined;
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Called after each request. Default: none. */
  readonly onRequest?: ((request: RequestRecord) => void) | undefined;
}

/** A server that listens. */
export interface RunningServer {
  /** Address, such as `http://127.0.0.1:8000`. The API is under `/v1`. */
  readonly url: string;
  /** Port that it listens on. */
  readonly port: number;
  /**
   * Finishes the answers under way. Where it opened the models, it frees them.
   * @param graceSeconds seconds after which answers are cancelled. Default: 10.
   */
  close(graceSeconds?: number): Promise<void>;
}

const QUEUE = 256;
const GRACE_SECONDS = 10;
/** Time in which clients can read that their answers were cancelled. */
const FAREWELL_SECONDS = 1;
const POLL_MILLISECONDS = 20;
/** Status of a request whose client left, as nginx logs it. */
const LEFT = 499;
/** Seconds after which a client may try again where the queue is full, at most. */
const MAX_RETRY_SECONDS = 60;

/**
 * Starts a server.
 * @throws LayergraftError code `usage` if the address cannot be used, or needs a key
 */
export async function startApiServer(options: ServeOptions): Promise<RunningServer> {
  requireKey(options.host, options.apiKey);
  return new ApiServer(options).listen();
}

class ApiServer {
  readonly #options: ServeOptions;
  readonly #limits: ServerLimits;
  readonly #guard: GuardOptions;
  readonly #server: Server;
  readonly #texts = new Map<ServedModel, TokenTexts>();
  readonly #started = Math.floor(Date.now() / 1000);
  /** Answers that are not finished. */
  #unfinished = 0;
  /** Mean seconds of recent answers. */
  #pace = 1;
  readonly #open = new Set<AbortController>();
  #isClosing = false;
  #closing: Promise<void> | undefined;

  constructor(options: ServeOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    const { host, apiKey, origins = [] } = options;
    this.#guard = { isLoopback: host === undefined || isLoopback(host), apiKey, origins };
    const { headerSeconds, bodySeconds, connections } = this.#limits;
    this.#server = createServer(
      {
        headersTimeout: headerSeconds * 1000,
        requestTimeout: bodySeconds * 1000,
        connectionsCheckingInterval: Math.min(2000, headerSeconds * 500),
      },
      (request, response) => void this.#handle(request, response),
    );
    this.#server.maxConnections = connections;
  }

  async listen(): Promise<RunningServer> {
    const host = await listen(this.#server, this.#options);
    const { port: taken } = this.#server.address() as AddressInfo;
    const name = host.includes(":") ? `[${host.replace(/^\[|\]$/g, "")}]` : host;
    return {
      url: `http://${name}:${taken}`,
      port: taken,
      close: (grace = GRACE_SECONDS) => {
        this.#closing ??= this.#close(grace);
        return this.#closing;
      },
    };
  }

  async #close(graceSeconds: number): Promise<void> {
    const closed = once(this.#server, "close");
    this.#isClosing = true;
    this.#server.close();
    await this.#settle(graceSeconds);
    for (const controller of this.#open) controller.abort();
    await this.#settle(FAREWELL_SECONDS);
    this.#server.closeAllConnections();
    await closed;
    // Without connections, only a computation can be under way, which a signal has stopped.
    await this.#settle(Number.POSITIVE_INFINITY);
  }

  /** Waits until no request is open, or for some seconds. */
  async #settle(seconds: number): Promise<void> {
    const end = performance.now() + seconds * 1000;
    while (this.#open.size > 0 && performance.now() < end) await sleep(POLL_MILLISECONDS);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const start = performance.now();
    const path = pathOf(request);
    const controller = new AbortController();
    this.#open.add(controller);
    // Writes to a connection that is gone are dropped.
    response.on("error", () => undefined);
    const ended = sentOrLost(request, response).then(() => {
      if (!response.writableFinished) controller.abort();
    });
    const facts: { model?: string; usage?: Usage; error?: unknown } = {};
    try {
      checkOrigin(request, response, this.#guard);
      await this.#route(path, request, response, controller.signal, facts);
    } catch (error) {
      const told = error instanceof CancelledError ? this.#cancelled() : apiErrorOf(error);
      if (told.status >= 500 && !controller.signal.aborted) facts.error = error;
      fail(response, told);
    }
    await ended;
    this.#open.delete(controller);
    const hasLeft = controller.signal.aborted && !this.#isClosing;
    this.#options.onRequest?.({
      method: request.method ?? "",
      path,
      status: hasLeft ? LEFT : response.statusCode,
      seconds: (performance.now() - start) / 1000,
      ...facts,
    });
  }

  #cancelled(): ApiError {
    return new ApiError(503, "The server is shutting down.", { headers: { connection: "close" } });
  }

  async #route(
    path: string,
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
    facts: { model?: string; usage?: Usage },
  ): Promise<void> {
    const { method = "" } = request;
    if (method === "OPTIONS" && request.headers.origin !== undefined) return send(response, 204, undefined);
    if (this.#isClosing) throw this.#cancelled();
    const is = (wanted: string, ...names: string[]): boolean => {
      if (!names.includes(path)) return false;
      if (method === wanted || (wanted === "GET" && method === "HEAD")) return true;
      throw new ApiError(405, `${path} takes ${wanted} requests.`, { headers: { allow: wanted } });
    };
    if (is("GET", "/health")) return send(response, 200, { status: "ok" });
    checkKey(request, this.#guard);
    const read = () => readBody(request, this.#limits.bodyBytes);
    if (is("GET", "/version")) return send(response, 200, { version: VERSION });
    if (is("GET", "/v1/models")) {
      return send(response, 200, {
        object: "list",
        data: [...this.#options.models.keys()].map((id) => this.#entry(id)),
      });
    }
    if (path.startsWith("/v1/models/") && is("GET", path)) {
      return send(response, 200, this.#entry(this.#find(decode(path.slice("/v1/models/".length))).name));
    }
    if (is("POST", "/tokenize", "/v1/tokenize")) {
      const { model, prompt, bos } = readTokenize(await read());
      const found = this.#find(model).model;
      requireShort(found, [prompt], "prompt");
      const tokens = await found.encode(prompt, { bos });
      return send(response, 200, { tokens, count: tokens.length, max_model_len: found.contextLength });
    }
    if (is("POST", "/v1/completions")) return this.#answer(readCompletion(await read()), response, signal, facts);
    if (is("POST", "/v1/chat/completions")) return this.#answer(readChat(await read()), response, signal, facts);
    throw new ApiError(
      404,
      "The server has no such path. It has /v1/models, /v1/completions, /v1/chat/completions, /tokenize and /health.",
    );
  }

  #entry(id: string): object {
    const { contextLength } = this.#find(id).model;
    return { id, object: "model", created: this.#started, owned_by: "layergraft", max_model_len: contextLength };
  }

  /** A model by its name; without one, the only model. */
  #find(name: string | undefined): { readonly name: string; readonly model: ServedModel } {
    const { models } = this.#options;
    const [only] = models.keys();
    const wanted = name ?? (models.size === 1 ? only : undefined);
    const model = wanted === undefined ? undefined : models.get(wanted);
    if (wanted !== undefined && model) return { name: wanted, model };
    const has = `The server has ${formatSome([...models.keys()])}.`;
    if (wanted === undefined) throw new ApiError(400, `model is missing. ${has}`, { param: "model" });
    throw new ApiError(404, `The model ${JSON.stringify(wanted.slice(0, 100))} does not exist. ${has}`, {
      param: "model",
      code: "model_not_found",
    });
  }

  async #answer(
    request: CompletionRequest | ChatRequest,
    response: ServerResponse,
    signal: AbortSignal,
    facts: { model?: string; usage?: Usage },
  ): Promise<void> {
    const { name, model } = this.#find(request.model);
    facts.model = name;
    const asked = request.n * (request.kind === "chat" ? 1 : request.prompts.length);
    this.#requireRoom();
    this.#unfinished += asked;
    const start = performance.now();
    try {
      const prompts = await encodePrompts(model, request, signal);
      const texts = this.#textsOf(model);
      const options = { model: name, digest: model.digest, hasScores: request.top !== undefined };
      const replies = request.kind === "chat" ? chatReplies(options) : completionReplies(options);
      const compute = (onPart: AnswerOptions["onPart"]) =>
        answerAll(model, texts, prompts, request, { signal, onPart });
      facts.usage = request.stream
        ? await this.#stream(response, replies, request, compute)
        : await this.#whole(response, replies, compute);
      this.#pace = 0.8 * this.#pace + (0.2 * (performance.now() - start)) / 1000;
    } finally {
      this.#unfinished -= asked;
    }
  }

  async #whole(
    response: ServerResponse,
    replies: ReplyWriter,
    compute: (onPart: AnswerOptions["onPart"]) => Promise<Usage>,
  ): Promise<Usage> {
    const parts = new Map<number, ChoicePart & { tokens: ScoredToken[] }>();
    const usage = await compute((part) => {
      const { text = "", tokens = [] } = parts.get(part.index) ?? {};
      for (const token of part.tokens) tokens.push(token);
      parts.set(part.index, { ...part, text: text + part.text, tokens });
    });
    const inOrder = [...parts.values()].sort((a, b) => a.index - b.index);
    send(response, 200, replies.whole(inOrder, usage));
    return usage;
  }

  async #stream(
    response: ServerResponse,
    replies: ReplyWriter,
    { n, includeUsage }: CompletionRequest | ChatRequest,
    compute: (onPart: AnswerOptions["onPart"]) => Promise<Usage>,
  ): Promise<Usage> {
    const events = new ServerSentEvents(response, this.#limits.silentSeconds);
    for (const opening of replies.opening(n)) events.send(opening);
    const usage = await compute((part) => events.send(replies.chunk(part))).finally(() => events.stopWaiting());
    if (includeUsage) events.send(replies.usage(usage));
    events.end();
    return usage;
  }

  /** @throws ApiError if too many answers wait */
  #requireRoom(): void {
    const { models, queue = QUEUE } = this.#options;
    const parallel = [...models.values()].reduce((sum, model) => sum + model.parallel, 0);
    if (this.#unfinished < parallel + queue) return;
    const seconds = Math.min(MAX_RETRY_SECONDS, Math.max(1, Math.ceil(this.#pace)));
    throw new ApiError(429, `${queue} answers wait already. Try again in ${seconds} s.`, {
      code: "rate_limit_exceeded",
      headers: { "retry-after": String(seconds) },
    });
  }

  #textsOf(model: ServedModel): TokenTexts {
    const texts = this.#texts.get(model) ?? new TokenTexts(model.tokenizer);
    this.#texts.set(model, texts);
    return texts;
  }
}

function send(response: ServerResponse, status: number, value: object | undefined, headers = {}): void {
  const body = value === undefined ? "" : JSON.stringify(value);
  const length = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  response.writeHead(status, { ...headers, ...(value === undefined ? {} : length) });
  response.end(body);
}

/** Tells a client an error; a stream that has begun ends with it. */
function fail(response: ServerResponse, error: ApiError): void {
  if (response.destroyed || response.writableEnded) return;
  if (!response.headersSent) send(response, error.status, error.body, error.headers);
  else endWithEvent(response, error.body);
}

/**
 * Resolves when a response is sent, or its connection is gone. The connection is watched, as a response behind another one has no
 * socket yet and emits no event.
 */
function sentOrLost({ socket }: IncomingMessage, response: ServerResponse): Promise<void> {
  // One listener for each request that a client sends ahead.
  socket.setMaxListeners(0);
  return new Promise((resolve) => {
    const end = () => {
      socket.off("close", end);
      resolve();
    };
    socket.on("close", end);
    response.once("finish", end);
    if (socket.destroyed) end();
  });
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
