// One model behind a completions endpoint. Answers are checked before they are used.
import { own } from "../../kit/index.js";
import { encodePair } from "../../text/index.js";
import { joinReasoning } from "../answers/reasoning.js";
import type { Sampling } from "../tasks/open-tasks.js";
import { listAt, numberAt, objectAt, stringAt, tokensOfChoices } from "./answering.js";
import {
  type Answer,
  type ChooseRequest,
  type Chosen,
  cutAtStop,
  type Encode,
  type Generated,
  type GenerateRequest,
  type Loglikelihood,
  type LoglikelihoodRequest,
  moveBlanks,
  type RequestError,
} from "./backend.js";
import { type HttpClient, ServerError } from "./http.js";

const PATH = "/v1/completions";
/** OpenAI's own limit of stop strings; servers that are known to take more get them all. */
const MAX_STOPS = 4;
const TAKES_MANY_STOPS = ["vllm", "sglang", "llamacpp", "layergraft"];
/** Most next tokens that vLLM lists by default, and that OpenAI lists. */
const TOP_COUNTS = [20, 5];

export interface CompletionModel {
  readonly model: string;
  /** What `/v1/models` says of the owner: `vllm`, `sglang`, `llamacpp`. */
  readonly owner: string | undefined;
  /** Makes token ids of prompts; absent where the server takes text only. */
  readonly encode: Encode | undefined;
  /** How many likely next tokens to ask for. */
  readonly topCount: number;
}

/** The parts of an answer that count, as the server gave them. */
interface Completion {
  readonly text: string;
  readonly reasoning: string | undefined;
  readonly finish: string | undefined;
  readonly promptTokens: number | undefined;
  readonly newTokens: number | undefined;
  readonly tokens: readonly unknown[];
  readonly logprobs: readonly unknown[];
  readonly top: readonly Readonly<Record<string, number>>[];
}

export class CompletionServer {
  readonly #http: HttpClient;
  readonly #model: CompletionModel;

  constructor(http: HttpClient, model: CompletionModel) {
    this.#http = http;
    this.#model = model;
  }

  /** Why the server cannot score what it is given: tried with a text whose tokens it must give back. */
  async whyNoEcho(text: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const cut = text.lastIndexOf(" ");
    try {
      const answer = await this.loglikelihood({ context: text.slice(0, cut), continuation: text.slice(cut) }, signal);
      return "error" in answer ? answer.error : undefined;
    } catch (error) {
      if (error instanceof ServerError) return error.message;
      throw error;
    }
  }

  /** How many likely next tokens the server lists, tried with ever fewer; or why it lists none. */
  async findTopCount(text: string, signal: AbortSignal | undefined): Promise<number | string> {
    let reason = "";
    for (const count of TOP_COUNTS) {
      try {
        const { top } = await this.#complete(await this.#prompt(text, true, signal), { logprobs: count }, signal);
        if (Object.keys(top[0] ?? {}).length >= count) return count;
        reason = "it gives no log-probabilities of the likeliest next tokens";
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        reason = error.message;
      }
    }
    return reason;
  }

  readonly generate = async (request: GenerateRequest, signal: AbortSignal | undefined): Promise<Answer<Generated>> => {
    const prompt = await this.#prompt(request.prompt, request.specialTokens ?? true, signal);
    const { stop, maxNewTokens, sampling } = request;
    const stops = this.#is(TAKES_MANY_STOPS) ? stop : stop.slice(0, MAX_STOPS);
    const completion = await this.#complete(
      prompt,
      {
        max_tokens: maxNewTokens,
        ...(stops.length > 0 ? { stop: stops } : {}),
        ...this.#decoding(sampling),
      },
      signal,
    );
    const error = wrongPrompt(prompt, completion);
    if (error) return error;
    const { text: written, stopped } = cutAtStop(completion.text, stop);
    const text = completion.reasoning === undefined ? written : joinReasoning(completion.reasoning, written);
    if (stopped || completion.finish === "stop") return { text, finish: "stop" };
    if (completion.finish === "length") return { text, finish: "length" };
    return { error: `the server ended the answer with "${completion.finish}", neither "stop" nor "length"` };
  };

  readonly loglikelihood = async (
    request: LoglikelihoodRequest,
    signal: AbortSignal | undefined,
  ): Promise<Answer<Loglikelihood>> => {
    const { encode } = this.#model;
    const pair = encode && (await encodePair((text, marks) => encode(text, marks, signal), request));
    if (pair && (pair.context.length === 0 || pair.continuation.length === 0)) {
      return { error: "a context or a continuation without tokens has no log-likelihood" };
    }
    const prompt = pair ? [...pair.context, ...pair.continuation] : request.context + request.continuation;
    // One more token is generated, as some servers refuse to generate none. It comes after the prompt's.
    const completion = await this.#complete(prompt, { echo: true, logprobs: 1, ...this.#bos(request) }, signal);
    const { tokens, logprobs, top, promptTokens, newTokens } = completion;
    const error = wrongPrompt(prompt, completion);
    if (error) return error;
    if (promptTokens === undefined || newTokens === undefined) {
      return {
        error: "the server does not say how many tokens the prompt has, so its log-probabilities cannot be checked",
      };
    }
    const expected = promptTokens + newTokens;
    if (logprobs.length !== expected || tokens.length !== expected || promptTokens < 2) {
      return {
        error:
          `asked to echo a prompt of ${promptTokens} tokens, the server gave log-probabilities of ${logprobs.length} ` +
          `in all, ${newTokens} of them generated. It does not score prompts`,
      };
    }
    const count = pair ? pair.continuation.length : tailLength(tokens.slice(0, promptTokens), request.continuation);
    if (count === undefined) {
      return {
        error: "no token of the server ends where the continuation begins, so the continuation cannot be scored",
      };
    }
    const from = promptTokens - count;
    const scores = logprobs.slice(from, promptTokens);
    if (!scores.every(isFiniteNumber)) {
      return { error: "the server left out log-probabilities of the continuation, or gave infinite ones" };
    }
    const greedy = scores.every((score, i) => score >= Math.max(...Object.values(top[from + i] ?? {})));
    return { logprob: scores.reduce((sum, score) => sum + score, 0), tokens: count, greedy };
  };

  readonly choose = async (request: ChooseRequest, signal: AbortSignal | undefined): Promise<Answer<Chosen>> => {
    const { specialTokens = true } = request;
    const { context, choices } = moveBlanks(request.context, request.choices);
    const { encode } = this.#model;
    const byId = encode !== undefined && this.#is(["vllm"]);
    const ids = encode ? await tokensOfChoices(encode, { context, choices, specialTokens }, signal) : [];
    if ("error" in ids) return ids;
    const prompt = await this.#prompt(context, specialTokens, signal);
    const completion = await this.#complete(
      prompt,
      // By id, as several tokens may look the same as text.
      { logprobs: this.#model.topCount, ...(byId ? { return_tokens_as_token_ids: true } : {}), ...this.#bos(request) },
      signal,
    );
    const error = wrongPrompt(prompt, completion);
    if (error) return error;
    const top = completion.top[0] ?? {};
    const isById = byId && Object.keys(top).some((token) => /^token_id:\d+$/.test(token));
    const find = (choice: string, i: number): number | undefined =>
      isById
        ? top[`token_id:${ids[i]}`]
        : [" ", "\u2581", "\u0120"]
            .map((space) => own(top, choice.replace(/^ /, space)))
            .find((logprob) => logprob !== undefined);
    return { logprobs: choices.map((choice, i) => find(choice, i) ?? null) };
  };

  #is(owners: readonly string[]): boolean {
    return owners.includes(this.#model.owner ?? "");
  }

  /** How tokens are drawn, in the server's words. */
  #decoding(sampling: Sampling | undefined): Record<string, unknown> {
    // Without these vLLM and SGLang take what generation_config.json says, a repetition penalty for instance.
    const vllm = this.#is(["vllm", "sglang"]) ? { top_k: -1, top_p: 1, min_p: 0, repetition_penalty: 1 } : {};
    if (!sampling) return vllm;
    // llama.cpp samples from 40 tokens of at least 5% of the likeliest one's probability if not told otherwise.
    const llama = this.#is(["llamacpp"]) ? { top_k: 0, min_p: 0, repeat_penalty: 1 } : {};
    const { temperature, topP = 1, topK, seed } = sampling;
    return { ...vllm, ...llama, temperature, top_p: topP, ...(topK === undefined ? {} : { top_k: topK }), seed };
  }

  /** vLLM and SGLang let a text prompt say whether special tokens are added; others do as they do. */
  #bos({ specialTokens = true }: { specialTokens?: boolean | undefined }): Record<string, unknown> {
    return !this.#model.encode && this.#is(["vllm", "sglang"]) ? { add_special_tokens: specialTokens } : {};
  }

  async #prompt(text: string, specialTokens: boolean, signal: AbortSignal | undefined) {
    return (await this.#model.encode?.(text, specialTokens, signal)) ?? text;
  }

  async #complete(
    prompt: string | readonly number[],
    settings: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Completion> {
    const body = { model: this.#model.model, prompt, max_tokens: 1, temperature: 0, ...settings };
    const reply = await this.#http.post(PATH, body, signal, (answer) =>
      textOf(answer) === undefined ? "a text" : undefined,
    );
    const [choice] = listAt(reply, "choices");
    const usage = objectAt(reply, "usage");
    const logprobs = objectAt(choice, "logprobs");
    return {
      text: textOf(reply) ?? "",
      reasoning: reasoningOf(reply),
      finish: stringAt(choice, "finish_reason"),
      promptTokens: numberAt(usage, "prompt_tokens"),
      newTokens: numberAt(usage, "completion_tokens"),
      tokens: listAt(logprobs, "tokens"),
      logprobs: listAt(logprobs, "token_logprobs"),
      top: topOf(logprobs),
    };
  }
}

/**
 * The text of an answer. A model that has only reasoned when its tokens are used up has answered nothing, which is an
 * answer: servers with a reasoning parser give no text then, and the reasoning beside it. Asking again changes nothing.
 */
function textOf(reply: unknown): string | undefined {
  const [choice] = listAt(reply, "choices");
  return stringAt(choice, "text") ?? (reasoningOf(reply) === undefined ? undefined : "");
}

/** What a server's reasoning parser took out of the text; undefined if there is none. */
function reasoningOf(reply: unknown): string | undefined {
  const [choice] = listAt(reply, "choices");
  const found = ["reasoning_content", "reasoning"].flatMap((key) =>
    [choice, objectAt(choice, "message")].map((place) => stringAt(place, key)),
  );
  return found.find((text) => text !== undefined && text !== "");
}

/** Log-probabilities by token at each place: in OpenAI's form of completions, or in that of chats, which llama.cpp gives. */
function topOf(logprobs: object): Record<string, number>[] {
  const lists = listAt(logprobs, "top_logprobs");
  if (lists.length > 0) return lists.map(readTop);
  return listAt(logprobs, "content").map((place) => {
    const entries = listAt(place, "top_logprobs").map((entry) => [
      stringAt(entry, "token"),
      numberAt(entry, "logprob"),
    ]);
    // Of tokens that look the same the likelier counts: lists are sorted.
    return readTop(Object.fromEntries(entries.reverse()));
  });
}

function readTop(value: unknown): Record<string, number> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, number] => isFiniteNumber(entry[1])),
  );
}

/** JSON has no infinite numbers, but JavaScript reads 1e999 as one, and a log would keep it as null. */
function isFiniteNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

/** A server that cuts a prompt, or reads ids as something else, has not been asked what we asked. */
function wrongPrompt(prompt: string | readonly number[], { promptTokens }: Completion): RequestError | undefined {
  if (typeof prompt === "string" || promptTokens === undefined || promptTokens === prompt.length) return undefined;
  return {
    error: `the prompt has ${prompt.length} tokens, but the server took ${promptTokens}; its context may be too short`,
  };
}

/** How many of the last tokens make up a text; undefined when none of them begins where it does. */
function tailLength(tokens: readonly unknown[], text: string): number | undefined {
  let tail = "";
  for (let count = 1; count <= tokens.length && tail.length < text.length; count++) {
    const token = tokens[tokens.length - count];
    if (typeof token !== "string") return undefined;
    tail = token.replace(/^[\u2581\u0120]/, " ") + tail;
    if (tail === text) return count;
  }
  return undefined;
}
