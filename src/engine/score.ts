// Log-probabilities of given tokens. Texts are batched by length; what all begin with is computed once, and so is a
// context that has several continuations in a batch, such as a question and its choices.
import { longestOf } from "../kit/arrays/index.js";
import { groupBy } from "../kit/index.js";
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Wanted } from "./loaded-decoder.js";
import { DEFAULT_BATCH, extend, sharedBeginning, sharedLength } from "./prefill.js";
import { requireWhole } from "./sampling.js";

export interface ScoreOptions {
  /** Texts computed at once; default 8. */
  readonly batch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** Options where each result is handed over when it is there. */
export interface ScoreEachOptions<T> extends ScoreOptions {
  /** Takes the scores of each text, by its index, when they are computed. Default: none. */
  readonly onDone?: ((index: number, scores: T) => void) | undefined;
  /**
   * Whether the caller has the scores of a text. Batches are those of all texts, and one whose scores are all known is left
   * out, so that the others have the same bits as without. Default: none are known.
   */
  readonly isKnown?: ((index: number) => boolean) | undefined;
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

/** What texts have before their first result, as keys: the token before the first scored one is the first that has a result. */
export function contextKeys(requests: readonly ScoreRequest[]): string[] {
  return requests.map(({ tokens, from }) => tokens.slice(0, from - 1).join());
}

/** Scores texts. @returns in the order of the requests; nothing for those that are known */
export async function scoreTexts(
  decoder: LoadedDecoder,
  requests: readonly ScoreRequest[],
  { batch: size = DEFAULT_BATCH, signal, onProgress, onDone, isKnown }: ScoreEachOptions<Scores> = {},
): Promise<Scores[]> {
  requireWhole({ batch: size }, 1);
  const scores = requests.map(() => ({ logprobs: [] as number[], greedy: [] as boolean[] }));
  const textOf = (index: number) => requests[index]?.tokens ?? [];
  const contexts = requests.map(({ tokens, from }) => tokens.slice(0, from - 1));
  const keys = contextKeys(requests);
  const indices = [...requests.keys()].filter((index) => textOf(index).length > 0);
  const longestFirst = (a: number, b: number) => textOf(b).length - textOf(a).length || a - b;
  const groups = [...groupBy(indices.sort(longestFirst), (index) => keys[index]).values()];
  const order = groups.flat();
  const least = requests.reduce((before, { from }) => Math.min(before, from - 1), Number.POSITIVE_INFINITY);
  const common = Math.min(sharedLength(order.map(textOf)), Math.max(0, least));
  const { isAlone } = decoder;
  const longest = textOf(order[0] as number);
  const beginning = isAlone
    ? undefined
    : await sharedBeginning(decoder, longest.slice(0, common), longest.length, signal);
  const shared = beginning ? common : 0;
  let done = 0;
  for (const batch of batchesOf(groups, isAlone ? 1 : size)) {
    done += batch.length;
    if (isKnown && batch.every(isKnown)) continue;
    const texts = batch.map(textOf);
    const planned = longestOf(texts);
    const places = [...new Set(batch.map((index) => keys[index]))];
    const cache = decoder.newCache(batch.length, planned);
    if (places.length < batch.length) {
      const first = places.map((key) => contexts[keys.indexOf(key as string)] ?? []);
      const read = decoder.newCache(places.length, longestOf(first));
      addRows(read, places.length, beginning);
      const rest = first.map((context) => context.slice(shared));
      await extend(decoder, read, rest, { select: () => [], outputs: [], planned, signal });
      for (const index of batch) cache.addCopy(read, places.indexOf(keys[index]));
    } else addRows(cache, batch.length, beginning);
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
    for (const index of batch) onDone?.(index, scores[index] as Scores);
    onProgress?.(done, order.length);
  }
  return scores;
}

/** Groups of texts with the same context, joined where they fit in a batch, and cut where one does not. */
function batchesOf(groups: readonly (readonly number[])[], size: number): number[][] {
  const batches: number[][] = [];
  for (const group of groups) {
    for (let start = 0; start < group.length; start += size) {
      const part = group.slice(start, start + size);
      const last = batches.at(-1);
      if (last && last.length + part.length <= size) last.push(...part);
      else batches.push(part);
    }
  }
  return batches;
}

function addRows(cache: KeyValueCache, count: number, beginning: KeyValueCache | undefined): void {
  for (let row = 0; row < count; row++) {
    if (beginning) cache.addCopy(beginning, 0);
    else cache.add();
  }
}
