// llama.cpp's server by its own endpoints (/props, /tokenize, /completion). They take token ids, and say how many of them
// were used, which its OpenAI-style endpoint does not.

import { posix, win32 } from "node:path";
import { LayergraftError, usageError } from "../../core/index.js";
import { idsOf, lacksIds, listAt, numberAt, objectAt, openServer, stringAt, tokensOfChoices } from "./answering.js";
import {
  type Answer,
  type Backend,
  type ChooseRequest,
  type Chosen,
  cutAtStop,
  type Encode,
  type Generated,
  type GenerateRequest,
  type RequestError,
} from "./backend.js";
import type { HttpClient } from "./http.js";
import type { ServerOptions } from "./openai.js";

/** More than the 20 that other servers give, as llama.cpp has no bound: a letter is seldom beyond. */
const TOP_COUNT = 100;
const NO_PROMPT_LOGPROBS =
  "llama.cpp's server gives no log-probabilities of a prompt's tokens; it can weigh single letters as next tokens";
/** Samplers that llama.cpp may have been started with and that greedy or plain sampling does not have. */
const PLAIN_SAMPLING = {
  repeat_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  dry_multiplier: 0,
  xtc_probability: 0,
  typical_p: 1,
  min_p: 0,
  mirostat: 0,
};

/**
 * Opens a llama.cpp server.
 * @throws LayergraftError code `server` when it does not answer or is another
 */
export function openLlamaCpp(options: ServerOptions): Promise<Backend> {
  return openServer(options, async (http) => {
    const props = await http.get("/props", options.signal);
    const path = stringAt(props, "model_path");
    if (path === undefined) {
      throw new LayergraftError("server", `${http.url} is not a llama.cpp server: its /props names no model`);
    }
    const name = stringAt(props, "model_alias") || win32.basename(posix.basename(path));
    if (options.model !== undefined && options.model !== name) {
      throw usageError(`${http.url} serves ${name}, not ${options.model}`);
    }
    const build = stringAt(props, "build_info");
    const server = new LlamaCppServer(http);
    return {
      identity: {
        backend: "llamacpp",
        server: build === undefined ? "llama.cpp" : `llama.cpp ${build}`,
        model: name,
        digest: options.digest ?? null,
        bos: "tokenizer",
      },
      incapacities: { loglikelihood: NO_PROMPT_LOGPROBS },
      answers: server,
      renderChat: options.renderChat ?? server.renderChat,
    };
  });
}

class LlamaCppServer {
  readonly #http: HttpClient;

  constructor(http: HttpClient) {
    this.#http = http;
  }

  readonly encode: Encode = async (content, add_special, signal) => {
    const body = { content, add_special, parse_special: true };
    return idsOf(await this.#http.post("/tokenize", body, signal, lacksIds)) ?? [];
  };

  readonly renderChat = async (messages: readonly { role: string; content: string }[]): Promise<string> => {
    const lacks = (reply: unknown) => (stringAt(reply, "prompt") === undefined ? "a prompt" : undefined);
    return stringAt(await this.#http.post("/apply-template", { messages }, undefined, lacks), "prompt") ?? "";
  };

  readonly generate = async (request: GenerateRequest, signal: AbortSignal | undefined): Promise<Answer<Generated>> => {
    const { stop, maxNewTokens } = request;
    const prompt = await this.encode(request.prompt, request.specialTokens ?? true, signal);
    const settings = { n_predict: maxNewTokens, temperature: 0, top_k: 1, top_p: 1, seed: 0, stop };
    const reply = await this.#complete(prompt, settings, signal);
    const error = cutPrompt(prompt, reply);
    if (error) return error;
    const { text, stopped } = cutAtStop(stringAt(reply, "content") ?? "", stop);
    // Older servers say it in three booleans.
    const { stop_type, stopped_limit } = reply as { stop_type?: unknown; stopped_limit?: unknown };
    const isCut = stop_type === undefined ? stopped_limit === true : stop_type === "limit";
    return { text, finish: isCut && !stopped ? "length" : "stop" };
  };

  readonly choose = async (request: ChooseRequest, signal: AbortSignal | undefined): Promise<Answer<Chosen>> => {
    const ids = await tokensOfChoices(this.encode, request, signal);
    if ("error" in ids) return ids;
    const prompt = await this.encode(request.context.trimEnd(), request.specialTokens ?? true, signal);
    // Below zero: greedy, with probabilities as they are before any sampling, in old servers as in new.
    const settings = { n_predict: 1, temperature: -1, n_probs: TOP_COUNT, post_sampling_probs: false };
    const reply = await this.#complete(prompt, settings, signal);
    const error = cutPrompt(prompt, reply);
    if (error) return error;
    const [first] = listAt(reply, "completion_probabilities");
    const top = listAt(first, "top_logprobs");
    if (top.length === 0) {
      return {
        error: "the server lists no log-probabilities of next tokens; update llama.cpp to a version of 2025 or later",
      };
    }
    const found = new Map(top.map((entry) => [numberAt(entry, "id"), numberAt(entry, "logprob")]));
    return { logprobs: ids.map((id) => found.get(id) ?? null) };
  };

  #complete(prompt: readonly number[], settings: object, signal: AbortSignal | undefined): Promise<unknown> {
    const body = { prompt, ...PLAIN_SAMPLING, cache_prompt: true, ...settings };
    const lacks = (reply: unknown) => (stringAt(reply, "content") === undefined ? "a text" : undefined);
    return this.#http.post("/completion", body, signal, lacks);
  }
}

/** A prompt that did not fit was cut, and the answer is to another one. */
function cutPrompt(prompt: readonly number[], reply: unknown): RequestError | undefined {
  const taken = numberAt(reply, "tokens_evaluated");
  const settings = objectAt(reply, "generation_settings");
  const context = numberAt(settings, "n_ctx");
  const isCut = (reply as { truncated?: unknown }).truncated === true;
  if (!isCut && (taken === undefined || taken === prompt.length)) return undefined;
  return {
    error:
      `the prompt has ${prompt.length} tokens, more than the server's context${context ? ` of ${context}` : ""} holds ` +
      "together with the answer; start it with a larger --ctx-size (it is divided among the --parallel slots)",
  };
}
