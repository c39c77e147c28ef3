// Talking to a server: JSON over kept connections, a bounded number at once, patient with what passes. Knows no API.

import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { CancelledError, LayergraftError, Random, redactor } from "../../core/index.js";
import { stopped } from "./stopped.js";

export interface HttpOptions {
  /** Where the server is: http://host:port, with or without a path. */
  readonly url: string;
  /** Requests at once; default 8. */
  readonly concurrency?: number | undefined;
  /** How long one answer may take, in seconds; default 600: a long answer of a large model on a busy server. */
  readonly timeout?: number | undefined;
  /** How often a request is sent again after what may pass; default 6. */
  readonly retries?: number | undefined;
  /** Of the jitter; default 0. */
  readonly seed?: number | undefined;
  /** Sent as `Authorization: Bearer`; never written anywhere, and taken out of what the server says. */
  readonly apiKey?: string | undefined;
  /** First wait before sending again, in seconds; doubles each time; default 0.5. */
  readonly backoff?: number | undefined;
}

/**
 * A server that answered with an error, or not at all. `status` is 0 when there was no answer, and 200 when what came as
 * one is none.
 */
export class ServerError extends LayergraftError {
  readonly status: number;

  constructor(message: string, status: number, cause?: unknown) {
    super("server", message, {}, cause);
    this.status = status;
  }
}

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly retryAfter: string | undefined;
}

/** Answers that another attempt may better: time-outs, rate limits, and what proxies say while a server restarts. */
const PASSING = [200, 408, 425, 429, 500, 502, 503, 504, 529];
const TIMEOUT_SECONDS = 600;
const RETRIES = 6;
const CONCURRENCY = 8;
const BACKOFF_SECONDS = 0.5;
const MOST_BACKOFF_SECONDS = 30;
/** A server that asks for a longer pause is not to be waited for: a person should know. */
const MOST_PAUSE_SECONDS = 600;
/** Log-probabilities of a long prompt with twenty alternatives each take some MB; this is far more. */
const MOST_REPLY_BYTES = 256 * 2 ** 20;

export class HttpClient {
  readonly #base: URL;
  readonly #agent: HttpAgent;
  readonly #options: HttpOptions;
  readonly #random: Random;
  /** Takes out of a text what only we and the server should know. */
  readonly #redact: (text: string) => string;
  readonly concurrency: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  /** Moment before which nobody sends, when the server asked for a pause. */
  #pausedUntil = 0;

  constructor(options: HttpOptions) {
    this.#base = readUrl(options.url);
    this.#options = options;
    this.#random = Random.of(options.seed ?? 0, "jitter");
    const { username, password } = this.#base;
    const login = [username, password].map(decodeURIComponent).join(":");
    this.#redact = redactor([options.apiKey, decodeURIComponent(password), login]);
    this.concurrency = options.concurrency ?? CONCURRENCY;
    const Agent = this.#base.protocol === "https:" ? HttpsAgent : HttpAgent;
    this.#agent = new Agent({ keepAlive: true, maxSockets: this.concurrency, maxFreeSockets: this.concurrency });
  }

  /** The server's address without what may be secret in it. */
  get url(): string {
    return plainAddress(this.#base);
  }

  /** Asks once: for the beginning, where a server that does not answer is not there. */
  async get(path: string, signal?: AbortSignal): Promise<unknown> {
    const outcome = await this.#attempt("GET", path, undefined, signal);
    if (outcome instanceof ServerError) throw outcome;
    return outcome;
  }

  /**
   * Asks, and asks again after what may pass.
   * @param lacks says what an answer with status 200 lacks, if anything: then it is one that may pass, too
   * @throws {ServerError} after the last attempt, or at once for what another attempt cannot better
   */
  post(
    path: string,
    body: unknown,
    signal?: AbortSignal,
    lacks: (reply: unknown) => string | undefined = () => undefined,
  ): Promise<unknown> {
    const text = JSON.stringify(body);
    return this.#place(async () => {
      const retries = this.#options.retries ?? RETRIES;
      for (let attempt = 0; ; attempt++) {
        const reply = await this.#attempt("POST", path, text, signal);
        const missing = reply instanceof ServerError ? undefined : lacks(reply);
        const outcome =
          missing === undefined ? reply : new ServerError(`${this.url}${path} answered without ${missing}`, 200);
        if (!(outcome instanceof ServerError)) return outcome;
        const passing = outcome.status === 0 || PASSING.includes(outcome.status);
        if (!passing) throw outcome;
        if (attempt >= retries) {
          throw new ServerError(`${outcome.message} (asked ${attempt + 1} times)`, outcome.status, outcome);
        }
        // Half of the wait is by chance, so that requests refused together do not come back together.
        const wait = Math.min(MOST_BACKOFF_SECONDS, (this.#options.backoff ?? BACKOFF_SECONDS) * 2 ** attempt);
        await pause(wait * (0.5 + 0.5 * this.#random.float()), signal);
      }
    });
  }

  /** The answer of a server that may not know the path: undefined unless it gave JSON and said all is well. */
  async ask(path: string, body?: unknown, signal?: AbortSignal): Promise<Record<string, unknown> | undefined> {
    try {
      const reply = await this.#send(body === undefined ? "GET" : "POST", path, JSON.stringify(body), signal);
      const value = reply.status === 200 ? this.#parse(reply.body) : undefined;
      return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
    } catch (error) {
      if (error instanceof CancelledError) throw error;
      return undefined;
    }
  }

  /** Status of an answer, 0 where there is none. */
  async status(path: string, signal?: AbortSignal): Promise<number> {
    try {
      return (await this.#send("GET", path, undefined, signal)).status;
    } catch (error) {
      if (error instanceof CancelledError) throw error;
      return 0;
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  /** One of `concurrency` places at the server. */
  async #place<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.concurrency) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }

  async #attempt(method: string, path: string, body: string | undefined, signal: AbortSignal | undefined) {
    for (let left = this.#pausedUntil - Date.now(); left > 0; left = this.#pausedUntil - Date.now()) {
      await pause(left / 1000, signal);
    }
    let reply: Reply;
    try {
      reply = await this.#send(method, path, body, signal);
    } catch (error) {
      if (error instanceof CancelledError) throw error;
      return new ServerError(`${this.url}${path} does not answer: ${(error as Error).message}`, 0, error);
    }
    const { status } = reply;
    if (status === 200) {
      try {
        return this.#parse(reply.body);
      } catch {
        const text = this.#redact(reply.body).slice(0, 100);
        return new ServerError(`${this.url}${path} answered what is not JSON: ${text}`, 200);
      }
    }
    const seconds = readRetryAfter(reply.retryAfter);
    if (seconds !== undefined && PASSING.includes(status)) {
      if (seconds > MOST_PAUSE_SECONDS) {
        throw new ServerError(
          `${this.url}${path} wants to be left alone for ${Math.round(seconds)} s; go on later with --resume`,
          status,
        );
      }
      this.#pausedUntil = Math.max(this.#pausedUntil, Date.now() + seconds * 1000);
    }
    return new ServerError(`${this.url}${path} answered ${status}: ${this.#describe(reply.body)}`, status);
  }

  /** A server's JSON. Secrets are taken out here, before anything is cut, so that no part of one is left. */
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
      const message = typeof inner === "object" && inner !== null ? (inner as { message?: unknown }).message : inner;
      if (typeof message === "string") text = message;
    } catch {
      // not JSON: as it is
    }
    return text.replace(/\s+/g, " ").trim().slice(0, 300) || "nothing more";
  }

  #send(method: string, path: string, body: string | undefined, signal: AbortSignal | undefined): Promise<Reply> {
    const seconds = this.#options.timeout ?? TIMEOUT_SECONDS;
    const { apiKey } = this.#options;
    const url = new URL(this.#base.pathname.replace(/\/$/, "") + path, this.#base);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(stopped());
      const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, {
        method,
        agent: this.#agent,
        headers: {
          accept: "application/json",
          ...(body === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        },
      });
      const timer = setTimeout(() => request.destroy(new Error(`no answer within ${seconds} s`)), seconds * 1000);
      const onAbort = (): void => void request.destroy(stopped());
      signal?.addEventListener("abort", onAbort, { once: true });
      const done = (finish: () => void): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        finish();
      };
      request.on("error", (error) => done(() => reject(signal?.aborted ? stopped() : error)));
      request.on("response", (response: IncomingMessage) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > MOST_REPLY_BYTES) request.destroy(new Error(`an answer of more than ${MOST_REPLY_BYTES} bytes`));
          else chunks.push(chunk);
        });
        response.on("error", (error) => done(() => reject(signal?.aborted ? stopped() : error)));
        response.on("end", () =>
          done(() =>
            resolve({
              status: response.statusCode ?? 0,
              body: Buffer.concat(chunks).toString("utf8"),
              retryAfter: response.headers["retry-after"],
            }),
          ),
        );
      });
      request.end(body);
    });
  }
}

async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(seconds * 1000, undefined, signal ? { signal } : {});
  } catch {
    throw stopped();
  }
}

/** An address without what may be secret in it: a name and a password, a query. */
export function plainAddress(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/$/, "")}`;
}

/** What may be an address, without the name and password that may stand in it. */
export function withoutLogin(text: string): string {
  return text.replace(/\/\/[^/\s]*@/g, "//");
}

function readUrl(text: string): URL {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {
    // said below, together with other schemes
  }
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new LayergraftError(
      "usage",
      `"${withoutLogin(text)}" is no address of a server; write it as http://host:port`,
    );
  }
  return url;
}

/** Seconds that a Retry-After header asks for: a number, or a date (RFC 9110, section 10.2.3). */
function readRetryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}
