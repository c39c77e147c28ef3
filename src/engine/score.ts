// Log-probabilities of given tokens. Texts are batched by length; what all begin with is computed once, and so is a context
// that has several continuations, such as a question and its choices.
import { groupBy } from "../kit/index.js";
import type { LoadedDecoder, Wanted } from "./loaded-decoder.js";
import { extend, longestOf, sharedBeginning, sharedLength } from "./prefill.js";
import { requireWhole } from "./sampling.js";

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

const DEFAULT_BATCH = 8;

/** Scores texts. @returns in the order of the requests */
export async function scoreTexts(
  decoder: LoadedDecoder,
  requests: readonly ScoreRequest[],
  { batch: size = DEFAULT_BATCH, signal, onProgress }: ScoreOptions = {},
): Promise<Scores[]> {
  requireWhole({ batch: size }, 1);
  const scores = requests.map(() => ({ logprobs: [] as number[], greedy: [] as boolean[] }));
  const textOf = (index: number) => requests[index]?.tokens ?? [];
  // The token before the first scored one is the first that has a result.
  const contexts = requests.map(({ tokens, from }) => tokens.slice(0, from - 1));
  const keys = contexts.map((context) => context.join());
  const indices = [...requests.keys()].filter((index) => textOf(index).length > 0);
  // A batch has texts of similar lengths, and those with the same context side by side.
  const longestFirst = (a: number, b: number) => textOf(b).length - textOf(a).length || a - b;
  const order = [...groupBy(indices.sort(longestFirst), (index) => keys[index]).values()].flat();
  const least = requests.reduce((before, { from }) => Math.min(before, from - 1), Number.POSITIVE_INFINITY);
  const common = Math.min(sharedLength(order.map(textOf)), Math.max(0, least));
  const { isAlone } = decoder;
  const longest = textOf(order[0] as number);
  const beginning = isAlone
    ? undefined
    : await sharedBeginning(decoder, longest.slice(0, common), longest.length, signal);
  const shared = beginning ? common : 0;
  const step = isAlone ? 1 : size;
  for (let start = 0; start < order.length; start += step) {
    const batch = order.slice(start, start + step);
    const texts = batch.map(textOf);
    const planned = longestOf(texts);
    const groups = groupBy(batch, (index) => keys[index]);
    const hasShared = groups.size < batch.length;
    const parts = [...groups.values()].map(([index = 0]) => (hasShared ? (contexts[index] ?? []).slice(shared) : []));
    const read = decoder.newCache(parts.length, shared + longestOf(parts));
    for (const _ of parts)
      if (beginning) read.addCopy(beginning, 0);
      else read.add();
    await extend(decoder, read, parts, { select: () => [], outputs: [], planned, signal });
    const cache = decoder.newCache(batch.length, planned);
    const places = [...groups.keys()];
    for (const index of batch) cache.addCopy(read, places.indexOf(keys[index]));
    const known = batch.map((_, row) => cache.length(row));
    // The last token predicts none of the text.
    const inputs = texts.map((tokens, row) => tokens.slice(known[row], -1));
    await extend(decoder, cache, inputs, {
      outputs: ["logprobs", "best"],
      planned,
      signal,
      allLogits: true,
      select: (begin, end) =>
        texts.flatMap((tokens, row): Wanted[] => {
          const start = known[row] as number;
          const from = Math.max(begin, (contexts[batch[row] as number]?.length ?? 0) - start);
          const count = Math.max(0, Math.min(end, inputs[row]?.length ?? 0) - from);
          return Array.from({ length: count }, (_, i) => {
            return { row, at: from + i - begin, next: tokens[start + from + i + 1] ?? 0 };
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
    onProgress?.(Math.min(start + batch.length, order.length), order.length);
  }
  return scores;
}
