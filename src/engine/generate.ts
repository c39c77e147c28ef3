// Answers to prompts, many at a time: rows of a batch are taken by the next prompt as soon as an answer ends.
import { Random } from "../core/random.js";
import type { KeyValueCache } from "./cache.js";
import type { LoadedDecoder } from "./loaded-decoder.js";
import { breathe, extend, sharedBeginning, sharedLength } from "./prefill.js";
import { type SamplingOptions, sampleToken } from "./sampling.js";
import { lastOf } from "./score.js";

export interface GenerateTokensOptions extends SamplingOptions {
  /** Most new tokens of an answer. */
  readonly maxNewTokens: number;
  /** Tokens that end an answer and do not belong to it. */
  readonly stopIds: ReadonlySet<number>;
  /** Seed of the chance that sampling draws from; each prompt has a stream of its own. Default 0. */
  readonly seed?: number | undefined;
  /** Prompts answered at once; default 8. */
  readonly batch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Takes each new token. Returning "stop" ends the answer after it. */
  readonly onToken?: (prompt: number, id: number) => "stop" | undefined;
  readonly onDone?: (prompt: number, answer: TokenAnswer) => void;
}

export interface TokenAnswer {
  readonly ids: readonly number[];
  /** stop: `onToken` said so. end: one of `stopIds`. length: no more tokens were allowed, or fit into the context. */
  readonly finish: "stop" | "end" | "length";
}

const DEFAULT_BATCH = 8;

/** Answers prompts of at least one token. @returns in the order of the prompts */
export async function generateTokens(
  decoder: LoadedDecoder,
  prompts: readonly (readonly number[])[],
  options: GenerateTokensOptions,
): Promise<TokenAnswer[]> {
  const generation = new Generation(decoder, prompts, options);
  return generation.run();
}

/** An answer under way. */
interface Row {
  readonly prompt: number;
  readonly random: Random;
  readonly ids: number[];
}

class Generation {
  readonly #decoder: LoadedDecoder;
  readonly #prompts: readonly (readonly number[])[];
  readonly #options: GenerateTokensOptions;
  readonly #answers: TokenAnswer[];
  readonly #cache: KeyValueCache;
  /** By row of the cache. */
  readonly #rows: Row[] = [];
  readonly #batch: number;

  constructor(decoder: LoadedDecoder, prompts: readonly (readonly number[])[], options: GenerateTokensOptions) {
    this.#decoder = decoder;
    this.#prompts = prompts;
    this.#options = options;
    this.#answers = prompts.map(() => ({ ids: [], finish: "length" }));
    // Where frequencies depend on the length, each text has its own: such models answer one by one.
    const isAlone = decoder.spec.ropes.some(({ long }) => long !== undefined);
    this.#batch = Math.max(1, isAlone ? 1 : Math.min(options.batch ?? DEFAULT_BATCH, prompts.length));
    this.#cache = decoder.newCache(this.#batch);
  }

  async run(): Promise<TokenAnswer[]> {
    const { signal } = this.#options;
    const shared = this.#batch > 1 ? sharedLength(this.#prompts) : 0;
    const longest = Math.max(...this.#prompts.map(({ length }) => length));
    const beginning = await sharedBeginning(this.#decoder, this.#prompts[0]?.slice(0, shared) ?? [], longest, signal);
    let next = 0;
    while (next < this.#prompts.length || this.#rows.length > 0) {
      if (next < this.#prompts.length && this.#rows.length < this.#batch) {
        // Prompts wait until a quarter of the rows is free: read together they are read faster.
        const free = this.#batch - this.#rows.length;
        if (this.#rows.length === 0 || free >= Math.max(1, this.#batch / 4)) {
          const count = Math.min(free, this.#prompts.length - next);
          await this.#admit(
            Array.from({ length: count }, (_, i) => next + i),
            beginning,
            shared,
          );
          next += count;
          continue;
        }
      }
      await this.#step();
    }
    return this.#answers;
  }

  /** Reads prompts and draws the first token of each answer. */
  async #admit(prompts: readonly number[], beginning: KeyValueCache | undefined, shared: number): Promise<void> {
    const texts = prompts.map((prompt) => (this.#prompts[prompt] ?? []).slice(shared));
    const planned = Math.max(...texts.map(({ length }) => shared + length));
    const cache = this.#decoder.newCache(prompts.length, planned);
    for (const _ of prompts)
      if (beginning) cache.addCopy(beginning, 0);
      else cache.add();
    const first: (number | undefined)[] = [];
    const rows = prompts.map(
      (prompt): Row => ({
        prompt,
        random: Random.of(this.#options.seed ?? 0, `answer ${prompt}`),
        ids: [],
      }),
    );
    await extend(this.#decoder, cache, texts, {
      outputs: [this.#output],
      planned,
      signal: this.#options.signal,
      wants: (start, end) => lastOf(texts, start, end),
      onPass: (result, wanted) => {
        for (const [i, { row }] of wanted.entries()) first[row] = this.#draw(rows[row] as Row, result, i);
      },
    });
    for (const [i, row] of rows.entries()) {
      if (this.#take(row, first[i] ?? 0)) continue;
      this.#cache.addCopy(cache, i);
      this.#rows.push(row);
    }
  }

  /** One more token of every answer under way. */
  async #step(): Promise<void> {
    await breathe(this.#options.signal);
    this.#cache.reserve(Math.max(...this.#rows.map((_, row) => this.#cache.length(row) + 1)));
    const tokens = this.#rows.map(({ ids }) => [ids.at(-1) ?? 0]);
    const wanted = this.#rows.map((_, row) => ({ row, at: 0 }));
    const result = await this.#decoder.pass(this.#cache, tokens, wanted, [this.#output]);
    const drawn = this.#rows.map((row, i) => this.#draw(row, result, i));
    for (let i = this.#rows.length - 1; i >= 0; i--) {
      if (!this.#take(this.#rows[i] as Row, drawn[i] as number)) continue;
      this.#cache.remove(i);
      // As in the cache, the last row takes the place.
      const last = this.#rows.pop() as Row;
      if (i < this.#rows.length) this.#rows[i] = last;
    }
  }

  get #output(): "best" | "logits" {
    return (this.#options.temperature ?? 0) === 0 ? "best" : "logits";
  }

  #draw(row: Row, { logits, best }: { logits?: Float32Array; best?: readonly number[] }, at: number): number {
    if (!logits) return best?.[at] ?? 0;
    const width = this.#decoder.spec.vocabularySize;
    return sampleToken(logits.subarray(at * width, (at + 1) * width), this.#options, row.random);
  }

  /** Adds a token to an answer. @returns whether the answer has ended */
  #take(row: Row, id: number): boolean {
    const { maxNewTokens, stopIds, onToken } = this.#options;
    if (stopIds.has(id)) return this.#finish(row, "end");
    if (maxNewTokens === 0) return this.#finish(row, "length");
    row.ids.push(id);
    if (onToken?.(row.prompt, id) === "stop") return this.#finish(row, "stop");
    const length = (this.#prompts[row.prompt]?.length ?? 0) + row.ids.length;
    const isFull = row.ids.length >= maxNewTokens || length >= this.#decoder.spec.contextLength;
    return isFull && this.#finish(row, "length");
  }

  #finish({ prompt, ids }: Row, finish: TokenAnswer["finish"]): true {
    const answer = { ids, finish };
    this.#answers[prompt] = answer;
    this.#options.onDone?.(prompt, answer);
    return true;
  }
}
