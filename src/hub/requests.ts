// Requests to the hub: the token, retries, and what a refusal means.

import { setTimeout as sleep } from "node:timers/promises";
import { isObject, LayergraftError, redactor } from "../core/index.js";
import { HubError } from "./hub-error.js";
import type { HubSettings } from "./settings.js";

/** Retries in a row after a server error or a broken connection. */
export const MAX_RETRIES = 4;

/** A server that asks for a longer pause is reported instead. */
const LONGEST_PAUSE_SECONDS = 60;

const BROKEN_CONNECTION = ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_CONNECT_TIMEOUT"];

/**
 * A fetch that sends the token to the endpoint only: fetch drops it when a request is redirected to another origin.
 * Retries 429, as the server asks, 5xx and broken connections.
 * @param retryDelay milliseconds before the first retry, doubled each time
 */
export function hubFetch(
  { endpoint, token }: HubSettings,
  { signal, retryDelay = 500 }: { readonly signal?: AbortSignal | undefined; readonly retryDelay?: number | undefined },
): typeof fetch {
  const { origin } = new URL(endpoint);
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    const url = new URL(input instanceof Request ? input.url : input);
    if (token !== undefined && url.origin === origin) headers.set("Authorization", `Bearer ${token}`);
    for (let failures = 0; ; failures++) {
      const pause = retryDelay * 2 ** failures;
      try {
        const response = await fetch(input, { ...init, headers, ...eitherSignal(signal, init?.signal) });
        const { status } = response;
        const asked = Number(response.headers.get("retry-after") ?? 0) || 0;
        const isTransient = status === 429 || status >= 500;
        if (!isTransient || failures >= MAX_RETRIES || asked > LONGEST_PAUSE_SECONDS) return response;
        await response.body?.cancel();
        await sleep(Math.max(pause, asked * 1000), undefined, signal ? { signal } : {});
      } catch (error) {
        const isBroken = BROKEN_CONNECTION.includes(codeOf(error));
        if (signal?.aborted || !isBroken || failures >= MAX_RETRIES) throw error;
        await sleep(pause, undefined, signal ? { signal } : {});
      }
    }
  };
}

function eitherSignal(...signals: readonly (AbortSignal | null | undefined)[]): { signal?: AbortSignal } {
  const given = signals.filter((signal) => signal !== undefined && signal !== null);
  return given.length === 0 ? {} : { signal: AbortSignal.any(given) };
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return isObject(cause) ? String(cause.code) : "";
}

/** Whether a connection broke while content was received; hubFetch itself retries before that. */
export function isBrokenStream(error: unknown): boolean {
  return error instanceof TypeError && error.message === "terminated";
}

/** A refusal by its status, for requests that do not go through @huggingface/hub. */
export class StatusError extends Error {
  readonly statusCode: number;

  constructor(response: Response) {
    super(`status ${response.status} ${response.statusText}`.trimEnd());
    this.statusCode = response.status;
  }
}

/** Longest text of a server that is shown, in characters. */
const MAX_REASON = 300;

/**
 * An error of the hub or of the network, with what to do about it.
 * @param what the repository, with its revision
 * @param kind what the repository is, such as "data set"
 */
export function explain(
  error: unknown,
  settings: HubSettings,
  { what, kind, isCached }: { readonly what: string; readonly kind: string; readonly isCached: boolean },
): unknown {
  if (error instanceof LayergraftError) return error;
  const { endpoint, token } = settings;
  const status = statusOf(error);
  if (status === 401 || status === 403) {
    const advice = token === undefined ? "Set HF_TOKEN" : "HF_TOKEN is not enough; set it";
    return new HubError(
      `${what} cannot be read: it does not exist, is private, or its terms are not accepted yet. ${advice} to a token of an account with access.`,
      {},
      error,
    );
  }
  if (status === 404) {
    return new HubError(`${what} is not a ${kind} on the Hub, nor a file or folder here`, {}, error);
  }
  if (status === 429) {
    return new HubError(
      `${endpoint} limits how often it answers and refused ${what}. Wait some minutes, then run again.`,
      {},
      error,
    );
  }
  const reason = status === undefined ? networkReason(error, settings) : reasonOf(error, settings);
  if (reason === undefined) return error;
  const advice = isCached ? "; HF_HUB_OFFLINE=1 uses what is in the cache" : "";
  return new HubError(
    `${what} is not a folder here, and could not be downloaded from ${endpoint}: ${reason}${advice}`,
    {},
    error,
  );
}

/** The status of a refusal. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof Error && "statusCode" in error ? Number(error.statusCode) : undefined;
}

/** What a server or the network says, without the token and not too long. */
export function reasonOf(error: unknown, { token }: HubSettings): string {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return redactor([token])(`${error instanceof Error ? error.message : error}${cause}`).slice(0, MAX_REASON);
}

/** What the network says, if the error is its. */
export function networkReason(error: unknown, settings: HubSettings): string | undefined {
  // fetch throws a TypeError with a cause; a broken stream of @huggingface/hub throws a text.
  const isNetwork =
    typeof error === "string" || (error instanceof TypeError && /fetch failed|terminated|network/i.test(error.message));
  return isNetwork ? reasonOf(error, settings) : undefined;
}
