// Requests to the hub: the token, retries, and what a refusal means.

import { setTimeout as sleep } from "node:timers/promises";
import { HubError, isObject, LayergraftError, readRetryAfter } from "../../kit/index.js";
import { formatDuration, redactor } from "../../kit/printing/index.js";
import { boundedAnswer, checkedAnswer } from "./answers.js";
import { paceOf } from "./pace.js";
import type { HubSettings } from "./settings.js";
import { countedBody } from "./upload-progress.js";

/** Retries in a row after a server error or a broken connection. */
export const MAX_RETRIES = 4;

/** A server that asks for a longer pause is reported instead. */
const LONGEST_PAUSE_SECONDS = 60;

/** Retries after a server did not answer in time, each of which takes the whole timeout. */
const MAX_SILENT_RETRIES = 1;

/** A connection without a byte for this long, in milliseconds, counts as broken; one with few bytes, somewhat later. */
export const SILENT_MS = 30_000;

/** Times as long for uploads: what was read of a file may still wait in buffers, and the storage answers when it has all. */
const UPLOAD_FACTOR = 10;

const BROKEN_CONNECTION = ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"];
const NO_ANSWER = ["UND_ERR_CONNECT_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT"];

class NoAnswerError extends HubError {}

/** How requests wait and stop. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds before the first retry, doubled each time. Default 500. */
  readonly retryDelay?: number | undefined;
  /** Milliseconds without an answer, or without another byte of one, after which a request fails. Default 30,000. */
  readonly timeout?: number | undefined;
  /** Called with the seconds before a wait of two seconds or more. */
  readonly onWait?: ((seconds: number) => void) | undefined;
}

/** Shorter waits are not reported. */
const REPORTED_MS = 2000;

/** Default of `retryDelay`. */
export const RETRY_DELAY = 500;

/** Waits this many milliseconds before a retry. */
export async function pause(ms: number, { onWait }: RequestOptions, signal: AbortSignal | undefined): Promise<void> {
  if (ms >= REPORTED_MS) onWait?.(ms / 1000);
  await sleep(ms, undefined, { signal });
}

/**
 * A fetch that sends the token to the endpoint only: fetch drops it when a request is redirected to another origin.
 * Retries 429, as the server asks, 5xx and broken connections. Answers of the API come whole and checked.
 * @throws HubError if the server does not answer in time, or an answer of the API is not one of the hub
 */
export function hubFetch({ endpoint, token }: HubSettings, options: RequestOptions): typeof fetch {
  const { origin, pathname } = new URL(endpoint);
  const { retryDelay = RETRY_DELAY, timeout = SILENT_MS } = options;
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    const url = new URL(input instanceof Request ? input.url : input);
    const isHub = url.origin === origin;
    if (token !== undefined && isHub) headers.set("Authorization", `Bearer ${token}`);
    const either = eitherSignal(options.signal, init?.signal);
    const server = isHub ? endpoint : url.origin;
    const path = isHub ? url.pathname.slice(pathname.replace(/\/$/, "").length) : url.pathname;
    const answered = async () => {
      const noAnswer = (cause?: unknown) =>
        new NoAnswerError(`${server} does not answer. Check the connection or HF_ENDPOINT, then run again.`, {}, cause);
      const silent = new AbortController();
      const upload = init?.body instanceof Blob ? init.body : undefined;
      const pace = paceOf((upload ? UPLOAD_FACTOR : 1) * timeout, () => silent.abort(noAnswer()));
      const onBytes = (bytes: number) => {
        pace.came(bytes);
        pace.wait();
      };
      try {
        pace.wait();
        const body = upload ? { body: countedBody(upload, onBytes) } : {};
        const signals = eitherSignal(either.signal, silent.signal);
        const response = await fetch(input, { ...init, ...body, headers, ...signals });
        onBytes(Number.POSITIVE_INFINITY);
        if (!upload) return await checkedAnswer(path, response, server, init?.body, onBytes);
        const answer = await boundedAnswer(response);
        // A server that refuses may not read the rest of the body, and would be waited for.
        if (answer.status >= 400) silent.abort();
        return answer;
      } catch (error) {
        throw NO_ANSWER.includes(codeOf(error)) ? noAnswer(error) : error;
      } finally {
        pace.stop();
      }
    };
    for (let failures = 0; ; failures++) {
      const delay = retryDelay * 2 ** failures;
      try {
        const response = await answered();
        const { status } = response;
        const asked = secondsToWait(response.headers);
        const isTransient = status === 429 || status >= 500;
        if (!isTransient || failures >= MAX_RETRIES || asked > LONGEST_PAUSE_SECONDS) return response;
        await response.body?.cancel();
        await pause(Math.max(delay, asked * 1000), options, either.signal);
      } catch (error) {
        const isBroken = BROKEN_CONNECTION.includes(codeOf(error));
        const retries = error instanceof NoAnswerError ? MAX_SILENT_RETRIES : isBroken ? MAX_RETRIES : 0;
        if (either.signal?.aborted || failures >= retries) throw error;
        await pause(delay, options, either.signal);
      }
    }
  };
}

function eitherSignal(...signals: readonly (AbortSignal | null | undefined)[]): { signal?: AbortSignal } {
  const given = signals.filter((signal) => signal !== undefined && signal !== null);
  return given.length === 0 ? {} : { signal: AbortSignal.any(given) };
}

/** Seconds from Retry-After, a number or a date, or from the RateLimit of huggingface.co; 0 if there is neither. */
function secondsToWait(headers: Headers): number {
  const [, reset] = /;\s*r=0\s*;\s*t=(\d+)/.exec(headers.get("ratelimit") ?? "") ?? [];
  return readRetryAfter(reset ?? headers.get("retry-after")) ?? 0;
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return isObject(cause) ? String(cause.code) : "";
}

/** Whether a connection broke while content was received; hubFetch itself retries before that. */
export function isBrokenStream(error: unknown): boolean {
  return error instanceof TypeError && error.message === "terminated";
}

/** Whether a request got no answer, as the network or the server is away. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof TypeError && error.message === "fetch failed";
}

export class StatusError extends Error {
  readonly statusCode: number;
  /** Reason as the hub's code, such as GatedRepo. */
  readonly code: string | undefined;
  /** Seconds that the server asks to wait. */
  readonly wait: number;

  private constructor({ status, statusText, headers }: Response) {
    super(`status ${status} ${statusText}`.trimEnd());
    this.statusCode = status;
    this.code = headers.get("x-error-code") ?? undefined;
    this.wait = secondsToWait(headers);
  }

  /** The error of an answer, whose body is discarded. */
  static async of(response: Response): Promise<StatusError> {
    await response.body?.cancel();
    return new StatusError(response);
  }
}

/** Statuses of refusals whose meaning `explain` knows. */
export const EXPLAINED: readonly number[] = [401, 403, 404, 429];

/** Longest text of a server that is shown, in characters. */
const MAX_REASON = 300;

interface Asked {
  readonly name: string;
  readonly revision: string;
  /** What the repository is, such as "data set". */
  readonly kind: string;
  readonly isCached: boolean;
}

/** An error of the hub or of the network, with what to do about it. */
export function explain(error: unknown, settings: HubSettings, asked: Asked): unknown {
  if (error instanceof NoAnswerError && asked.isCached) {
    return new HubError(`${error.message} HF_HUB_OFFLINE=1 uses what is in the cache.`, {}, error);
  }
  if (error instanceof LayergraftError) return error;
  const { endpoint, token } = settings;
  const { name, kind } = asked;
  const what = `${name} (${asked.revision})`;
  const refusal = error instanceof StatusError ? error : undefined;
  const of = (message: string) => new HubError(message, {}, error);
  switch (refusal?.statusCode) {
    case 401:
    case 403: {
      const advice = token === undefined ? "Set HF_TOKEN" : "HF_TOKEN is not enough; set it";
      if (refusal.code === "GatedRepo") {
        return of(
          `${what} is gated. Accept its terms at ${endpoint}/${kind === "data set" ? "datasets/" : ""}${name}. ${advice} to a token of the account that accepted them.`,
        );
      }
      return of(
        `${what} cannot be read: it does not exist, is private, or its terms are not accepted yet. ${advice} to a token of an account with access.`,
      );
    }
    case 404: {
      if (refusal.code === "RevisionNotFound")
        return of(`${name} has no branch, tag or commit ${asked.revision} on the Hub`);
      return of(`${what} is not a ${kind} on the Hub, nor a file or folder here`);
    }
    case 429: {
      const pause = refusal.wait > 0 ? formatDuration(refusal.wait) : "some minutes";
      const advice = token === undefined ? " Requests with HF_TOKEN have higher limits." : "";
      return of(`${endpoint} limits how often it answers and refused ${what}. Wait ${pause}, then run again.${advice}`);
    }
  }
  const reason = statusOf(error) === undefined ? networkReason(error, settings) : reasonOf(error, settings);
  if (reason === undefined) return error;
  const advice = asked.isCached ? "; HF_HUB_OFFLINE=1 uses what is in the cache" : "";
  // Data sets are often named by a task, not by a person who may have meant a folder.
  const subject = kind === "data set" ? `the data set ${what}` : `${what} is not a folder here, and`;
  return of(`${subject} could not be downloaded from ${endpoint}: ${reason}${advice}`);
}

export function statusOf(error: unknown): number | undefined {
  return error instanceof Error && "statusCode" in error ? Number(error.statusCode) : undefined;
}

/** What a server or the network says, without the token and not too long. */
export function reasonOf(error: unknown, { token }: HubSettings): string {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  // The address of a storage has a signature, which is as good as a token.
  const text = `${error instanceof Error ? error.message : error}${cause}`.replace(/(https?:\/\/[^\s?]+)\?\S+/g, "$1");
  return redactor([token])(text).slice(0, MAX_REASON);
}

/** What the network says, if the error is its. */
export function networkReason(error: unknown, settings: HubSettings): string | undefined {
  // fetch throws a TypeError with a cause; a broken stream of @huggingface/hub throws a text.
  const isNetwork =
    typeof error === "string" || (error instanceof TypeError && /fetch failed|terminated|network/i.test(error.message));
  return isNetwork ? reasonOf(error, settings) : undefined;
}
