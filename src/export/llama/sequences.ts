// Answers and scores computed in the sequences of a llama.cpp context. Each keeps what it has read, so texts with a common
// beginning read it once.

import { setMaxListeners } from "node:events";
import {
  type AnswerBatch,
  type BatchRequest,
  checkRequest,
  type ScoreRequest,
  type Scores,
  sampleToken,
  type TokenAnswer,
  type TokenScores,
  withEdits,
} from "../../engine/index.js";
import { longestOf } from "../../kit/arrays/index.js";
import { CancelledError, groupBy, LayergraftError, messageOf } from "../../kit/index.js";
import type { LlamaContext, LlamaSequence, NextRequest, NextResult } from "./library.js";
import {
  drawing,
  editsOf,
  GREEDY,
  GREEDY_DRAW,
  NAN_TOKEN,
  nextRequest,
  penalisedDraw,
  scoresOf,
  scoring,
} from "./requests.js";

/** Tokens read at once; a cancelled answer ends after them. */
export const READ_TOKENS = 128;
/** A context for longer texts replaces one that is too small, so lengths grow in steps. */
const LEAST_CONTEXT = 512;
/** Tokens of the context for a text of so many. @param most those of the model */
export const contextSize = (tokens: number, most: number): number =>
  Math.min(most, 2 ** Math.ceil(Math.log2(Math.max(LEAST_CONTEXT, tokens))));

export interface SequencesOptions {
  /** Makes a context for texts of so many tokens. It is called when they first come. */
  readonly open: (length: number) => Promise<LlamaContext>;
  readonly rows: number;
  readonly vocabularySize: number;
  /** Most tokens of a text. */
  readonly contextLength: number;
}

/** A context, and its sequences. Memory of all its sequences is taken when it is made. */
interface Opened {
  readonly context: Promise<LlamaContext>;
  /** Most tokens of a text. */
  readonly length: number;
  readonly free: LlamaSequence[];
  /** All of them in the order of their numbers in llama.cpp. */
  readonly sequences: LlamaSequence[];
  /** Texts that have a sequence or wait for the context. */
  busy: number;
}

export class Sequences implements AnswerBatch {
  readonly #options: SequencesOptions;
  /** The context of new texts. */
  #current: Opened | undefined;
  /** The contexts that are not closed: others than the current one end with their texts. */
  readonly #opened = new Set<Opened>();
  #busy = 0;
  #least = 0;
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
    const length = prompt.length + Math.max(0, room);
    return this.#with(prompt, length, signal, (sequence, number) => this.#answer(sequence, number, request, room, top));
  }

  async #answer(
    sequence: LlamaSequence,
    number: number,
    request: BatchRequest,
    room: number,
    top: number | undefined,
  ): Promise<TokenAnswer> {
    const { prompt, stopIds, signal, onToken, onEnd, onPrompt, grammar } = request;
    const { vocabularySize } = this.#options;
    // What was read before has no scores any more.
    if (onPrompt) await sequence.clearHistory();
    let last: NextResult | undefined = await read(sequence, grammar ? prompt.slice(0, -1) : prompt, signal, {
      last: grammar ? GREEDY : nextRequest(request, [], vocabularySize),
      each: onPrompt && ((_, next) => scoring([next], top)),
      onEach: onPrompt && ((next, result) => onPrompt([scoresOf(result, next, top ?? 0)])),
    });
    const ids: number[] = [];
    let drawn = grammar && sequence.evaluate(prompt.slice(-1), drawing(request, grammar, ids));
    if (drawn) last = await drawNext(drawn, signal);
    const next = async (id: number): Promise<NextResult | undefined> => {
      const wanted = nextRequest(request, ids, vocabularySize);
      const penalised = penalisedDraw(request, ids);
      if (wanted !== GREEDY && !grammar && !penalised) return readNext(sequence, id, wanted, signal);
      drawn ??= sequence.evaluate([id], penalised ?? GREEDY_DRAW);
      const found = await drawNext(drawn, signal);
      if (grammar || found?.token !== NAN_TOKEN) return found;
      await drawn.return();
      drawn = undefined;
      return read(sequence, [...prompt, ...ids], signal, { last: wanted });
    };
    this.#generating++;
    try {
      while (ids.length < room) {
        // llama.cpp knows tokens that end an answer besides those of the model's configuration.
        if (!last) return { ids, finish: "stop" };
        const token = this.#draw(last, request, ids);
        if (token === undefined) return { ids, finish: "invalid" };
        const { id, scores } = token;
        if (stopIds.has(id)) {
          onEnd?.(id, scores);
          return { ids, finish: "stop" };
        }
        ids.push(id);
        if (onToken?.(id, scores) === "stop") return { ids, finish: "stop" };
        if (ids.length === room) break;
        last = await this.#next(number, () => next(id));
      }
      return { ids, finish: "length" };
    } finally {
      // Whatever llama.cpp does with the rest of a generation, the others no longer wait for this answer.
      this.#generating--;
      this.#stepIfAllWait();
      await drawn?.return();
    }
  }

  /** Reads a token when all answers that generate have one. */
  #next<T>(number: number, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const start = () => work().then(resolve, reject);
      this.#step.push({ number, start });
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

  #draw(
    next: NextResult,
    request: BatchRequest,
    ids: readonly number[],
  ): { id: number; scores?: TokenScores } | undefined {
    const { token, logits, totalLogitWeight = Number.NaN } = next;
    if (Number.isNaN(totalLogitWeight) || typeof token !== "number" || token < 0) return undefined;
    let id: number | undefined = token;
    const edits = logits && editsOf(request, ids, (other) => logits.get(other));
    // Without logits, llama.cpp has drawn the token.
    if (logits && ((request.temperature ?? 0) > 0 || edits)) {
      const row = new Float32Array(this.#options.vocabularySize).fill(Number.NEGATIVE_INFINITY);
      for (const [other, logit] of logits) row[other] = logit;
      id = sampleToken(edits ? withEdits(row, edits) : row, request, request.random);
    }
    if (id === undefined) return undefined;
    return request.top === undefined ? { id } : { id, scores: scoresOf(next, id, request.top) };
  }

  /**
   * Scores texts that are equal before the token that predicts the first scored one. What they share is read once.
   * @returns in the order of the requests
   * @throws as `generate`
   */
  score(requests: readonly ScoreRequest[], signal: AbortSignal | undefined): Promise<Scores[]> {
    const contextOf = ({ tokens, from }: ScoreRequest) => tokens.slice(0, from);
    const [first] = requests;
    const length = longestOf(requests.map(({ tokens }) => tokens));
    return this.#with(first ? contextOf(first) : [], length, signal, async (sequence) => {
      const scores: Scores[] = [];
      const alike = groupBy(requests.keys(), (index) => contextOf(requests[index] as ScoreRequest).at(-1));
      for (const indices of alike.values()) {
        const texts = indices.map((index) => requests[index] as ScoreRequest);
        const firsts = texts.map(({ tokens, from }) => tokens[from] as number);
        const next = await read(sequence, contextOf(texts[0] as ScoreRequest), signal, { last: scoring(firsts) });
        // Where llama.cpp cannot go back in what it has read.
        if (texts.some(({ tokens, from }) => tokens.length > from + 1)) await sequence.takeCheckpoint();
        for (const [i, text] of texts.entries()) {
          scores[indices[i] as number] = await scoreOf(sequence, text, next, signal);
        }
      }
      return scores;
    });
  }

  /** Makes the next context large enough for texts that are known to come. */
  reserve(length: number): void {
    this.#least = Math.max(this.#least, length);
  }

  async close(): Promise<void> {
    this.#current = undefined;
    for (const opened of this.#opened) await this.#dispose(opened);
  }

  /** The context for a text. One that is too small is replaced: at once, or when its texts end. */
  #openedFor(length: number): Opened {
    const last = this.#current;
    const least = Math.max(this.#least, length);
    if (last && last.length >= Math.min(least, this.contextLength)) return last;
    const size = contextSize(least, this.contextLength);
    const closed = last && last.busy === 0 ? this.#dispose(last) : Promise.resolve();
    const context = closed.then(() => this.#options.open(size));
    const opened: Opened = { context, length: size, free: [], sequences: [], busy: 0 };
    this.#opened.add(opened);
    this.#current = opened;
    return opened;
  }

  async #dispose(opened: Opened): Promise<void> {
    this.#opened.delete(opened);
    const context = await opened.context.catch(() => undefined);
    await context?.dispose();
  }

  /** Runs work with a sequence of its own, and its number: the free one that has most of a text. */
  async #with<T>(
    text: readonly number[],
    length: number,
    signal: AbortSignal | undefined,
    work: (sequence: LlamaSequence, number: number) => Promise<T>,
  ): Promise<T> {
    while (this.#busy === this.rows) await this.#nextFree(signal);
    this.#busy++;
    const opened = this.#openedFor(length);
    opened.busy++;
    try {
      const context = await opened.context.catch((error: unknown) => {
        if (this.#current === opened) this.#current = undefined;
        throw error;
      });
      requireRunning(signal);
      const taken = take(opened, context, text, this.rows);
      try {
        return await work(taken, opened.sequences.indexOf(taken));
      } finally {
        opened.free.push(taken);
      }
    } finally {
      this.#busy--;
      opened.busy--;
      if (opened.busy === 0 && opened !== this.#current && this.#opened.has(opened)) await this.#dispose(opened);
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

/** Takes the free sequence that has most of a text, or a new one if none has any. */
function take(
  { free, sequences }: Opened,
  context: LlamaContext,
  text: readonly number[],
  rows: number,
): LlamaSequence {
  const common = (sequence: LlamaSequence) => sequence.compareContextTokens(text).firstDifferentIndex;
  const number = (sequence: LlamaSequence) => sequences.indexOf(sequence);
  const [best] = free.sort((a, b) => common(b) - common(a) || number(a) - number(b));
  const isNew = !best || (common(best) === 0 && sequences.length < rows);
  const taken = isNew ? context.getSequence() : best;
  if (isNew) sequences.push(taken);
  else free.splice(free.indexOf(taken), 1);
  return taken;
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

/** Scores a text after its context, which a sequence has. @param next what follows the context */
async function scoreOf(
  sequence: LlamaSequence,
  { tokens, from }: ScoreRequest,
  next: NextResult,
  signal: AbortSignal | undefined,
): Promise<Scores> {
  const logprobs: number[] = [];
  const greedy: boolean[] = [];
  const add = (id: number, result: NextResult) => {
    logprobs.push(scoresOf(result, id, 0).logprob);
    greedy.push(result.token === id);
  };
  add(tokens[from] as number, next);
  if (tokens.length === from + 1) return { logprobs, greedy };
  // A text before may have had more of this one.
  await sequence.adaptStateToTokens(tokens.slice(0, from), false);
  const end = tokens.at(-1) as number;
  const last = await read(sequence, tokens.slice(0, -1), signal, {
    last: scoring([end]),
    each: (index, next) => (index >= from ? scoring([next]) : undefined),
    onEach: add,
  });
  add(end, last);
  return { logprobs, greedy };
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

/** The next token that llama.cpp draws; undefined after the end. */
async function drawNext(
  drawn: AsyncGenerator<number, void>,
  signal: AbortSignal | undefined,
): Promise<NextResult | undefined> {
  const { value } = await running(() => drawn.next(), signal);
  return value === undefined ? undefined : { token: value, totalLogitWeight: 1 };
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
