// Prompts into caches: in passes of bounded size, what all of them begin with computed once.

import { setImmediate as nextTurn } from "node:timers/promises";
import { CancelledError } from "../core/index.js";
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Output, PassResult, Wanted } from "./loaded-decoder.js";

/**
 * Tokens of a pass: enough to keep matrix products busy, few enough that scores and logits stay small. Half of the scores
 * among them are of keys that must not be seen, and exponentials as small as those are slow on some processors.
 */
const PASS_TOKENS = 192;
/** Floats of a pass's logits, of which there may be two copies at once: 128 MB. */
const PASS_LOGITS = 2 ** 24;
/** A beginning that is shorter is computed with each text. */
const WORTH_SHARING = 8;

/** Tokens that a pass over `rows` texts may have of each. */
export function passTime(decoder: LoadedDecoder, rows: number, allLogits: boolean): number {
  const tokens = allLogits ? Math.min(PASS_TOKENS, PASS_LOGITS / decoder.spec.vocabularySize) : PASS_TOKENS;
  return Math.max(1, Math.floor(tokens / rows));
}

/** Tokens of the longest text; there may be more texts than a call may have arguments. */
export function longestOf(texts: readonly (readonly number[])[]): number {
  return texts.reduce((longest, { length }) => Math.max(longest, length), 0);
}

/** Most tokens that all texts begin with, leaving at least one of each. */
export function sharedLength(texts: readonly (readonly number[])[]): number {
  const [first = []] = texts;
  if (texts.length < 2) return 0;
  let length = first.length;
  for (const text of texts) {
    const most = Math.min(length, text.length - 1);
    let same = 0;
    while (same < most && text[same] === first[same]) same++;
    length = same;
  }
  return length >= WORTH_SHARING ? length : 0;
}

/** Stops where the caller asked for it, after letting the event loop do what waits: a pass blocks it. */
export async function breathe(signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  if (signal?.aborted) throw new CancelledError("stopped before the end");
}

/** Computes what all texts begin with. @returns a cache of one row, or undefined where nothing is shared */
export async function sharedBeginning(
  decoder: LoadedDecoder,
  tokens: readonly number[],
  planned: number,
  signal: AbortSignal | undefined,
): Promise<KeyValueCache | undefined> {
  if (tokens.length === 0) return undefined;
  const cache = decoder.newCache(1, tokens.length);
  cache.add();
  await extend(decoder, cache, [tokens], { wants: () => [], outputs: [], planned, signal });
  return cache;
}

export interface ExtendOptions {
  /** What is looked at of the tokens [from, to) of each text; called for every pass in turn. */
  readonly wants: (from: number, to: number) => readonly Wanted[];
  readonly outputs: readonly Output[];
  readonly onPass?: (result: PassResult, wanted: readonly Wanted[]) => void;
  /** Length of the longest text in the end. */
  readonly planned: number;
  readonly signal: AbortSignal | undefined;
  /** Whether logits are wanted of all tokens, so that passes must be shorter; default false. */
  readonly allLogits?: boolean;
}

/** Appends tokens to every row of a cache, in as many passes as needed. */
export async function extend(
  decoder: LoadedDecoder,
  cache: KeyValueCache,
  texts: readonly (readonly number[])[],
  options: ExtendOptions,
): Promise<void> {
  const { wants, outputs, onPass, planned, signal, allLogits = false } = options;
  const longest = longestOf(texts);
  cache.reserve(texts.reduce((most, { length }, row) => Math.max(most, cache.length(row) + length), 0));
  const step = passTime(decoder, texts.length, allLogits);
  for (let from = 0; from < longest; from += step) {
    await breathe(signal);
    const to = Math.min(from + step, longest);
    const wanted = wants(from, to);
    // A pass must look at something; the first token is as good as any.
    const looked = wanted.length > 0 ? wanted : [{ row: 0, at: 0 }];
    const parts = texts.map((text) => text.slice(from, to));
    const result = await decoder.pass(cache, parts, looked, wanted.length > 0 ? outputs : [], planned);
    if (wanted.length > 0) onPass?.(result, wanted);
  }
}
