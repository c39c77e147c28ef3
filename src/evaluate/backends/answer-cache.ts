// The answers of one evaluation in a log, by what was asked, so that a resumed run asks nothing twice.
import { z } from "zod";
import { AppendLog, digestOfJson, groupBy, readLog } from "../../core/index.js";
import { type Answer, type AnswerOptions, type Backend, isError } from "./backend.js";

const entrySchema = z.tuple([z.string(), z.unknown()]);

export class AnswerCache {
  readonly #values: Map<string, unknown>;
  readonly #log: AppendLog;

  private constructor(values: Map<string, unknown>, log: AppendLog) {
    this.#values = values;
    this.#log = log;
  }

  /**
   * Opens a cache, or starts one.
   * @throws OutputError if a line other than the last is damaged
   */
  static async open(path: string): Promise<AnswerCache> {
    const { entries, bytes } = await readLog(path, (value) => entrySchema.parse(value));
    return new AnswerCache(new Map(entries), new AppendLog(path, bytes));
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): unknown {
    return this.#values.get(key);
  }

  /** Keeps a value. @throws DiskFullError if there is no room */
  put(key: string, value: unknown): void {
    if (this.#values.has(key)) return;
    this.#values.set(key, value);
    this.#log.add([key, value]);
  }

  close(): void {
    this.#log.close();
  }
}

/** A key for anything that JSON can say: the first 128 bits of its SHA-256. */
export function keyOf(...content: readonly unknown[]): string {
  return digestOfJson(content).slice(0, 32);
}

/**
 * A backend that asks only for answers that are not in the cache, and for equal requests once. Errors are not stored, so
 * they are asked again.
 * @param onCached called for each answer from the cache
 */
export function withCache(backend: Backend, cache: AnswerCache, onCached: () => void = () => undefined): Backend {
  const { identity } = backend;

  async function answer<Q extends { readonly prefix?: string | undefined }, T extends object>(
    kind: string,
    requests: readonly Q[],
    ask: (requests: readonly Q[], options: AnswerOptions<T>) => Promise<Answer<T>[]>,
    { signal, onResult }: AnswerOptions<T> = {},
  ): Promise<Answer<T>[]> {
    // The prefix only groups requests.
    const keys = requests.map(({ prefix: _, ...content }) => keyOf(identity, kind, content));
    const answers: Answer<T>[] = [];
    const deliver = (index: number, result: Answer<T>): void => {
      answers[index] = result;
      onResult?.(index, result);
    };
    // What is asked together, each place with all the requests that it answers.
    const equals = [...groupBy(keys.keys(), (index) => keys[index] ?? "").values()];
    const batches =
      backend.batches?.(requests).map((batch) => batch.map((index) => [index])) ?? equals.map((one) => [one]);
    const keyAt = (place: readonly number[]): string => keys[place[0] ?? 0] ?? "";
    const isCached = (batch: number[][]): boolean => batch.every((place) => cache.get(keyAt(place)) !== undefined);
    for (const place of batches.filter(isCached).flat()) {
      for (const index of place) {
        onCached();
        deliver(index, cache.get(keyAt(place)) as T);
      }
    }
    const asked = batches.filter((batch) => !isCached(batch));
    // Batches are asked whole and one by one, so that they are the same in a resumed run.
    for (const places of backend.batches ? asked : [asked.flat()]) {
      if (places.length === 0) continue;
      await ask(
        places.flatMap(([index = 0]) => requests[index] ?? []),
        {
          signal,
          onResult: (i, result) => {
            const place = places[i] ?? [];
            if (!isError(result)) cache.put(keyAt(place), result);
            for (const index of place) deliver(index, result);
          },
        },
      );
    }
    return answers;
  }

  return {
    ...backend,
    generate: (requests, options) => answer("generate", requests, backend.generate, options),
    loglikelihood: (requests, options) => answer("loglikelihood", requests, backend.loglikelihood, options),
    choose: (requests, options) => answer("choose", requests, backend.choose, options),
  };
}
