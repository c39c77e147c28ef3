// Talks to a server: JSON over kept connections, with retries. Knows no API.
import { once } from "node:events";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { CancelledError, isObject, LayergraftError, readRetryAfter, usageError } from "../../kit/index.js";
import { formatBytes, formatDuration, redactor } from "../../kit/printing/index.js";
import { stopped } from "./backend.js";

export interface HttpOptions {
  /** Server URL, http://host:port, with or without a path. */
  readonly url: string;
  /** Requests at once. Default: 8. */
  readonly concurrency?: number | undefined;
  /** Seconds to wait for one answer. Default: 600, for a long answer of a large model on a busy server. */
  readonly timeout?: number | undefined;
  /** Retries of a request on transient errors. Default: 6. */
  readonly retries?: number | undefined;
  /** Sent as `Authorization: Bearer`. Never written anywhere, and removed from what the server says. */
  readonly apiKey?: string | undefined;
  /** Seconds before the first retry; doubles each time. Default: 0.5. */
  readonly backoff?: number | undefined;
  /** Milliseconds of a clock that nobody sets. Default: the process's. */
  readonly clock?: (() => number) | undefined;
}

/** A server that answered with an error (`status`), not at all (0), or with 200 and no usable answer. */
export class ServerError extends LayergraftError {
  readonly status: number;

  constructor(message: string, status: number, cause?: unknown) {
    super("server", message, {}, cause);
    this.status = status;
  }
}

/** Statuses worth a retry: no or no usable answer, timeouts, rate limits, and what proxies say while a server restarts. */
const TRANSIENT = [0, 200, 408, 425, 429, 500, 502, 503, 504, 529];
const MAX_BACKOFF_SECONDS = 30;
/** A server that asks for a longer pause is reported instead of waited for. */
const MAX_PAUSE_SECONDS = 600;
/** Log-probabilities of a long prompt with twenty alternatives each take some MB; this is far more. */
const MAX_REPLY_BYTES = 256 * 2 ** 20;

export class HttpClient {
  readonly #base: URL;
  readonly #agent: HttpAgent;
  readonly #options: HttpOptions;
  readonly #redact: (text: string) => string;
  readonly concurrency: number;
  /** Moment before which nothing is sent, as the server asked for a pause. */
  #pausedUntil = 0;
  readonly #clock: () => number;

  constructor(options: HttpOptions) {
    this.#base = readUrl(options.url);
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    const { username, password } = this.#base;
    const login = [username, password].map(decodeURIComponent).join(":");
    this.#redact = redactor([options.apiKey, decodeURIComponent(password), login]);
    this.concurrency = options.concurrency ?? 8;
    const Agent = this.#base.protocol === "https:" ? HttpsAgent : HttpAgent;
    this.#agent = new Agent({ keepAlive: true, maxSockets: this.concurrency, maxFreeSockets: this.concurrency });
  }

  get url(): string {
    return plainAddress(this.#base);
  }

  /** Sends a GET request once, without retries: a server that does not answer at first is not there. */
  get(path: string, signal?: AbortSignal): Promise<unknown> {
    return this.#request("GET", path, undefined, signal);
  }

  /**
   * Sends a POST request, and retries on transient errors.
   * @param lacks says what an answer with status 200 lacks; an answer that lacks something is retried, too
   * @throws ServerError after the last retry, or at once for an error that a retry cannot fix
   */
  async post(
    path: string,
    body: unknown,
    signal?: AbortSignal,
    lacks: (reply: unknown) => string | undefined = () => undefined,
  ): Promise<unknown> {
    const text = JSON.stringify(body);
    const { retries = 6, backoff = 0.5 } = this.#options;
    for (let attempt = 0; ; attempt++) {
      try {
        const reply = await this.#request("POST", path, text, signal);
        const missing = lacks(reply);
        if (missing === undefined) return reply;
        throw new ServerError(`${this.url}${path} answered without ${missing}`, 200);
      } catch (error) {
        if (!(error instanceof ServerError && TRANSIENT.includes(error.status))) throw error;
        if (attempt >= retries) {
          throw new ServerError(`${error.message} (asked ${attempt + 1} times)`, error.status, error);
        }
      }
      // Half of the wait is random, so that requests refused together are not retried together.
      const wait = Math.min(MAX_BACKOFF_SECONDS, backoff * 2 ** attempt);
      await pause(wait * (0.5 + 0.5 * Math.random()), signal);
    }
  }

  /** The answer of a server that may not know the path: undefined unless it is a JSON object with status 200. */
  async ask(
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    try {
      const method = body === undefined ? "GET" : "POST";
      const reply = await this.#request(method, path, JSON.stringify(body), signal);
      return isObject(reply) ? reply : undefined;
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }

  /** The status of an answer; 0 without one. */
  async status(path: string, signal?: AbortSignal): Promise<number> {
    try {
      await this.get(path, signal);
      return 200;
    } catch (error) {
      if (error instanceof ServerError) return error.status;
      throw error;
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  /** @throws ServerError without an answer with status 200 that is JSON */
  async #request(
    method: string,
    path: string,
    body: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    for (let left = this.#pausedUntil - this.#clock(); left > 0; left = this.#pausedUntil - this.#clock()) {
      await pause(left / 1000, signal);
    }
    const place = `${this.url}${path}`;
    const { status, text, retryAfter } = await this.#send(method, path, body, signal).catch((error: Error) => {
      if (error instanceof CancelledError) throw error;
      throw new ServerError(`${place} does not answer: ${error.message}`, 0, error);
    });
    if (status === 200) {
      try {
        return this.#parse(text);
      } catch {
        throw new ServerError(`${place} answered what is not JSON: ${this.#redact(text).slice(0, 100)}`, 200);
      }
    }
    const seconds = readRetryAfter(retryAfter);
    if (seconds !== undefined && TRANSIENT.includes(status)) {
      if (seconds > MAX_PAUSE_SECONDS) {
        const wait = formatDuration(seconds);
        throw new LayergraftError("server", `${place} asks to retry after ${wait}`, { option: "resume" });
      }
      this.#pausedUntil = Math.max(this.#pausedUntil, this.#clock() + seconds * 1000);
    }
    throw new ServerError(`${place} answered ${status}: ${this.#describe(text)}`, status);
  }

  /** A server's JSON. Secrets are removed before any text is shortened, so that no part of one is left. */
  #parse(body: string): unknown {
    const clean = (value: unknown): unknown => {
      if (typeof value === "string") return this.#redact(value);
      if (Array.isArray(value)) return value.map(clean);
      if (typeof value !== "object" || value === null) return value;
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [this.#redact(key), clean(inner)]));
    };
    return clean(JSON.parse(body));
  }

  /** The message in a server's error, in one line. */
  #describe(body: string): string {
    let text = this.#redact(body);
    try {
      const value = this.#parse(body) as { error?: unknown; message?: unknown; detail?: unknown };
      const inner = value.error ?? value.message ?? value.detail;
      const message = isObject(inner) ? inner.message : inner;
      if (typeof message === "string") text = message;
    } catch {
      // Text that is not JSON is shown as it is.
    }
    return text.replace(/\s+/g, " ").trim().slice(0, 300) || "nothing more";
  }

  async #send(method: string, path: string, body: string | undefined, signal: AbortSignal | undefined) {
    if (signal?.aborted) throw stopped();
    const { apiKey, timeout = 600 } = this.#options;
    const limit = AbortSignal.timeout(timeout * 1000);
    const url = new URL(this.#base);
    url.search = "";
    // Resolved against the server's URL, a path that begins with two slashes would name another host.
    url.pathname = url.pathname.replace(/\/+$/, "") + path;
    const content = { "content-type": "application/json", "content-length": Buffer.byteLength(body ?? "") };
    const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, {
      method,
      agent: this.#agent,
      signal: AbortSignal.any([limit, ...(signal ? [signal] : [])]),
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : content),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
    });
    try {
      request.end(body);
      const [response] = (await once(request, "response")) as [IncomingMessage];
      // An error after this point also reaches the response, which throws it below.
      request.on("error", () => undefined);
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > MAX_REPLY_BYTES) throw new Error(`the answer has more than ${formatBytes(MAX_REPLY_BYTES)}`);
        chunks.push(chunk);
      }
      const text = Buffer.concat(chunks).toString("utf8");
      return { status: response.statusCode ?? 0, text, retryAfter: response.headers["retry-after"] };
    } catch (error) {
      if (signal?.aborted) throw stopped();
      throw limit.aborted ? new Error(`no answer within ${timeout} s`) : error;
    }
  }
}

async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(seconds * 1000, undefined, signal ? { signal } : {});
  } catch {
    throw stopped();
  }
}

/** A URL without what may be secret in it: login and query. */
export function plainAddress(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/$/, "")}`;
}

/** A text without the logins of URLs in it. */
export function withoutLogin(text: string): string {
  return text.replace(/\/\/[^/\s]*@/g, "//");
}

function readUrl(text: string): URL {
  let url: URL | undefined;
  try {
    const parsed = new URL(text);
    decodeURIComponent(parsed.username + parsed.password);
    url = parsed;
  } catch {
    // Reported below, together with other schemes. Node.js decodes the login, too, and throws.
  }
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw usageError(`"${withoutLogin(text)}" is not a server URL; write it as http://host:port`);
  }
  return url;
}
