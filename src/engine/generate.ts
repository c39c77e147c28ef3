// Answers many prompts at a time: a row of the batch gets the next prompt as soon as its answer ends.
import { Random } from "../core/index.js";
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Output, PassResult } from "./loaded-decoder.js";
import { requireNumber, requireWhole } from "./options.js";
import { extend, longestOf, sharedBeginning, sharedLength, yieldToEventLoop } from "./prefill.js";
import { type SamplingOptions, sampleToken } from "./sampling.js";
import { lastOf } from "./score.js";

export interface GenerateTokensOptions extends SamplingOptions {
  /** Most new tokens of an answer. */
  readonly maxNewTokens: number;
  /** Tokens that end an answer and are not part of it. */
  readonly stopIds: ReadonlySet<number>;
  /** Seed of sampling; each prompt has its own random stream. Default 0. */
  readonly seed?: number | undefined;
  /** Prompts answered at once; default 8. */
  readonly batch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Receives each new token. Returning "stop" ends the answer after it. */
  readonly onToken?: (prompt: number, id: number) => "stop" | undefined;
  readonly onDone?: (prompt: number, answer: TokenAnswer) => void;
}

export interface TokenAnswer {
  readonly ids: readonly number[];
  /**
   * stop: `onToken` returned it. end: one of `stopIds`. length: `maxNewTokens` or the context is reached. invalid: a logit
   * is not a number.
   */
  readonly finish: "stop" | "end" | "length" | "invalid";
}

const DEFAULT_BATCH = 8;

/**
 * Answers prompts of at least one token.
 * @returns in the order of the prompts
 * @throws LayergraftError if an option is out of its range
 * @throws CancelledError if the signal fires
 */
export async function generateTokens(
  decoder: LoadedDecoder,
  prompts: readonly (readonly number[])[],
  options: GenerateTokensOptions,
): Promise<TokenAnswer[]> {
  const { maxNewTokens, temperature, topK, topP, batch } = options;
  requireWhole({ maxNewTokens }, 0);
  requireWhole({ topK, batch }, 1);
  requireNumber({ temperature }, Number.POSITIVE_INFINITY);
  requireNumber({ topP }, 1);
  const generation = new Generation(decoder, prompts, options);
  return generation.run();
}

/** An unfinished answer. */
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
  /** Answers by row of the cache. */
  readonly #rows: Row[] = [];
  readonly #batch: number;
  /** Length beyond which a text has other frequencies (LongRoPE). */
  readonly #longAbove: number;

  constructor(decoder: LoadedDecoder, prompts: readonly (readonly number[])[], options: GenerateTokensOptions) {
    this.#decoder = decoder;
    this.#prompts = prompts;
    this.#options = options;
    this.#answers = prompts.map(() => ({ ids: [], finish: "length" }));
    this.#longAbove = Math.min(...decoder.spec.ropes.map(({ long }) => long?.above ?? Number.POSITIVE_INFINITY));
    // Frequencies then depend on the length of each text, so such models answer one prompt at a time.
    const isAlone = Number.isFinite(this.#longAbove);
    this.#batch = isAlone ? 1 : Math.min(options.batch ?? DEFAULT_BATCH, prompts.length);
    this.#cache = decoder.newCache(this.#batch);
  }

  async run(): Promise<TokenAnswer[]> {
    const waiting = this.#prompts.flatMap((_, prompt): Row[] => {
      const row = { prompt, random: Random.of(this.#options.seed ?? 0, `answer ${prompt}`), ids: [] };
      return this.#isFull(row) && this.#finish(row, "length") ? [] : [row];
    });
    const texts = waiting.map((row) => this.#textOf(row));
    const shared = this.#batch > 1 ? sharedLength(texts) : 0;
    const beginning = await sharedBeginning(this.#decoder, texts[0]?.slice(0, shared) ?? [], 0, this.#options.signal);
    let next = 0;
    while (next < waiting.length || this.#rows.length > 0) {
      // Prompts wait until a quarter of the rows is free, as reading several together is faster.
      const free = this.#batch - this.#rows.length;
      if (next < waiting.length && free >= Math.max(1, this.#batch / 4)) {
        const admitted = waiting.slice(next, next + free);
        await this.#read(admitted, beginning, shared);
        next += admitted.length;
      } else await this.#step();
    }
    return this.#answers;
  }

  /** Prompt and answer so far. */
  #textOf({ prompt, ids }: Row): number[] {
    return [...(this.#prompts[prompt] ?? []), ...ids];
  }

  /** Computes texts and samples the next token of each. */
  async #read(rows: readonly Row[], beginning?: KeyValueCache, shared = 0): Promise<void> {
    const texts = rows.map((row) => this.#textOf(row).slice(shared));
    const planned = shared + longestOf(texts);
    const cache = this.#decoder.newCache(rows.length, planned);
    for (const _ of rows)
      if (beginning) cache.addCopy(beginning, 0);
      else cache.add();
    const drawn: (number | undefined)[] = [];
    await extend(this.#decoder, cache, texts, {
      outputs: this.#outputs,
      planned,
      signal: this.#options.signal,
      select: (start, end) => lastOf(texts, start, end),
      onPass: (result, wanted) => {
        for (const [i, { row }] of wanted.entries()) drawn[row] = this.#draw(rows[row] as Row, result, i);
      },
    });
    for (const [i, row] of rows.entries()) {
      if (this.#accept(row, drawn[i])) continue;
      this.#cache.addCopy(cache, i);
      this.#rows.push(row);
    }
  }

  /** Computes one more token of every answer. */
  async #step(): Promise<void> {
    await yieldToEventLoop(this.#options.signal);
    const [first] = this.#rows;
    if (first && this.#batch === 1 && this.#cache.length(0) === this.#longAbove) {
      // The cached keys were rotated by the frequencies of short texts.
      this.#cache.remove(0);
      this.#rows.pop();
      return this.#read([first]);
    }
    const tokens = this.#rows.map(({ ids }) => [ids.at(-1) ?? 0]);
    const wanted = this.#rows.map((_, row) => ({ row, at: 0 }));
    const result = await this.#decoder.pass(this.#cache, tokens, wanted, this.#outputs);
    const drawn = this.#rows.map((row, i) => this.#draw(row, result, i));
    for (let i = this.#rows.length - 1; i >= 0; i--) {
      if (!this.#accept(this.#rows[i] as Row, drawn[i])) continue;
      this.#cache.remove(i);
      // As in the cache, the last row fills the gap.
      const last = this.#rows.pop() as Row;
      if (i < this.#rows.length) this.#rows[i] = last;
    }
  }

  get #outputs(): readonly Output[] {
    return (this.#options.temperature ?? 0) === 0 ? ["best"] : ["logits"];
  }

  /** @returns undefined if a logit is not a number */
  #draw(row: Row, { logits, best }: PassResult, at: number): number | undefined {
    if (!logits) return best?.[at];
    const width = this.#decoder.spec.vocabularySize;
    return sampleToken(logits.subarray(at * width, (at + 1) * width), this.#options, row.random);
  }

  /** Adds a token to an answer. @returns whether the answer ended */
  #accept(row: Row, id: number | undefined): boolean {
    const { stopIds, onToken } = this.#options;
    if (id === undefined) return this.#finish(row, "invalid");
    if (stopIds.has(id)) return this.#finish(row, "end");
    row.ids.push(id);
    if (onToken?.(row.prompt, id) === "stop") return this.#finish(row, "stop");
    return this.#isFull(row) && this.#finish(row, "length");
  }

  /** Whether an answer has reached its length. */
  #isFull({ prompt, ids }: Row): boolean {
    const length = (this.#prompts[prompt]?.length ?? 0) + ids.length;
    return ids.length >= this.#options.maxNewTokens || length >= this.#decoder.spec.contextLength;
  }

  #finish({ prompt, ids }: Row, finish: TokenAnswer["finish"]): true {
    const answer = { ids, finish };
    this.#answers[prompt] = answer;
    this.#options.onDone?.(prompt, answer);
    return true;
  }
}
