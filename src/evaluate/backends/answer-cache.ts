// The answers of one evaluation in a log, by what was asked, so that a resumed run asks nothing twice.
import { z } from "zod";
import { AppendLog, digestOfJson, readLog, writeFileAtomically } from "../../kit/files/index.js";
import { groupBy } from "../../kit/index.js";
import type { Executor } from "../tasks/open-tasks.js";
import {
  type Answer,
  type AnswerOptions,
  type Backend,
  type Chosen,
  type Generated,
  isError,
  type Loglikelihood,
} from "./backend.js";

/** What a backend or the sandbox answers. */
const answerSchema = z.union([
  z.looseObject({ text: z.string(), finish: z.enum(["stop", "length"]) }),
  z.looseObject({ logprob: z.number(), tokens: z.number(), greedy: z.boolean() }),
  z.looseObject({ logprobs: z.array(z.number().nullable()) }),
  z.looseObject({ outcome: z.string(), detail: z.string() }),
]);
type Kept = Generated | Loglikelihood | Chosen | Awaited<ReturnType<Executor["run"]>>;
const entrySchema = z.tuple([z.string(), answerSchema]);

export class AnswerCache {
  readonly #values: Map<string, Kept>;
  readonly #log: AppendLog;
  /** Lines that were not answers, and are gone. */
  readonly damaged: number;

  private constructor(values: Map<string, Kept>, log: AppendLog, damaged: number) {
    this.#values = values;
    this.#log = log;
    this.damaged = damaged;
  }

  /** Opens a cache, or starts one. */
  static async open(path: string): Promise<AnswerCache> {
    const { entries, bytes, damaged } = await readLog(path, (value) => entrySchema.parse(value));
    const kept = Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    if (damaged > 0) await writeFileAtomically(path, kept);
    return new AnswerCache(new Map(entries), new AppendLog(path, damaged > 0 ? kept.length : bytes), damaged);
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): Kept | undefined {
    return this.#values.get(key);
  }

  /** Keeps a value. @throws DiskFullError if there is no room */
  put(key: string, value: Kept): void {
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

  async function answer<Q extends { readonly prefix?: string | undefined }, T extends Kept>(
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
    const known = new Set(keys.filter((key) => cache.get(key) !== undefined));
    const isKnown = (place: readonly number[]): boolean => known.has(keyAt(place));
    for (const place of batches.flat().filter(isKnown)) {
      for (const index of place) {
        onCached();
        deliver(index, cache.get(keyAt(place)) as T);
      }
    }
    const asked = batches.filter((batch) => !batch.every(isKnown));
    // Batches are asked whole and one by one, so that they are the same in a resumed run.
    for (const places of backend.batches ? asked : [asked.flat()]) {
      if (places.length === 0) continue;
      await ask(
        places.flatMap(([index = 0]) => requests[index] ?? []),
        {
          signal,
          isKnown: (i) => isKnown(places[i] ?? []),
          onResult: (i, result) => {
            const place = places[i] ?? [];
            if (isKnown(place)) return;
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
