// Answers kept by what was asked, one line each, appended as they come: a run that is taken up again asks nothing twice.
// Not a store between runs: it lies in the output folder and belongs to its settings.
import { createHash } from "node:crypto";
import { type FileHandle, open, readFile } from "node:fs/promises";
import { isSystemError, OutputError } from "../../core/errors.js";
import { groupBy } from "../../core/group.js";
import { type Answer, type AnswerOptions, type Backend, isFault } from "./backend.js";

/** A cache file. Only whole lines count: what a killed run left of its last one is cut off. */
export class AnswerCache {
  readonly #path: string;
  readonly #values: Map<string, unknown>;
  readonly #handle: FileHandle;
  #writing: Promise<void> = Promise.resolve();
  #failure: unknown;

  private constructor(path: string, values: Map<string, unknown>, handle: FileHandle) {
    this.#path = path;
    this.#values = values;
    this.#handle = handle;
  }

  /**
   * Opens a cache, or begins one.
   * @throws {OutputError} when a line in it, other than a torn last one, is not ours
   */
  static async open(path: string): Promise<AnswerCache> {
    const bytes = await readFile(path).catch((error: unknown) => {
      if (isSystemError(error, "ENOENT")) return Buffer.alloc(0);
      throw error;
    });
    const whole = bytes.lastIndexOf(0x0a) + 1;
    const values = new Map<string, unknown>();
    const lines = bytes.subarray(0, whole).toString("utf8").split("\n").slice(0, -1);
    for (const [i, line] of lines.entries()) {
      const entry = readEntry(line);
      if (!entry) {
        throw new OutputError(`${path}, line ${i + 1} is no answer that was kept here; remove the file to ask again`, {
          file: path,
        });
      }
      values.set(...entry);
    }
    const handle = await open(path, "a");
    if (whole < bytes.length) await handle.truncate(whole);
    return new AnswerCache(path, values, handle);
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): unknown {
    return this.#values.get(key);
  }

  /** Keeps a value; it is on its way to the file when this returns, and there when close() has. */
  put(key: string, value: unknown): void {
    if (this.#values.has(key)) return;
    this.#values.set(key, value);
    const line = `${JSON.stringify([key, value])}\n`;
    this.#writing = this.#writing
      .then(() => this.#handle.appendFile(line))
      .catch((error: unknown) => {
        this.#failure ??= error;
      });
  }

  /** @throws {OutputError} when something could not be written */
  async close(): Promise<void> {
    await this.#writing;
    await this.#handle.close();
    if (this.#failure !== undefined) {
      throw new OutputError(
        `${this.#path} could not be written: ${(this.#failure as Error).message}`,
        { file: this.#path },
        this.#failure,
      );
    }
  }
}

function readEntry(line: string): [string, unknown] | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return Array.isArray(value) && typeof value[0] === "string" && value.length === 2
      ? [value[0], value[1]]
      : undefined;
  } catch {
    return undefined;
  }
}

/** A key for anything that JSON can say: the first 128 bits of its SHA-256. */
export function keyOf(...content: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(content)).digest("hex").slice(0, 32);
}

/**
 * A backend that asks only for what the cache does not hold, and for equal requests once. Faults are not kept: a server
 * that was set right in the meantime gets another chance.
 * @param onKept called for each answer that was there
 */
export function withCache(backend: Backend, cache: AnswerCache, onKept: () => void = () => undefined): Backend {
  const { identity } = backend;

  async function answer<Q extends { readonly prefix?: string | undefined }, T extends object>(
    kind: string,
    requests: readonly Q[],
    ask: (requests: readonly Q[], options: AnswerOptions<T>) => Promise<Answer<T>[]>,
    { signal, onResult }: AnswerOptions<T> = {},
  ): Promise<Answer<T>[]> {
    // What is computed once for several is no part of what is asked.
    const keys = requests.map(({ prefix: _, ...content }) => keyOf(identity, kind, content));
    const answers: Answer<T>[] = [];
    const take = (index: number, result: Answer<T>): void => {
      answers[index] = result;
      onResult?.(index, result);
    };
    // What is asked together, each place with all the requests that it answers.
    const equals = [...groupBy(keys.keys(), (index) => keys[index] ?? "").values()];
    const batches =
      backend.batches?.(requests).map((batch) => batch.map((index) => [index])) ?? equals.map((one) => [one]);
    const keyAt = (place: readonly number[]): string => keys[place[0] ?? 0] ?? "";
    const isKept = (batch: number[][]): boolean => batch.every((place) => cache.get(keyAt(place)) !== undefined);
    for (const place of batches.filter(isKept).flat()) {
      for (const index of place) {
        onKept();
        take(index, cache.get(keyAt(place)) as T);
      }
    }
    const asked = batches.filter((batch) => !isKept(batch));
    // Batches go one by one, each whole, so that they are the same ones whatever is kept; single requests together.
    for (const places of backend.batches ? asked : [asked.flat()]) {
      if (places.length === 0) continue;
      await ask(
        places.flatMap(([index = 0]) => requests[index] ?? []),
        {
          signal,
          onResult: (i, result) => {
            const place = places[i] ?? [];
            if (!isFault(result)) cache.put(keyAt(place), result);
            for (const index of place) take(index, result);
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
