import { setMaxListeners } from "node:events";
import pLimit from "p-limit";
import { isObject } from "../../kit/index.js";
import { encodePair } from "../../text/index.js";
import {
  type Answer,
  type AnswerOptions,
  type ChooseRequest,
  type Encode,
  type RequestError,
  stopped,
} from "./backend.js";
import { ServerError } from "./http.js";

/** Statuses that concern one request, such as a prompt that is too long. 200: no attempt had an answer in it. */
const REFUSALS = [200, 400, 413, 422];

export type Answerer<Q, T extends object> = (request: Q, signal: AbortSignal | undefined) => Promise<Answer<T>>;

/**
 * Answers requests, a bounded number at once. What the server refuses becomes the error of that request. Any other error
 * ends all requests.
 */
export async function answerAll<Q, T extends object>(
  requests: readonly Q[],
  concurrency: number,
  answerOne: Answerer<Q, T>,
  options: AnswerOptions<T> = {},
): Promise<Answer<T>[]> {
  const failure = new AbortController();
  const signal = AbortSignal.any([failure.signal, ...(options.signal ? [options.signal] : [])]);
  // Every request under way listens to it.
  setMaxListeners(0, signal);
  const limit = pLimit(concurrency);
  const answers: Answer<T>[] = [];
  const answer = async (request: Q, index: number): Promise<void> => {
    if (signal.aborted) return;
    const result = await answerOne(request, signal).catch((error: unknown): RequestError => {
      if (error instanceof ServerError && REFUSALS.includes(error.status)) return { error: error.message };
      throw error;
    });
    answers[index] = result;
    options.onResult?.(index, result);
  };
  const all = requests.map((request, index) =>
    limit(answer, request, index).catch((error: unknown) => failure.abort({ error })),
  );
  await Promise.all(all);
  if (options.signal?.aborted) throw stopped();
  if (failure.signal.aborted) throw (failure.signal.reason as { error: unknown }).error;
  return answers;
}

/** The token of each choice, or why the choices cannot be weighed as next tokens. */
export async function tokensOfChoices(
  encode: Encode,
  { context, choices, specialTokens = true }: ChooseRequest,
  signal: AbortSignal | undefined,
): Promise<number[] | RequestError> {
  const ids: number[] = [];
  for (const continuation of choices) {
    const request = { context, continuation, specialTokens };
    const pair = await encodePair((text, marks) => encode(text, marks, signal), request);
    const [id] = pair.continuation;
    if (id === undefined || pair.continuation.length > 1) {
      const tokens = pair.continuation.length;
      return { error: `"${continuation}" is ${tokens} tokens here, not one, so no list of next tokens has it` };
    }
    ids.push(id);
  }
  return ids;
}

const fieldOf = (value: unknown, key: string): unknown => (isObject(value) ? value[key] : undefined);

/** A field that is an object; an empty one where it is not. */
export function objectAt(value: unknown, key: string): Readonly<Record<string, unknown>> {
  const inner = fieldOf(value, key);
  return isObject(inner) ? inner : {};
}

export function listAt(value: unknown, key: string): unknown[] {
  const inner = fieldOf(value, key);
  return Array.isArray(inner) ? inner : [];
}

export function stringAt(value: unknown, key: string): string | undefined {
  const inner = fieldOf(value, key);
  return typeof inner === "string" ? inner : undefined;
}

export function numberAt(value: unknown, key: string): number | undefined {
  const inner = fieldOf(value, key);
  return typeof inner === "number" && Number.isFinite(inner) ? inner : undefined;
}

/** The field `tokens` where it is a list of token ids. */
export function idsOf(reply: unknown): number[] | undefined {
  const ids = fieldOf(reply, "tokens");
  const isId = (id: unknown) => Number.isSafeInteger(id) && Number(id) >= 0;
  return Array.isArray(ids) && ids.every(isId) ? ids : undefined;
}
