// Reads prompts into caches: in passes of bounded size, with their common prefix computed once.

import { longestOf } from "../kit/arrays/index.js";
import { yieldToEventLoop } from "../kit/stopping/index.js";
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Output, PassResult, Wanted } from "./loaded-decoder.js";
import { logitsTokens, PASS_TOKENS } from "./model/sizes.js";

/** Texts computed at once where nothing says how many. */
export const DEFAULT_BATCH = 8;
/** A shorter common prefix is computed with each text. */
const LEAST_SHARED = 8;

/** Length of the common prefix of texts, which leaves at least one token of each. */
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
  return length >= LEAST_SHARED ? length : 0;
}

/** The last tokens of texts that end in a pass. */
export function lastOf(texts: readonly (readonly number[])[], start: number, end: number): Wanted[] {
  return texts.flatMap(({ length }, row) => (length > start && length <= end ? [{ row, at: length - 1 - start }] : []));
}

/** Computes the common prefix of texts. @returns a cache of one row, or undefined without a prefix */
export async function sharedBeginning(
  decoder: LoadedDecoder,
  tokens: readonly number[],
  planned: number,
  signal: AbortSignal | undefined,
): Promise<KeyValueCache | undefined> {
  if (tokens.length === 0) return undefined;
  const cache = decoder.newCache(1, tokens.length);
  cache.add();
  await extend(decoder, cache, [tokens], { select: () => [], outputs: [], planned, signal });
  return cache;
}

export interface ExtendOptions<W extends Wanted = Wanted> {
  /** The positions whose results are needed among the tokens [from, to) of each text; called for every pass. */
  readonly select: (from: number, to: number) => readonly W[];
  readonly outputs: readonly Output[];
  readonly onPass?: (result: PassResult, wanted: readonly W[]) => void;
  /** Final length of the longest text. */
  readonly planned: number;
  readonly signal: AbortSignal | undefined;
  /** Whether logits of all tokens are needed, which makes passes shorter; default false. */
  readonly allLogits?: boolean;
}

/** Appends tokens to every row of a cache, in as many passes as needed. */
export async function extend(
  decoder: LoadedDecoder,
  cache: KeyValueCache,
  texts: readonly (readonly number[])[],
  options: ExtendOptions,
): Promise<void> {
  const reading = passes(decoder, cache, texts, options);
  while ((await reading.next()).done !== true);
}

/** The same; yields between passes. */
export async function* passes<W extends Wanted>(
  decoder: LoadedDecoder,
  cache: KeyValueCache,
  texts: readonly (readonly number[])[],
  options: ExtendOptions<W>,
): AsyncGenerator<void, void> {
  const { select, outputs, onPass, planned, signal, allLogits = false } = options;
  const longest = longestOf(texts);
  cache.reserve(texts.reduce((most, { length }, row) => Math.max(most, cache.length(row) + length), 0));
  const tokens = allLogits ? logitsTokens(decoder.spec.vocabularySize) : PASS_TOKENS;
  const step = Math.max(1, Math.floor(tokens / texts.length));
  for (let from = 0; from < longest; from += step) {
    await yieldToEventLoop(signal);
    const to = Math.min(from + step, longest);
    const wanted = select(from, to);
    // A pass needs at least one position.
    const positions = wanted.length > 0 ? wanted : [{ row: 0, at: 0 }];
    const parts = texts.map((text) => text.slice(from, to));
    const result = await decoder.pass(cache, parts, positions, wanted.length > 0 ? outputs : [], planned);
    if (wanted.length > 0) onPass?.(result, wanted);
    if (to < longest) yield;
  }
}
