// A model opened from a folder, an adapter or a recipe, which generates and scores.

import type { SourceOptions } from "../formats/checkpoint/index.js";
import { longestOf } from "../kit/arrays/index.js";
import { type CallOptions, LayergraftError, usageError, VERSION } from "../kit/index.js";
import {
  type ChatMessage,
  type ChatTemplate,
  promptEncoder,
  type RenderOptions,
  StoppedText,
  type Tokenizer,
  withVariables,
} from "../text/index.js";
import { type AnswerGrammar, DecodingBatch, type Finish } from "./decoding-batch.js";
import { generateTokens } from "./generate.js";
import { type GenerationConfig, NO_GENERATION_CONFIG } from "./generation-config.js";
import { answerSchema } from "./grammar/answer-schema.js";
import { jsonGrammar } from "./grammar/json-grammar.js";
import { type SortedTokens, sortTokens, TokenLimit } from "./grammar/token-limits.js";
import { LoadedDecoder, type LoadOptions } from "./loaded-decoder.js";
import { requireEngineMemory, requireRoom } from "./memory/estimate.js";
import { type EngineSource, isHere, type ModelSource, openModelSource } from "./model-source.js";
import { DEFAULT_BATCH } from "./prefill.js";
import { loadRuntime } from "./runtime/load-runtime.js";
import { requireWhole, type SamplingOptions, type TokenScores } from "./sampling.js";
import { type ScoreEachOptions, type ScoreOptions, scoreTexts } from "./score.js";
import { modelTextOf, requireTemplate } from "./source-text.js";
import type { AnswerBatch, ModelText, TokenModel } from "./token-model.js";

export interface OpenEngineOptions extends LoadOptions, SourceOptions {
  /** The source, where its headers were read before and it is known to fit into memory. Default: it is opened. */
  readonly opened?: ModelSource | undefined;
  /** Whether the model must have a chat template: one without is refused before its weights are read. Default: false. */
  readonly chat?: boolean | undefined;
  /**
   * Apply what the model's generation_config.json says besides end tokens, such as a repetition penalty, as transformers
   * does. Default: true.
   */
  readonly generationConfig?: boolean | undefined;
}

/** Options of `Engine.generate`. */
export interface GenerateOptions extends SamplingOptions, Pick<CallOptions, "signal"> {
  /** Maximum new tokens of an answer. */
  readonly maxNewTokens: number;
  /** Random seed of sampling, or one for each prompt. Default: 0. */
  readonly seed?: number | readonly number[] | undefined;
  /** Texts that end an answer; they are not part of it. Default: none. */
  readonly stop?: readonly string[] | undefined;
  /** Tokens that end an answer and are not part of it. Default: those of the model's configuration. */
  readonly stopIds?: readonly number[] | undefined;
  /** Prompts computed at once. Default: 8. */
  readonly batch?: number | undefined;
  /** Called with new text as it is generated, in whole characters, and the index of its prompt. Default: none. */
  readonly onText?: ((text: string, prompt: number) => void) | undefined;
  /** Takes each answer when it is complete. */
  readonly onDone?: ((prompt: number, answer: Generation) => void) | undefined;
}

/** The answer to one prompt. */
export interface Generation {
  /** All tokens of the answer, including those of a stop text. */
  readonly ids: readonly number[];
  /** Without the stop text; empty where the model has no tokenizer. */
  readonly text: string;
  /** invalid: the model's scores are not numbers, as its weights are broken. */
  readonly finish: Finish | "invalid";
}

export interface ContinuationRequest {
  readonly context: readonly number[];
  readonly continuation: readonly number[];
}

export interface ContinuationScore {
  /** Natural log-probability of the whole continuation. */
  readonly logprob: number;
  /** Log-probability of each of its tokens. */
  readonly tokens: readonly number[];
  /** Whether each of them is the most likely one. */
  readonly greedy: boolean;
}

/**
 * Opens a model: FOLDER, FOLDER+ADAPTER, a recipe or its file. Nothing is written: tensors that a recipe copies are read
 * in place, and others are computed into memory.
 * @throws CheckpointError or FormatError or RecipeError or MismatchError if it cannot be used
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 * @throws LayergraftError code `memory` if it does not fit into the memory that is free; nothing is downloaded then
 * @throws LayergraftError code `usage` if it must have a chat template, and has none
 */
export async function openEngine(source: EngineSource, options: OpenEngineOptions = {}): Promise<Engine> {
  // First, so that it is not missing only after everything is read.
  await loadRuntime();
  const { folder, hub, opened, chat, generationConfig = true, ...load } = options;
  const headers = opened ?? (await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "plan" } }));
  if (!opened) requireEngineMemory(headers, { shared: load.shared });
  // Weights are read in no order that streaming could follow, and most models are run again.
  const model = isHere(headers)
    ? headers
    : await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "files" } });
  const text = modelTextOf(model);
  if (chat) await requireTemplate(text);
  const generation = generationConfig ? await text.generationConfig() : undefined;
  const decoder = await LoadedDecoder.load(model, load);
  return new Engine(text, embeddedModel(decoder), generation);
}

/** A model in memory, for token ids. Close it to free its memory. */
export class Engine {
  readonly #text: ModelText;
  readonly #model: TokenModel;
  /** Of the tokenizer, once an answer was limited. */
  #sorted: SortedTokens | undefined;
  /** How the model's own settings change answers; nothing where they are left out. */
  readonly generationConfig: GenerationConfig;
  #stopIds: Promise<readonly number[]> | undefined;

  constructor(text: ModelText, model: TokenModel, generationConfig: GenerationConfig = NO_GENERATION_CONFIG) {
    this.#text = text;
    this.#model = model;
    this.generationConfig = generationConfig;
  }

  /** Display name. */
  get name(): string {
    return this.#text.name;
  }
  /** Changes with the model: its sources, adapter and recipe. */
  get digest(): string {
    return this.#text.digest;
  }
  /** `engine` for the embedded one, `llama` for llama.cpp. */
  get backend(): string {
    return this.#model.backend;
  }
  /** The program that computes, with its version. */
  get program(): string {
    return this.#model.program;
  }
  /** The model family, such as `llama`. */
  get family(): string {
    return this.#model.family;
  }
  /** Number of rows of the output layer, which may be more than the tokenizer has tokens. */
  get vocabularySize(): number {
    return this.#model.vocabularySize;
  }
  /** Tokens of prompt and answer together. */
  get contextLength(): number {
    return this.#model.contextLength;
  }
  /** Notes on how the model was read. */
  get notes(): readonly string[] {
    return [...this.#text.notes, ...this.#model.notes, ...this.generationConfig.notes];
  }

  /**
   * The model's tokenizer.
   * @throws CheckpointError if it has no readable one
   */
  tokenizer(): Promise<Tokenizer> {
    return this.#text.tokenizer();
  }

  /** The model's chat template; undefined if it has none. */
  chatTemplate(): Promise<ChatTemplate | undefined> {
    return this.#text.chatTemplate();
  }

  /**
   * The model's chat template.
   * @throws LayergraftError code `usage` if it has none
   */
  requireTemplate(): Promise<ChatTemplate> {
    return requireTemplate(this.#text);
  }

  /**
   * The tokens of a prompt: of a text with the marks that the tokenizer puts before one (BOS), of a conversation as the
   * model's chat template writes it, open for the model's reply.
   * @param options `bos`: whether a text gets these marks; default true. `variables`: further ones for the template
   * @throws LayergraftError code `usage` for a conversation, if the model has no chat template, or it reads no such variable
   * @throws CheckpointError if it has no tokenizer that can be read
   */
  async encode(
    prompt: string | readonly ChatMessage[],
    { bos = true, variables = {} }: { bos?: boolean } & Pick<RenderOptions, "variables"> = {},
  ): Promise<number[]> {
    if (typeof prompt === "string") return promptEncoder(await this.tokenizer())(prompt, bos);
    const template = withVariables(await this.requireTemplate(), variables);
    return this.encode(template.render(prompt, { addGenerationPrompt: true }), { bos: false });
  }

  /** Tokens that end an answer: those of generation_config.json, config.json and the tokenizer. */
  stopIds(): Promise<readonly number[]> {
    this.#stopIds ??= this.#text.stopIds();
    return this.#stopIds;
  }

  /**
   * Answers prompts.
   * @returns in the order of the prompts
   * @throws LayergraftError if a prompt is empty, too long, or has tokens outside the vocabulary
   * @throws CancelledError if the signal fires
   */
  async generate(prompts: readonly (readonly number[])[], options: GenerateOptions): Promise<Generation[]> {
    const { stop = [], onText, onDone, stopIds, ...rest } = options;
    requireWhole({ batch: rest.batch }, 1);
    requireWhole({ maxNewTokens: rest.maxNewTokens }, 0);
    if (stop.some((text) => text === "")) throw usageError("an empty stop text would end every answer; leave it out");
    for (const [index, prompt] of prompts.entries()) this.check(prompt, `prompt ${index + 1}`);
    if (prompts.length === 0) return [];
    const tokenizer = await this.tokenizer().catch((error: unknown) => {
      // Without texts, no tokenizer is needed.
      if (stop.length > 0 || onText) throw error;
      return undefined;
    });
    const texts = prompts.map(() => (tokenizer ? new StoppedText(tokenizer, stop) : undefined));
    const ends = new Set(stopIds ?? (await this.stopIds()));
    const { logits, minNewTokens } = this.generationConfig;
    const finished = new Map<number, Generation>();
    const emit = (prompt: number, text: string) => {
      if (text !== "") onText?.(text, prompt);
    };
    await this.#model.generate(prompts, {
      ...rest,
      logits,
      minNewTokens,
      stopIds: ends,
      onToken: (prompt, id) => {
        const text = texts[prompt];
        if (text) emit(prompt, text.push(id));
        return text?.isStopped ? "stop" : undefined;
      },
      onDone: (prompt, { ids, finish }) => {
        const text = texts[prompt];
        if (text) emit(prompt, text.end());
        const answer = { ids, text: text?.text ?? "", finish: text?.isStopped ? ("stop" as const) : finish };
        finished.set(prompt, answer);
        onDone?.(prompt, answer);
      },
    });
    return prompts.map((_, prompt) => finished.get(prompt) as Generation);
  }

  /**
   * Scores texts.
   * @returns natural log-probabilities of all tokens but the first
   * @throws LayergraftError if a text is too long or has tokens outside the vocabulary
   */
  async score(texts: readonly (readonly number[])[], options: ScoreOptions = {}): Promise<number[][]> {
    for (const [index, text] of texts.entries()) this.check(text, `text ${index + 1}`, true);
    const scored = texts.map(([first = 0, ...continuation]) => ({ context: [first], continuation }));
    return (await this.scoreContinuations(scored, options)).map(({ tokens }) => [...tokens]);
  }

  /**
   * Scores continuations of contexts. Those of one context are scored side by side, and it is read once.
   * @returns in the order of the requests; nothing for those that are known
   * @throws LayergraftError if a context is empty, or a text is too long
   */
  async scoreContinuations(
    requests: readonly ContinuationRequest[],
    { onDone, isKnown, ...options }: ScoreEachOptions<ContinuationScore> = {},
  ): Promise<ContinuationScore[]> {
    requireWhole({ batch: options.batch }, 1);
    const scores = requests.map((): ContinuationScore => ({ logprob: 0, tokens: [], greedy: true }));
    const scored = requests.flatMap(({ context, continuation }, index) => {
      if (context.length === 0) {
        throw usageError(
          `continuation ${index + 1} has no context, so nothing predicts its first token; begin with the BOS token`,
        );
      }
      const tokens = [...context, ...continuation];
      this.check(tokens, `text ${index + 1}`);
      return continuation.length === 0 ? [] : [{ index, tokens, from: context.length }];
    });
    for (const [index, { continuation }] of requests.entries()) {
      if (continuation.length === 0) onDone?.(index, scores[index] as ContinuationScore);
    }
    if (scored.length === 0) return scores;
    const indexOf = (i: number) => scored[i]?.index ?? 0;
    await this.#model.score(scored, {
      ...options,
      isKnown: isKnown && ((i) => isKnown(indexOf(i))),
      onDone: (i, { logprobs, greedy }) => {
        const logprob = logprobs.reduce((sum, one) => sum + one, 0);
        const score = { logprob, tokens: logprobs, greedy: greedy.every(Boolean) };
        scores[indexOf(i)] = score;
        onDone?.(indexOf(i), score);
      },
    });
    return scores;
  }

  /**
   * The most likely next tokens after texts, with their natural log-probabilities.
   * @throws LayergraftError if a text is too long
   */
  async topNext(
    texts: readonly (readonly number[])[],
    { count, ...options }: Pick<ScoreOptions, "batch" | "signal"> & { readonly count: number },
  ): Promise<{ id: number; logprob: number }[][]> {
    for (const [index, text] of texts.entries()) {
      this.check(text, `text ${index + 1}`);
      if (text.length === this.contextLength) throw usageError(`text ${index + 1} fills the context; shorten it`);
    }
    const found: { id: number; logprob: number }[][] = texts.map(() => []);
    if (texts.length === 0) return found;
    const onToken = (text: number, _: number, scores?: TokenScores) => {
      found[text] = [...(scores?.top ?? [])];
      return undefined;
    };
    await this.#model.generate(texts, { ...options, maxNewTokens: 1, stopIds: new Set(), top: count, onToken });
    return found;
  }

  /**
   * Opens a batch for answers that begin at any time.
   * @param rows most answers computed at once; default 8
   */
  openBatch(rows = 8): AnswerBatch {
    return this.#model.openBatch(rows);
  }

  /**
   * The grammar of answers that fit a JSON Schema, for `openBatch`.
   * @throws LayergraftError code `usage` if answers cannot be limited to it
   */
  async grammar(schema: Readonly<Record<string, unknown>>): Promise<AnswerGrammar> {
    if (this.#model.grammar) return this.#model.grammar(schema);
    const grammar = jsonGrammar(answerSchema(schema));
    this.#sorted ??= sortTokens(await this.tokenizer());
    const tokens = this.#sorted;
    return { begin: () => new TokenLimit(tokens, grammar) };
  }

  /** Frees the model's memory. */
  close(): Promise<void> {
    return this.#model.close();
  }

  /**
   * Checks the tokens of a prompt.
   * @param what its name in the error
   * @throws LayergraftError code `usage` if it is empty, too long, or has tokens outside the vocabulary
   */
  check(tokens: readonly number[], what: string, mayBeEmpty = false): void {
    if (tokens.length === 0 && !mayBeEmpty) throw usageError(`${what} is empty; give at least one token, such as BOS`);
    const unknown = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= this.vocabularySize);
    if (unknown !== undefined) {
      throw usageError(
        `${what} has the token ${unknown}; the tokens of ${this.name} are 0 to ${this.vocabularySize - 1}`,
      );
    }
    if (tokens.length > this.contextLength) {
      throw usageError(
        `${what} has ${tokens.length} tokens, and the context of ${this.name} is ${this.contextLength} (max_position_embeddings); shorten it`,
      );
    }
  }
}

/** The error of a model whose scores are not numbers. @param where for the message, such as "in answer 2" */
export function brokenModel({ name }: Pick<Engine, "name">, where: string): LayergraftError {
  return new LayergraftError(
    "broken-model",
    `${name} computed NaN or infinite scores ${where}. Find the broken weights with layergraft analyze.`,
  );
}

/** @throws LayergraftError code `broken-model` if log-probabilities are not numbers. @param where as above */
export function requireNumbers(engine: Pick<Engine, "name">, logprobs: readonly number[], where: string): void {
  if (logprobs.some(Number.isNaN)) throw brokenModel(engine, where);
}

export function embeddedModel(decoder: LoadedDecoder): TokenModel {
  const { family, vocabularySize } = decoder.spec;
  return {
    backend: "engine",
    program: `layergraft ${VERSION}`,
    family,
    vocabularySize,
    contextLength: decoder.contextLength,
    notes: decoder.notes,
    generate: async (prompts, options) => {
      const most = longestOf(prompts) + options.maxNewTokens;
      const tokens = Math.min(most, decoder.contextLength);
      requireRoom(decoder.spec, { texts: Math.min(options.batch ?? DEFAULT_BATCH, prompts.length), tokens });
      return generateTokens(decoder, prompts, options);
    },
    score: async (requests, options) => {
      const texts = Math.min(options.batch ?? DEFAULT_BATCH, requests.length);
      const tokens = longestOf(requests.map((request) => request.tokens));
      requireRoom(decoder.spec, { texts, tokens, scored: true });
      return scoreTexts(decoder, requests, options);
    },
    openBatch: (rows) => new DecodingBatch(decoder, { rows, eager: true }),
    close: () => decoder.close(),
  };
}
