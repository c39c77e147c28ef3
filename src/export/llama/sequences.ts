// Answers and scores computed in the sequences of a llama.cpp context. Each keeps what it has read, so texts with a common
// beginning read it once.

import { setMaxListeners } from "node:events";
import {
  type AnswerBatch,
  type AnswerGrammar,
  type BatchRequest,
  checkRequest,
  isShort,
  type ScoreRequest,
  type Scores,
  sampleToken,
  type TokenAnswer,
  type TokenScores,
  withoutStops,
} from "../../engine/index.js";
import { CancelledError, LayergraftError, messageOf } from "../../kit/index.js";
import type { DrawOptions, LlamaContext, LlamaSequence, NextRequest, NextResult, SamplerOptions } from "./library.js";

/** Tokens read at once; a cancelled answer ends after them. */
export const READ_TOKENS = 128;
/** A context for longer texts replaces one that is too small, so sizes grow in steps. */
const LEAST_CONTEXT = 512;
/** Tokens of the context for a text of so many. @param most those of the model */
export const contextSize = (tokens: number, most: number): number =>
  Math.min(most, 2 ** Math.ceil(Math.log2(Math.max(LEAST_CONTEXT, tokens))));
/** The largest logit is that of the token that greedy decoding selects. */
const GREEDY = {
  token: true,
  totalLogitWeight: true,
  options: { temperature: 0, minP: 0, topK: 0, topP: 1, seed: 0 },
} as const;

export interface SequencesOptions {
  /** Makes the context when it is first needed. */
  readonly open: () => Promise<LlamaContext>;
  readonly rows: number;
  readonly vocabularySize: number;
  /** Most tokens of a text. */
  readonly contextLength: number;
}

export class Sequences implements AnswerBatch {
  readonly #options: SequencesOptions;
  #context: Promise<LlamaContext> | undefined;
  readonly #free: LlamaSequence[] = [];
  /** All sequences in the order of their numbers in llama.cpp. */
  readonly #sequences: LlamaSequence[] = [];
  /** Answers that generate; they are one token further with each step. */
  #generating = 0;
  /** The next tokens of answers, each with the number of its sequence. */
  readonly #step: { readonly number: number; readonly start: () => Promise<void> }[] = [];
  readonly #queue: (() => void)[] = [];

  constructor(options: SequencesOptions) {
    this.#options = options;
  }

  get rows(): number {
    return this.#options.rows;
  }
  get contextLength(): number {
    return this.#options.contextLength;
  }
  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Answers a prompt.
   * @throws LayergraftError if an option is out of its range, or llama.cpp fails
   * @throws CancelledError if the signal fires
   */
  async generate(request: BatchRequest): Promise<TokenAnswer> {
    checkRequest(request);
    const { prompt, maxNewTokens, top, signal } = request;
    const room = Math.min(maxNewTokens, this.contextLength - prompt.length);
    if (room <= 0 && !request.onPrompt) return { ids: [], finish: "length" };
    return this.#with(prompt, signal, (sequence) => this.#answer(sequence, request, room, top));
  }

  async #answer(
    sequence: LlamaSequence,
    request: BatchRequest,
    room: number,
    top: number | undefined,
  ): Promise<TokenAnswer> {
    const { prompt, stopIds, signal, onToken, onEnd, onPrompt, grammar } = request;
    // What was read before has no scores any more.
    if (onPrompt) await sequence.clearHistory();
    let last: NextResult | undefined = await read(sequence, grammar ? prompt.slice(0, -1) : prompt, signal, {
      last: grammar ? GREEDY : nextRequest(request, 0),
      each: onPrompt && ((_, next) => scoring(next, top)),
      onEach: onPrompt && ((next, result) => onPrompt([scoresOf(result, next, top ?? 0)])),
    });
    const drawn = grammar && sequence.evaluate(prompt.slice(-1), drawing(request, grammar));
    if (drawn) last = await drawNext(drawn, signal);
    const ids: number[] = [];
    this.#generating++;
    try {
      while (ids.length < room) {
        // llama.cpp knows tokens that end an answer besides those of the model's configuration.
        if (!last) return { ids, finish: "stop" };
        const token = this.#draw(last, request, ids.length);
        if (token === undefined) return { ids, finish: "invalid" };
        const { id, scores } = token;
        if (stopIds.has(id)) {
          onEnd?.(id, scores);
          return { ids, finish: "stop" };
        }
        ids.push(id);
        if (onToken?.(id, scores) === "stop") return { ids, finish: "stop" };
        if (ids.length === room) break;
        last = await this.#next(sequence, () =>
          drawn ? drawNext(drawn, signal) : readNext(sequence, id, nextRequest(request, ids.length), signal),
        );
      }
      return { ids, finish: "length" };
    } finally {
      await drawn?.return();
      this.#generating--;
      this.#stepIfAllWait();
    }
  }

  /** Reads a token when all answers that generate have one. */
  #next<T>(sequence: LlamaSequence, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const start = () => work().then(resolve, reject);
      this.#step.push({ number: this.#sequences.indexOf(sequence), start });
      this.#stepIfAllWait();
    });
  }

  /**
   * llama.cpp computes the tokens of a batch together if the numbers of their sequences follow one another, and one after
   * another if they do not. Left to themselves, answers would fall into batches of a few, in the order in which they came.
   */
  #stepIfAllWait(): void {
    if (this.#step.length < this.#generating) return;
    const step = this.#step.splice(0).sort((a, b) => a.number - b.number);
    for (const { start } of step) void start();
  }

  #draw(next: NextResult, request: BatchRequest, count: number): { id: number; scores?: TokenScores } | undefined {
    const { token, logits, totalLogitWeight = Number.NaN } = next;
    if (Number.isNaN(totalLogitWeight) || typeof token !== "number" || token < 0) return undefined;
    let id: number | undefined = token;
    const short = isShort(request, count);
    // Without logits, llama.cpp has drawn the token.
    if (logits && ((request.temperature ?? 0) > 0 || short)) {
      const row = new Float32Array(this.#options.vocabularySize).fill(Number.NEGATIVE_INFINITY);
      for (const [other, logit] of logits) row[other] = logit;
      id = sampleToken(short ? withoutStops(row, request) : row, request, request.random);
    }
    if (id === undefined) return undefined;
    return request.top === undefined ? { id } : { id, scores: scoresOf(next, id, request.top) };
  }

  /** Scores a text. @throws as `generate` */
  score({ tokens, from }: ScoreRequest, signal: AbortSignal | undefined): Promise<Scores> {
    const beginning = tokens.slice(0, from);
    return this.#with(beginning, signal, async (sequence) => {
      // The last of these predicts the first scored token.
      await sequence.adaptStateToTokens(tokens.slice(0, from - 1), false);
      const logprobs: number[] = [];
      const greedy: boolean[] = [];
      const add = (next: number, result: NextResult) => {
        logprobs.push(scoresOf(result, next, 0).logprob);
        greedy.push(result.token === next);
      };
      const end = tokens.at(-1) as number;
      const last = await read(sequence, tokens.slice(0, -1), signal, {
        last: scoring(end, undefined),
        each: (index, next) => (index >= from - 1 ? scoring(next, undefined) : undefined),
        onEach: add,
      });
      add(end, last);
      return { logprobs, greedy };
    });
  }

  async close(): Promise<void> {
    const context = await this.#context?.catch(() => undefined);
    this.#context = undefined;
    await context?.dispose();
  }

  /** Runs work with a sequence of its own: the free one that has most of a text. */
  async #with<T>(
    text: readonly number[],
    signal: AbortSignal | undefined,
    work: (sequence: LlamaSequence) => Promise<T>,
  ): Promise<T> {
    this.#context ??= this.#options.open();
    const context = await this.#context;
    requireRunning(signal);
    while (this.#free.length === 0 && this.#sequences.length === this.rows) await this.#nextFree(signal);
    const common = (sequence: LlamaSequence) => sequence.compareContextTokens(text).firstDifferentIndex;
    const number = (sequence: LlamaSequence) => this.#sequences.indexOf(sequence);
    const [best] = this.#free.sort((a, b) => common(b) - common(a) || number(a) - number(b));
    const isNew = !best || (common(best) === 0 && this.#sequences.length < this.rows);
    const taken = isNew ? context.getSequence() : best;
    if (isNew) this.#sequences.push(taken);
    else this.#free.splice(this.#free.indexOf(taken), 1);
    try {
      return await work(taken);
    } finally {
      this.#free.push(taken);
      this.#queue.shift()?.();
    }
  }

  /**
   * Waits until a sequence may be free.
   * @throws CancelledError as soon as the signal fires
   */
  async #nextFree(signal: AbortSignal | undefined): Promise<void> {
    const isWoken = await new Promise<boolean>((resolve) => {
      const wake = () => {
        signal?.removeEventListener("abort", leave);
        resolve(true);
      };
      const leave = () => {
        this.#queue.splice(this.#queue.indexOf(wake), 1);
        resolve(false);
      };
      this.#queue.push(wake);
      // Many texts of one call may wait.
      if (signal) setMaxListeners(0, signal);
      signal?.addEventListener("abort", leave, { once: true });
    });
    // Nobody else is woken for the sequence that was left to this one.
    if (isWoken && signal?.aborted) this.#queue.shift()?.();
    requireRunning(signal);
  }
}

interface Reading {
  /** What to compute after the last token. */
  readonly last: NextRequest;
  /** What to compute after the token at an index, which `next` follows; default nothing. */
  readonly each?: ((index: number, next: number) => NextRequest | undefined) | undefined;
  readonly onEach?: ((next: number, result: NextResult) => void) | undefined;
}

/** Reads a text of at least one token, of which a sequence may have the beginning. */
async function read(
  sequence: LlamaSequence,
  text: readonly number[],
  signal: AbortSignal | undefined,
  { last: wanted, each, onEach }: Reading,
): Promise<NextResult> {
  await sequence.adaptStateToTokens(text.slice(0, -1), false);
  let last: NextResult = {};
  for (let from = sequence.nextTokenIndex; from < text.length; from += READ_TOKENS) {
    const part = text.slice(from, from + READ_TOKENS);
    const results = await evaluate(
      sequence,
      part.map((token, at) => {
        const next = text[from + at + 1];
        const generateNext = next === undefined ? wanted : each?.(from + at, next);
        return generateNext ? [token, { generateNext }] : token;
      }),
      signal,
    );
    for (const [at, result] of results.entries()) {
      const next = text[from + at + 1];
      if (result && next !== undefined) onEach?.(next, result.next);
    }
    last = results.at(-1)?.next ?? {};
  }
  return last;
}

/** What follows a token. */
async function readNext(
  sequence: LlamaSequence,
  token: number,
  wanted: NextRequest,
  signal: AbortSignal | undefined,
): Promise<NextResult> {
  const [result] = await evaluate(sequence, [[token, { generateNext: wanted }]], signal);
  return result?.next ?? {};
}

/** The next token that llama.cpp draws by a grammar; undefined after the end. */
async function drawNext(
  drawn: AsyncGenerator<number, void>,
  signal: AbortSignal | undefined,
): Promise<NextResult | undefined> {
  const { value } = await running(() => drawn.next(), signal);
  return value === undefined ? undefined : { token: value, totalLogitWeight: 1 };
}

/** llama.cpp draws by grammars itself: node-llama-cpp gives no logits of the tokens that one allows. */
function drawing(request: BatchRequest, grammar: AnswerGrammar): DrawOptions {
  return { ...samplerOf(request), grammarEvaluationState: grammar.begin(), yieldEogToken: true };
}

function samplerOf({ temperature = 0, topK = 0, topP = 1, random }: BatchRequest): SamplerOptions {
  return { temperature, minP: 0, topK, topP, seed: Math.floor(random.float() * 2 ** 32) };
}

function evaluate(
  sequence: LlamaSequence,
  input: Parameters<LlamaSequence["controlledEvaluate"]>[0],
  signal: AbortSignal | undefined,
): ReturnType<LlamaSequence["controlledEvaluate"]> {
  return running(() => sequence.controlledEvaluate(input), signal);
}

async function running<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  requireRunning(signal);
  try {
    return await work();
  } catch (error) {
    const message = messageOf(error);
    throw new LayergraftError("runtime", `llama.cpp failed: ${message}`, {}, error);
  }
}

function requireRunning(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new CancelledError("stopped before the end");
}

/** What is needed to draw the next token of an answer that has `count`, and its scores. */
function nextRequest(request: BatchRequest, count: number): NextRequest {
  const { temperature = 0, topK, topP = 1, top, stopIds } = request;
  const dropped = isShort(request, count) ? stopIds.size : 0;
  if (temperature === 0 && dropped === 0 && top === undefined) return GREEDY;
  // Weights that are not numbers show in the first logits, of which top-k and top-p would hide them.
  if (count === 0 || dropped > 0 || top !== undefined) {
    const read = temperature === 0 ? 1 : topK;
    if (read === undefined) return { ...GREEDY, logits: true };
    return scoring(undefined, Math.max(read + dropped, top ?? 0));
  }
  if (topP === 1 || temperature === 1) return { token: true, totalLogitWeight: true, options: samplerOf(request) };
  // Top-p is of the probabilities at the temperature, but llama.cpp applies it before.
  return { ...GREEDY, logits: true, options: { ...GREEDY.options, temperature: 1, topK: topK ?? 0 } };
}

function scoring(next: number | undefined, top: number | undefined): NextRequest {
  const tokens = next === undefined ? [] : [next];
  return { ...GREEDY, logits: { filter: { tokens, includeSelected: true, includeTop: top ?? 0 } } };
}

/** Natural log-probabilities of a token and of the most likely ones; NaN if a logit is not a number. */
function scoresOf({ token, logits = new Map(), totalLogitWeight = Number.NaN }: NextResult, id: number, count: number) {
  const most = logits.get(token ?? -1) ?? Number.NaN;
  const mass = most + Math.log(totalLogitWeight);
  const top = [...logits]
    .sort(([a, x], [b, y]) => y - x || a - b)
    .slice(0, count)
    .map(([other, logit]) => ({ id: other, logprob: logit - mass }));
  return { logprob: (logits.get(id) ?? Number.NaN) - mass, top };
}
