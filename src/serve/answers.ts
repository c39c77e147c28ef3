// Computes what a request asks for: prompts to tokens, tokens to text with stops, log-probabilities and counts.

import { randomInt } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type AnswerGrammar, type Finish, type TokenScores, together } from "../engine/index.js";
import { CancelledError, groupBy, LayergraftError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { type ChatTemplate, cannotFit, StoppedText, withArguments } from "../text/index.js";
import { ApiError, badRequest } from "./api-error.js";
import type { AnswerLimit, ChatRequest, CompletionRequest, TemplateVariable } from "./requests.js";
import type { ServedModel } from "./served-model.js";
import type { TokenText, TokenTexts } from "./token-texts.js";
import { CallReader, callFormatOf, FORCED_CALL, type ToolCall } from "./tool-calls.js";

/** A token with its log-probability, null for the first of a text. */
export interface ScoredToken extends Pick<TokenText, "text" | "bytes"> {
  /** Place in the choice's text, in characters. */
  readonly offset: number;
  readonly logprob: number | null;
  readonly top: readonly (Pick<TokenText, "text" | "bytes"> & { readonly logprob: number })[];
}

/** New text of a choice; its end has a reason. */
export interface ChoicePart {
  readonly index: number;
  readonly text: string;
  readonly tokens: readonly ScoredToken[];
  /** Calls of tools, with the end. */
  readonly calls: readonly ToolCall[];
  readonly finish: Finish | null;
}

export interface Usage {
  readonly promptTokens: number;
  readonly newTokens: number;
}

export interface AnswerOptions {
  readonly signal: AbortSignal;
  /** Called in the order of each choice's text. */
  readonly onPart: (part: ChoicePart) => void;
}

/** More than the bytes of a character. */
const CONTEXT_TOKENS = 8;
/** Most seeds that a request without one may get. */
const SEEDS = 2 ** 47;

/** @throws ApiError if a text cannot fit the model */
export function requireShort(model: ServedModel, texts: readonly string[], param: string): void {
  const characters = texts.reduce((sum, { length }) => sum + length, 0);
  if (!cannotFit(characters, model.contextLength)) return;
  throw badRequest(
    `This model's maximum context length is ${model.contextLength} tokens. The prompt has ` +
      `${plural(characters, "character")}, which cannot fit. Shorten it.`,
    param,
    "context_length_exceeded",
  );
}

/**
 * The tokens of a request's prompts, which fit the model.
 * @throws ApiError if they do not
 * @throws CancelledError if the signal fires
 */
export async function encodePrompts(
  model: ServedModel,
  request: CompletionRequest | ChatRequest,
  signal: AbortSignal,
): Promise<(readonly number[])[]> {
  const prompts: (readonly number[])[] = [];
  const param = request.kind === "chat" ? "messages" : "prompt";
  if (request.kind === "chat") {
    const { messages, variables, opensReply: addGenerationPrompt, continuesFinal: continueFinal } = request;
    const contents = messages.map(({ content }) => content);
    requireShort(model, contents, param);
    const template = await model.requireTemplate();
    requireRead(template, variables);
    requireCallsRead(template, messages);
    const given = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
    const options = { addGenerationPrompt, continueFinal, variables: given };
    const text = withArguments(messages, (written) => template.render(written, options));
    requireShort(model, [text], param);
    prompts.push(await model.encode(text, { bos: false }));
  } else {
    for (const prompt of request.prompts) {
      if (typeof prompt !== "string") prompts.push(prompt);
      else {
        requireShort(model, [prompt], param);
        prompts.push(await model.encode(prompt, { bos: request.bos }));
        // Lets other requests continue.
        await nextTurn();
        if (signal.aborted) throw new CancelledError("stopped before the end");
      }
    }
  }
  if (request.stopIds.length > 0) model.check(request.stopIds, "stop_token_ids");
  for (const id of request.logits.logitBias?.keys() ?? []) model.check([id], "logit_bias");
  for (const [i, prompt] of prompts.entries()) {
    // Without a limit, an answer takes what is left, at least one token.
    const wanted = request.maxTokens ?? Math.max(request.minTokens, 1);
    if (prompt.length + wanted > model.contextLength) {
      throw badRequest(
        `This model's maximum context length is ${model.contextLength} tokens. The prompt has ` +
          `${plural(prompt.length, "token")}, and ${wanted} more are asked for. Shorten the prompt or ask for fewer.`,
        param,
        "context_length_exceeded",
      );
    }
    model.check(prompt, prompts.length === 1 ? "the prompt" : `prompt ${i + 1}`);
  }
  return prompts;
}

/** @throws ApiError if nothing that a field of the request says reaches the template */
function requireRead(template: ChatTemplate, variables: readonly TemplateVariable[]): void {
  for (const [field, from] of groupBy(variables, (variable) => variable.field)) {
    const problems = from.map(({ name, value }) => template.whyUnread(name, value));
    if (problems.every((problem) => problem !== undefined)) throw badRequest(`${field} ${problems[0]}`, field);
  }
}

/** @throws ApiError if messages call tools and the template knows of no calls, which would be lost */
function requireCallsRead(template: ChatTemplate, messages: ChatRequest["messages"]): void {
  const at = messages.findIndex((message) => "tool_calls" in message);
  if (at < 0 || template.source.includes("tool_calls")) return;
  const field = `messages[${at}].tool_calls`;
  throw badRequest(
    `${field} is not read by the chat template; use a model whose template renders calls of tools`,
    field,
  );
}

/**
 * Computes the answers to prompts.
 * @throws ApiError if the model's scores are not numbers
 * @throws CancelledError if the signal fires
 */
export async function answerAll(
  model: ServedModel,
  texts: TokenTexts,
  prompts: readonly (readonly number[])[],
  request: CompletionRequest | ChatRequest,
  { signal, onPart }: AnswerOptions,
): Promise<Usage> {
  const seed = request.seed ?? randomInt(SEEDS);
  const chat = request.kind === "chat" ? request : undefined;
  const { tools, maxCalls = Number.POSITIVE_INFINITY, limit } = chat ?? {};
  const isCall = limit?.field === "tool_choice";
  const taught = async () => callFormatOf((await model.requireTemplate()).source);
  const format = isCall ? FORCED_CALL : tools?.size ? await taught() : undefined;
  const grammar = limit && (await grammarOf(model, limit));
  const stop = grammar?.end === undefined ? request.stop : [...request.stop, grammar.end];
  const start = (either: AbortSignal) =>
    prompts.flatMap((prompt, p) =>
      Array.from({ length: request.n }, async (_, choice) => {
        const index = p * request.n + choice;
        const given = request.kind === "completion" && request.echo ? request.prompts[p] : undefined;
        // A completion continues its prompt's text; a reply has its own.
        const isReply = chat && !chat.continuesFinal;
        const text = new StoppedText(model.tokenizer, stop, {
          before: isReply ? [] : prompt.slice(-CONTEXT_TOKENS),
          skipSpecialTokens: !format?.isSpecial,
        });
        const { maxTokens, minTokens, temperature, topP, topK, minP, logits, top, stopIds, ignoresEnd } = request;
        const calls = format && tools && new CallReader(format, tools, maxCalls);
        const writer = new ChoiceWriter(model, { texts, text, calls, minTokens, index, onPart });
        const scoresPrompt = given !== undefined && top !== undefined;
        if (given !== undefined) writer.echo(typeof given === "string" ? given : undefined, prompt, scoresPrompt);
        const finish = await model.generate({
          prompt,
          temperature,
          topP,
          topK,
          minP,
          logits,
          top,
          stopIds,
          ignoresEnd,
          minNewTokens: minTokens,
          grammar,
          seed,
          choice,
          signal: either,
          maxNewTokens: Math.min(maxTokens ?? Number.POSITIVE_INFINITY, model.contextLength - prompt.length),
          onPrompt: scoresPrompt ? (scores) => writer.scorePrompt(scores) : undefined,
          onToken: (id, scores) => writer.add(id, scores),
          onEnd: (id, scores) => writer.addEnd(id, scores),
        });
        if (finish === "invalid") {
          throw new ApiError(
            500,
            "The model computed NaN or infinite scores. Find the broken weights with layergraft analyze.",
          );
        }
        writer.finish(finish);
        return writer.count;
      }),
    );
  const newTokens = await together(signal, start);
  return {
    promptTokens: prompts.reduce((sum, { length }) => sum + length, 0),
    newTokens: newTokens.reduce((sum, one) => sum + one, 0),
  };
}

/** @throws ApiError if answers cannot be limited to a schema */
async function grammarOf(model: ServedModel, { field, schema }: AnswerLimit): Promise<AnswerGrammar> {
  try {
    return await model.grammar(schema);
  } catch (error) {
    throw error instanceof LayergraftError && error.code === "usage"
      ? badRequest(`${field}: ${error.message}`, field)
      : error;
  }
}

interface ChoiceOptions {
  readonly texts: TokenTexts;
  readonly text: StoppedText;
  /** Undefined where no tools may be called. */
  readonly calls: CallReader | undefined;
  readonly minTokens: number;
  readonly index: number;
  readonly onPart: (part: ChoicePart) => void;
}

/** Turns the tokens of one choice into parts of its text. */
class ChoiceWriter {
  readonly #options: ChoiceOptions;
  readonly #tokenizer: ServedModel["tokenizer"];
  /** The prompt's tokens, while their scores are awaited. */
  #prompt: readonly number[] = [];
  #scored = 0;
  #echoed = "";
  #offset = 0;
  #held: ScoredToken[] = [];
  /** Generated tokens, with the one that ends the answer. */
  count = 0;

  constructor({ tokenizer }: ServedModel, options: ChoiceOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
  }

  /** Begins with the prompt. @param text if it was given as such */
  echo(text: string | undefined, prompt: readonly number[], isScored: boolean): void {
    const echoed = text ?? this.#tokenizer.decode(prompt, { skipSpecialTokens: true });
    if (!isScored) {
      this.#emit(echoed);
      return;
    }
    this.#echoed = echoed;
    this.#prompt = prompt;
    this.#hold(prompt[0] as number, undefined);
    this.#scored = 1;
    this.#endEcho();
  }

  scorePrompt(scores: readonly TokenScores[]): void {
    for (const score of scores) this.#hold(this.#prompt[this.#scored++] as number, score);
    this.#endEcho();
  }

  add(id: number, scores: TokenScores | undefined): "stop" | undefined {
    const { text, calls, minTokens } = this.#options;
    this.count++;
    if (scores) this.#hold(id, scores);
    const more = text.push(id, this.count > minTokens);
    this.#emit(calls ? calls.push(more) : more);
    return text.isStopped ? "stop" : undefined;
  }

  addEnd(id: number, scores: TokenScores | undefined): void {
    this.count++;
    if (scores) this.#hold(id, scores);
  }

  finish(finish: Finish): void {
    const { text, calls } = this.#options;
    const more = text.end();
    const before = calls ? calls.push(more) : more;
    const last = calls?.end();
    this.#emit(before + (last?.text ?? ""), text.isStopped ? "stop" : finish, last?.calls);
  }

  /** Writes the prompt when all of it is scored. */
  #endEcho(): void {
    if (this.#prompt.length === 0 || this.#scored < this.#prompt.length) return;
    this.#prompt = [];
    this.#emit(this.#echoed);
  }

  #hold(id: number, scores: TokenScores | undefined): void {
    const { texts } = this.#options;
    const { text, bytes, length } = texts.of(id);
    const top = (scores?.top ?? []).map((other) => ({ ...texts.of(other.id), logprob: other.logprob }));
    this.#held.push({ text, bytes, offset: this.#offset, logprob: scores?.logprob ?? null, top });
    this.#offset += length;
  }

  #emit(text: string, finish: ChoicePart["finish"] = null, calls: ChoicePart["calls"] = []): void {
    const tokens = this.#held;
    this.#held = [];
    if (text !== "" || tokens.length > 0 || finish !== null) {
      this.#options.onPart({ index: this.#options.index, text, tokens, calls, finish });
    }
  }
}
