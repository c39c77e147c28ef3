// Log-probabilities of given tokens: texts are batched by length, and their common prefix is computed once.
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Wanted } from "./loaded-decoder.js";
import { extend, sharedBeginning, sharedLength } from "./prefill.js";
import { requireWhole, topLogprobs } from "./sampling.js";

export interface ScoreOptions {
  /** Texts computed at once; default 8. */
  readonly batch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** A text, and the first token to score: at least 1, as nothing predicts token 0. */
export interface ScoreRequest {
  readonly tokens: readonly number[];
  readonly from: number;
}

export interface Scores {
  /** Natural log-probability of each token from `from` on. */
  readonly logprobs: readonly number[];
  /** Whether each of them is the most likely one. */
  readonly greedy: readonly boolean[];
}

/** Scores texts. @returns in the order of the requests */
export async function scoreTexts(
  decoder: LoadedDecoder,
  requests: readonly ScoreRequest[],
  options: ScoreOptions = {},
): Promise<Scores[]> {
  const scores = requests.map(() => ({ logprobs: [] as number[], greedy: [] as boolean[] }));
  await inBatches(
    decoder,
    requests.map(({ tokens }) => tokens),
    options,
    requests.reduce((least, { from }) => Math.min(least, from - 1), Number.POSITIVE_INFINITY),
    async (cache, batch, shared, planned) => {
      const texts = batch.map((index) => requests[index]?.tokens ?? []);
      // The last token predicts none of the text.
      const inputs = texts.map((tokens) => tokens.slice(shared, -1));
      await extend(decoder, cache, inputs, {
        outputs: ["logprobs", "best"],
        planned,
        signal: options.signal,
        allLogits: true,
        select: (start, end) =>
          texts.flatMap((tokens, row): Wanted[] => {
            const from = Math.max(start, (requests[batch[row] as number]?.from ?? 1) - 1 - shared);
            const to = Math.min(end, inputs[row]?.length ?? 0);
            const count = Math.max(0, to - from);
            return Array.from({ length: count }, (_, i) => {
              return { row, at: from + i - start, next: tokens[shared + from + i + 1] ?? 0 };
            });
          }),
        onPass: ({ logprobs, best }, wanted) => {
          for (const [i, { row, next }] of wanted.entries()) {
            const score = scores[batch[row] as number];
            score?.logprobs.push(logprobs?.[i] ?? Number.NaN);
            score?.greedy.push(best?.[i] === next);
          }
        },
      });
    },
  );
  return scores;
}

/** The most likely next tokens after texts, with their natural log-probabilities. */
export async function topNext(
  decoder: LoadedDecoder,
  texts: readonly (readonly number[])[],
  count: number,
  options: ScoreOptions = {},
): Promise<{ id: number; logprob: number }[][]> {
  requireWhole({ count }, 1);
  const found: { id: number; logprob: number }[][] = texts.map(() => []);
  await inBatches(decoder, texts, options, Number.POSITIVE_INFINITY, async (cache, batch, shared, planned) => {
    const inputs = batch.map((index) => (texts[index] ?? []).slice(shared));
    await extend(decoder, cache, inputs, {
      outputs: ["logits"],
      planned,
      signal: options.signal,
      select: (start, end) => lastOf(inputs, start, end),
      onPass: ({ logits }, wanted) => {
        const width = decoder.spec.vocabularySize;
        for (const [i, { row }] of wanted.entries()) {
          const scores = logits?.subarray(i * width, (i + 1) * width) ?? new Float32Array();
          found[batch[row] as number] = topLogprobs(scores, count);
        }
      },
    });
  });
  return found;
}

/** The last tokens of texts that end in a pass. */
export function lastOf(texts: readonly (readonly number[])[], start: number, end: number): Wanted[] {
  return texts.flatMap(({ length }, row) => (length > start && length <= end ? [{ row, at: length - 1 - start }] : []));
}

const DEFAULT_BATCH = 8;

/** Calls `each` with batches of texts of similar lengths, and a cache of their common prefix. */
async function inBatches(
  decoder: LoadedDecoder,
  texts: readonly (readonly number[])[],
  { batch: size = DEFAULT_BATCH, signal, onProgress }: ScoreOptions,
  mostShared: number,
  each: (cache: KeyValueCache, batch: readonly number[], shared: number, planned: number) => Promise<void>,
): Promise<void> {
  requireWhole({ batch: size }, 1);
  const indices = [...texts.keys()].filter((index) => (texts[index]?.length ?? 0) > 0);
  const order = indices.sort((a, b) => (texts[b]?.length ?? 0) - (texts[a]?.length ?? 0) || a - b);
  const shared = Math.min(sharedLength(order.map((index) => texts[index] ?? [])), Math.max(0, mostShared));
  // Where frequencies depend on the length of each text, texts are computed one at a time.
  const isAlone = decoder.spec.ropes.some(({ long }) => long !== undefined);
  const longest = texts[order[0] as number]?.length ?? 0;
  const beginning = isAlone
    ? undefined
    : await sharedBeginning(decoder, texts[order[0] as number]?.slice(0, shared) ?? [], longest, signal);
  const common = beginning ? shared : 0;
  const step = isAlone ? 1 : size;
  for (let start = 0; start < order.length; start += step) {
    const batch = order.slice(start, start + step);
    const planned = Math.max(...batch.map((index) => texts[index]?.length ?? 0));
    const cache = decoder.newCache(batch.length, planned);
    for (const _ of batch)
      if (beginning) cache.addCopy(beginning, 0);
      else cache.add();
    await each(cache, batch, common, planned);
    onProgress?.(Math.min(start + batch.length, order.length), order.length);
  }
}
