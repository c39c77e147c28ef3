// What the adapters of servers share: asking many things at once, and reading JSON that a stranger wrote.

import { setMaxListeners } from "node:events";
import { LayergraftError } from "../../core/index.js";
import type { Answer, AnswerOptions, Problem } from "./backend.js";
import { ServerError } from "./http.js";
import { stopped } from "./stopped.js";

/**
 * Answers of a server that say: this request, not you or me, is at fault; too long a prompt, most of all. 200: again and
 * again no answer was in it.
 */
const REFUSALS = [200, 400, 413, 422];

/**
 * Answers requests, a bounded number at once. What the server refuses becomes a fault of that request; any other error
 * ends all of it, after the requests under way.
 */
export async function answerAll<Q, T extends object>(
  requests: readonly Q[],
  concurrency: number,
  one: (request: Q, signal: AbortSignal | undefined) => Promise<Answer<T>>,
  options: AnswerOptions<T> = {},
): Promise<Answer<T>[]> {
  const answers: Answer<T>[] = [];
  // One failure stops the others' waiting, which may be long.
  const failure = new AbortController();
  const signal = AbortSignal.any([failure.signal, ...(options.signal ? [options.signal] : [])]);
  // Every request under way listens to it.
  setMaxListeners(0, signal);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < requests.length && !signal.aborted) {
      const index = next++;
      const answer = await one(requests[index] as Q, signal).catch((error: unknown): Problem => {
        if (error instanceof ServerError && REFUSALS.includes(error.status)) return { fault: error.message };
        throw error;
      });
      answers[index] = answer;
      options.onResult?.(index, answer);
    }
  };
  let first: unknown;
  const workers = Array.from({ length: Math.min(concurrency, requests.length) }, () =>
    worker().catch((error: unknown) => {
      if (first === undefined) first = error;
      failure.abort();
    }),
  );
  await Promise.all(workers);
  if (first !== undefined) throw first;
  if (options.signal?.aborted) throw stopped();
  return answers;
}

export type Json = Record<string, unknown>;

/** A field that is an object; an empty one where it is not. */
export function objectAt(value: unknown, key: string | number): Json {
  const inner = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
  return typeof inner === "object" && inner !== null ? (inner as Json) : {};
}

export function listAt(value: unknown, key: string): unknown[] {
  const inner = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
  return Array.isArray(inner) ? inner : [];
}

export function stringAt(value: unknown, key: string): string | undefined {
  const inner = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
  return typeof inner === "string" ? inner : undefined;
}

export function numberAt(value: unknown, key: string): number | undefined {
  const inner = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
  return typeof inner === "number" && Number.isFinite(inner) ? inner : undefined;
}

/** Whether a value is a list of token ids. */
export function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && (id as number) >= 0);
}

/** What the answer of a server that tokenizes lacks. */
export function lacksIds(reply: unknown): string | undefined {
  return isIds((reply as Json | null)?.tokens) ? undefined : "token ids";
}

/** For what a server cannot do and was asked for nevertheless. */
export function unable(what: string, reason: string): LayergraftError {
  return new LayergraftError("backend", `this backend cannot ${what}: ${reason}`);
}
