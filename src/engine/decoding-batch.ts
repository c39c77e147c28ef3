// Continuous batching: answers of one batch begin and end independently of each other. A new prompt is read pass by pass,
// between the steps of the answers under way.
import { setImmediate as nextTurn } from "node:timers/promises";
import { longestOf } from "../kit/arrays/index.js";
import { CancelledError, type Random } from "../kit/index.js";
import type { TokenLimit } from "./grammar/token-limits.js";
import type { KeyValueCache } from "./key-value-cache.js";
import type { LoadedDecoder, Output, PassResult, Wanted } from "./loaded-decoder.js";
import { type EditedRequest, editLogits, isEdited, withEdits } from "./logit-settings.js";
import { countFitting, requireRoom } from "./memory/estimate.js";
import { PASS_TOKENS } from "./model/sizes.js";
import { lastOf, passes } from "./prefill.js";
import {
  requireNumber,
  requireWhole,
  type SamplingOptions,
  sampleToken,
  scoresAt,
  type TokenScores,
  topLogprobs,
} from "./sampling.js";

/** What an answer may be, made and read by one backend. */
export interface AnswerGrammar {
  /** Its state at the beginning of an answer. */
  readonly begin: () => unknown;
  /** A text after every answer, which is not part of it. Absent where a token ends answers. */
  readonly end?: string | undefined;
}

/** One answer to a prompt of at least one token. */
export interface BatchRequest extends SamplingOptions, EditedRequest {
  /** Requests with the same array, by identity, that wait together have it read once. */
  readonly prompt: readonly number[];
  /** Tokens that end the answer and are not part of it. */
  readonly stopIds: ReadonlySet<number>;
  /** Limits the answer; such an answer has no log-probabilities and ends where its grammar does. */
  readonly grammar?: AnswerGrammar | undefined;
  /** Source of the samples. */
  readonly random: Pick<Random, "float">;
  /** Number of most likely tokens whose log-probabilities come with each token; default no log-probabilities. */
  readonly top?: number | undefined;
  /** Receives the same of the prompt's tokens but the first, with `top` of at least 0; in parts, in order. */
  readonly onPrompt?: ((scores: readonly TokenScores[]) => void) | undefined;
  /** Receives each new token. Returning "stop" ends the answer after it. */
  readonly onToken?: ((id: number, scores?: TokenScores) => "stop" | undefined) | undefined;
  /** Receives the token of `stopIds` that ends the answer. */
  readonly onEnd?: ((id: number, scores?: TokenScores) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * How an answer ends. stop: at a stop text, or at a token that ends answers. length: at the limit of new tokens, or where
 * the context is full.
 */
export type Finish = "stop" | "length";

export interface TokenAnswer {
  readonly ids: readonly number[];
  /** invalid: the model's scores are not numbers, as its weights are broken. */
  readonly finish: Finish | "invalid";
}

export interface BatchOptions {
  /** Most answers computed at once. */
  readonly rows: number;
  /**
   * Whether a prompt is read as soon as a row is free, and answers go on between its passes; default false: prompts wait
   * until a quarter of the rows is free, and answers wait until they are read, which is faster altogether.
   */
  readonly eager?: boolean;
  /** A beginning that all prompts share: its cache of one row. */
  readonly beginning?: KeyValueCache | undefined;
}

/** An unfinished answer. */
interface Sequence {
  readonly request: BatchRequest;
  readonly ids: number[];
  /** Of an answer with a grammar. */
  readonly limit: TokenLimit | undefined;
  readonly resolve: (answer: TokenAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Prompts that are being read. */
interface Reading {
  readonly rows: readonly Sequence[];
  /** Index of each row's text. */
  readonly textOf: readonly number[];
  readonly cache: KeyValueCache;
  readonly passes: AsyncGenerator<void, void>;
  /** The first token of each row, where its text is read. */
  readonly drawn: Map<Sequence, Drawn>;
}

/** A sampled token; no id where a logit is not a number. */
interface Drawn {
  readonly id: number | undefined;
  readonly scores?: TokenScores | undefined;
}

/**
 * A batch of answers. A prompt is always read in passes that begin at the same tokens, and caches are as wide as a multiple
 * of what the runtime adds at once, so an answer's numbers do not depend on the others in the batch.
 */
export class DecodingBatch {
  readonly #decoder: LoadedDecoder;
  readonly #size: number;
  readonly #eager: boolean;
  readonly #beginning: KeyValueCache | undefined;
  /** Length beyond which all positions of a text have other frequencies (LongRoPE). */
  readonly #longAbove: number;
  readonly #waiting: Sequence[] = [];
  /** Answers under way, by row of the cache. */
  #rows: Sequence[] = [];
  #cache: KeyValueCache;
  #reading: Reading | undefined;
  /** Whether prompts are read until all rows are taken. */
  #isFilling = false;
  #isRunning = false;

  constructor(decoder: LoadedDecoder, { rows, eager = false, beginning }: BatchOptions) {
    this.#decoder = decoder;
    this.#longAbove = longAbove(decoder);
    this.#size = rowsFor(decoder, rows);
    this.#eager = eager;
    this.#beginning = beginning;
    this.#cache = this.#decoder.newCache(this.#size);
  }

  /** Answers that wait for a row. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Answers a prompt.
   * @throws LayergraftError if an option is out of its range; code `memory` if there is none for its longest answer alone
   * @throws CancelledError if the signal fires
   */
  async generate(request: BatchRequest): Promise<TokenAnswer> {
    checkRequest(request);
    return new Promise((resolve, reject) => {
      const limit = request.grammar?.begin() as TokenLimit | undefined;
      const row: Sequence = { request, ids: [], limit, resolve, reject };
      if (this.#isFull(row) && !request.onPrompt) return this.#finish(row, "length");
      this.#waiting.push(row);
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0 || this.#reading || this.#rows.length > 0) {
      // Requests and aborts arrive here, as a pass blocks the event loop.
      await nextTurn();
      this.#dropCancelled();
      this.#admit();
      if (this.#reading) {
        await this.#readOn(this.#reading);
        if (!this.#eager) continue;
      }
      if (this.#rows.length > 0) await this.#step();
    }
    // Gives the memory of a long text back.
    this.#cache = this.#decoder.newCache(this.#size);
    this.#isRunning = false;
  }

  #dropCancelled(): void {
    for (let i = this.#rows.length - 1; i >= 0; i--) if (cancelled(this.#rows[i] as Sequence)) this.#remove(i);
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      if (cancelled(this.#waiting[i] as Sequence)) this.#waiting.splice(i, 1);
    }
    // The others of a group are read to its end.
    if (this.#reading?.rows.every(cancelled)) this.#reading = undefined;
  }

  /** Prompt and answer so far. */
  #textOf({ request, ids }: Sequence): readonly number[] {
    return ids.length === 0 ? request.prompt : [...request.prompt, ...ids];
  }

  /** Begins to read as many of the waiting prompts as fit into one pass and into memory. */
  #admit(): void {
    const free = this.#size - this.#rows.length;
    if (this.#reading) return;
    const least = this.#eager || this.#isFilling ? 1 : Math.max(1, this.#size / 4);
    this.#isFilling = this.#waiting.length > 0 && free >= least;
    if (!this.#isFilling) return;
    const fitting = this.#fitting(this.#waiting.slice(0, free));
    if (fitting.length === 0) {
      // Answers that end give memory back.
      if (this.#rows.length === 0) this.#requireRoom(this.#waiting.shift() as Sequence);
      return;
    }
    const shared = this.#beginning?.length(0) ?? 0;
    const rows: Sequence[] = [];
    const texts: (readonly number[])[] = [];
    const textOf: number[] = [];
    for (const row of fitting) {
      const text = this.#textOf(row);
      const known = row.request.onPrompt ? -1 : texts.indexOf(text);
      if (known < 0) {
        const isAlone = row.request.onPrompt !== undefined || rows.some(({ request }) => request.onPrompt);
        const tokens = (texts.length + 1) * (Math.max(longestOf(texts), text.length) - shared);
        if (texts.length > 0 && (isAlone || tokens > PASS_TOKENS)) break;
        texts.push(text);
      }
      textOf.push(known < 0 ? texts.length - 1 : known);
      rows.push(row);
    }
    this.#waiting.splice(0, rows.length);
    this.#reading = this.#read(rows, texts, textOf, shared);
  }

  /** Tokens of a prompt and its longest answer. */
  #longest({ request }: Sequence): number {
    return Math.min(request.prompt.length + request.maxNewTokens, this.#decoder.contextLength);
  }

  /** The first ones whose longest answers fit into memory that is free, beside the answers under way. */
  #fitting(rows: readonly Sequence[]): readonly Sequence[] {
    const cached = Math.max(0, ...this.#rows.map((_, row) => this.#cache.length(row)));
    const running = { longest: this.#rows.map((row) => this.#longest(row)), cached };
    const waiting = rows.map((row) => this.#longest(row));
    return rows.slice(0, countFitting(this.#decoder.spec, running, waiting));
  }

  /** Rejects an answer that does not fit alone. */
  #requireRoom(row: Sequence): void {
    try {
      requireRoom(this.#decoder.spec, { tokens: this.#longest(row) });
      this.#waiting.unshift(row);
    } catch (error) {
      row.reject(error);
    }
  }

  #read(
    rows: readonly Sequence[],
    texts: readonly (readonly number[])[],
    textOf: readonly number[],
    shared: number,
  ): Reading {
    const planned = longestOf(texts);
    const cache = this.#decoder.newCache(texts.length, planned);
    for (const _ of texts)
      if (this.#beginning) cache.addCopy(this.#beginning, 0);
      else cache.add();
    const drawn = new Map<Sequence, Drawn>();
    const rest = shared === 0 ? texts : texts.map((text) => text.slice(shared));
    // Read alone.
    const scored = rows.find(({ request }) => request.onPrompt)?.request;
    const outputs: Output[] = scored ? ["logits", "logprobs"] : outputsFor(rows);
    const reading = passes<ReadPosition>(this.#decoder, cache, rest, {
      outputs,
      planned,
      // A cancelled group is dropped between passes.
      signal: undefined,
      allLogits: scored !== undefined,
      select: (from, to) => (scored ? allOf(rest[0] ?? [], from, to) : lastOf(rest, from, to)),
      onPass: (result, wanted) => {
        if (scored) scored.onPrompt?.(this.#scorePrompt(scored, result, wanted));
        for (const [i, { row: text, isLast = true }] of wanted.entries()) {
          if (!isLast) continue;
          for (const [r, row] of rows.entries()) if (textOf[r] === text) drawn.set(row, this.#draw(row, result, i));
        }
      },
    });
    return { rows, textOf, cache, passes: reading, drawn };
  }

  /** Log-probabilities of the tokens after some positions of a prompt. */
  #scorePrompt({ top = 0 }: BatchRequest, result: PassResult, wanted: readonly ReadPosition[]) {
    const width = this.#decoder.spec.vocabularySize;
    return wanted.flatMap(({ isLast, next = 0 }, i) => {
      if (isLast) return [];
      const logits = result.logits?.subarray(i * width, (i + 1) * width) ?? new Float32Array();
      return [scoresAt(logits, next, top, result.logprobs?.[i] ?? Number.NaN)];
    });
  }

  /** Computes one pass of a group of prompts; after the last, their answers begin. */
  async #readOn(reading: Reading): Promise<void> {
    const { rows, textOf, cache, drawn } = reading;
    try {
      if ((await reading.passes.next()).done !== true) return;
      for (const [i, row] of rows.entries()) {
        if (cancelled(row) || this.#accept(row, drawn.get(row) ?? { id: undefined })) continue;
        this.#cache.addCopy(cache, textOf[i] as number);
        this.#rows.push(row);
      }
    } catch (error) {
      for (const { reject } of rows) reject(error);
    }
    this.#reading = undefined;
  }

  /** Computes one more token of every answer. */
  async #step(): Promise<void> {
    const [first] = this.#rows;
    if (first && this.#size === 1 && this.#cache.length(0) === this.#longAbove) {
      // The cached keys were rotated by the frequencies of short texts.
      this.#remove(0);
      this.#waiting.unshift(first);
      return;
    }
    const tokens = this.#rows.map(({ ids }) => [ids.at(-1) ?? 0]);
    const wanted = this.#rows.map((_, row) => ({ row, at: 0 }));
    try {
      const result = await this.#decoder.pass(this.#cache, tokens, wanted, outputsFor(this.#rows));
      const drawn = this.#rows.map((row, i) => this.#draw(row, result, i));
      for (let i = this.#rows.length - 1; i >= 0; i--) {
        if (this.#accept(this.#rows[i] as Sequence, drawn[i] as Drawn)) this.#remove(i);
      }
    } catch (error) {
      for (const { reject } of this.#rows) reject(error);
      this.#rows = [];
      this.#cache = this.#decoder.newCache(this.#size);
    }
  }

  /** Removes an answer; as in the cache, the last row fills the gap. */
  #remove(row: number): void {
    this.#cache.remove(row);
    const last = this.#rows.pop() as Sequence;
    if (row < this.#rows.length) this.#rows[row] = last;
  }

  #draw({ request, ids, limit }: Sequence, { logits, best }: PassResult, at: number): Drawn {
    const width = this.#decoder.spec.vocabularySize;
    const row = logits?.subarray(at * width, (at + 1) * width);
    const edits = row && isEdited(request, ids.length) ? editLogits(request, ids, (id) => row[id]) : undefined;
    const edited = row && edits ? withEdits(row, edits) : row;
    const id =
      edited === undefined || (isGreedy(request) && best && !edits && !limit)
        ? best?.[at]
        : sampleToken(limit ? limit.limit(edited, request.stopIds) : edited, request, request.random);
    if (request.top === undefined || id === undefined || !row) return { id };
    const top = topLogprobs(row, Math.max(1, request.top));
    const { id: likeliest, logprob: most } = top[0] as { id: number; logprob: number };
    // Exactly that of the list where it is listed.
    const listed = top.find((other) => other.id === id)?.logprob;
    const logprob = listed ?? most + ((row[id] as number) - (row[likeliest] as number));
    return { id, scores: { logprob, top: top.slice(0, request.top) } };
  }

  /** Adds a token to an answer. @returns whether the answer ended */
  #accept(row: Sequence, { id, scores }: Drawn): boolean {
    const { stopIds, onToken, onEnd } = row.request;
    try {
      if (this.#isFull(row)) return this.#finish(row, "length");
      if (id === undefined) return this.#finish(row, "invalid");
      if (stopIds.has(id)) {
        onEnd?.(id, scores);
        return this.#finish(row, "stop");
      }
      row.ids.push(id);
      row.limit?.accept(id);
      if (onToken?.(id, scores) === "stop") return this.#finish(row, "stop");
      return this.#isFull(row) && this.#finish(row, "length");
    } catch (error) {
      row.reject(error);
      return true;
    }
  }

  /** Whether an answer has reached its length. */
  #isFull({ request, ids }: Sequence): boolean {
    const length = request.prompt.length + ids.length;
    return ids.length >= request.maxNewTokens || length >= this.#decoder.contextLength;
  }

  #finish({ ids, resolve }: Sequence, finish: TokenAnswer["finish"]): true {
    resolve({ ids, finish });
    return true;
  }
}

/** @throws LayergraftError if an option is out of its range */
export function checkRequest({ maxNewTokens, minNewTokens, temperature, topK, topP, minP, top }: BatchRequest): void {
  requireWhole({ maxNewTokens, minNewTokens, top }, 0);
  requireWhole({ topK }, 1);
  requireNumber({ temperature }, Number.POSITIVE_INFINITY);
  requireNumber({ topP, minP }, 1);
}

function longAbove({ spec }: LoadedDecoder): number {
  return Math.min(...spec.ropes.map(({ long }) => long?.above ?? Number.POSITIVE_INFINITY));
}

/** How many answers a model computes at once. */
export function rowsFor(decoder: LoadedDecoder, most: number): number {
  return decoder.isAlone ? 1 : most;
}

interface ReadPosition extends Wanted {
  readonly isLast?: boolean;
}

/** All positions of a text in a pass, each with the token after it. */
function allOf(text: readonly number[], from: number, to: number): ReadPosition[] {
  return Array.from({ length: Math.min(to, text.length) - from }, (_, at) => {
    const next = text[from + at + 1];
    return { row: 0, at, next: next ?? 0, isLast: next === undefined };
  });
}

function isGreedy({ temperature = 0 }: BatchRequest): boolean {
  return temperature === 0;
}

function outputsFor(rows: readonly Sequence[]): Output[] {
  const needsLogits = rows.some(
    ({ request, ids, limit }) =>
      !isGreedy(request) || request.top !== undefined || limit !== undefined || isEdited(request, ids.length),
  );
  const needsBest = rows.some(({ request }) => isGreedy(request));
  return [...(needsBest ? (["best"] as const) : []), ...(needsLogits ? (["logits"] as const) : [])];
}

/** Whether an answer is cancelled, which it is then told. */
function cancelled({ request, reject }: Sequence): boolean {
  if (request.signal?.aborted !== true) return false;
  reject(new CancelledError("stopped before the end"));
  return true;
}
