// Ollama by its own endpoint, /api/generate with raw prompts. Its OpenAI-style endpoint drops log-probabilities silently,
// applies a repetition penalty by default and cuts long prompts.
import { didYouMean, formatSome, LayergraftError, usageError } from "../../core/index.js";
import { listAt, numberAt, objectAt, openServer, stringAt } from "./answering.js";
import {
  type Answer,
  type Backend,
  type ChooseRequest,
  type Chosen,
  cutAtStop,
  type Generated,
  type GenerateRequest,
  moveBlanks,
} from "./backend.js";
import type { HttpClient } from "./http.js";
import type { ServerOptions } from "./openai.js";

export interface OllamaOptions extends ServerOptions {
  /** Tokens of context to reserve for each request; default: the model's, at most 8,192. */
  readonly contextLength?: number | undefined;
}

/** The most that Ollama takes for top_logprobs (api/types.go). */
const TOP_COUNT = 20;
/** An 8-shot prompt in the scripts that take most tokens, and its answer; memory grows with it. */
const CONTEXT_LENGTH = 8192;
/** `truncate: false` came with 0.12.6, log-probabilities with 0.12.11. */
const OLDEST = [0, 12, 11] as const;
const NO_PROMPT_LOGPROBS =
  "Ollama gives no log-probabilities of a prompt's tokens; it can weigh single letters as next tokens";

/**
 * Opens a model of an Ollama server.
 * @throws LayergraftError code `server` when it does not answer or is too old, `usage` when it lacks the model
 */
export function openOllama(options: OllamaOptions): Promise<Backend> {
  const { signal } = options;
  return openServer(options, async (http) => {
    const version = stringAt(await http.get("/api/version", signal), "version");
    if (version === undefined) throw new LayergraftError("server", `${http.url} is not an Ollama server`);
    if (isOlder(version)) {
      throw new LayergraftError(
        "server",
        `Ollama ${version} cuts long prompts silently and gives no log-probabilities; update it to ${OLDEST.join(".")} or later`,
      );
    }
    const { name, digest } = await findModel(http, options);
    const context = options.contextLength ?? Math.min(CONTEXT_LENGTH, await contextOf(http, name, signal));
    return {
      identity: {
        backend: "ollama",
        server: `ollama ${version}`,
        model: name,
        digest: options.digest ?? digest ?? null,
        bos: "server",
      },
      incapacities: { loglikelihood: NO_PROMPT_LOGPROBS },
      answers: new OllamaServer(http, name, context),
      renderChat: options.renderChat,
    };
  });
}

function isOlder(version: string): boolean {
  const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number);
  if (!parts) return false; // built from source
  const difference = OLDEST.map((oldest, i) => (parts[i] ?? 0) - oldest).find((part) => part !== 0) ?? 0;
  return difference < 0 && parts.some((part) => part > 0); // 0.0.0 is built from source too
}

async function findModel(
  http: HttpClient,
  { model, signal }: OllamaOptions,
): Promise<{ name: string; digest: string | undefined }> {
  const models = listAt(await http.get("/api/tags", signal), "models");
  const names = models.flatMap((entry) => stringAt(entry, "name") ?? []);
  const wanted = model ?? (names.length === 1 ? names[0] : undefined);
  const name = names.find((one) => one === wanted || one === `${wanted}:latest`);
  if (name === undefined) {
    throw usageError(
      wanted === undefined
        ? `${http.url} has ${names.length} models (${formatSome(names)}); choose one with --model`
        : `${http.url} has no model ${wanted}${didYouMean(wanted, names) || ` (it has ${formatSome(names)})`}`,
    );
  }
  return { name, digest: stringAt(models[names.indexOf(name)], "digest") };
}

/** The context that a model was trained for: `llama.context_length` and its like. */
async function contextOf(http: HttpClient, model: string, signal: AbortSignal | undefined): Promise<number> {
  const info = objectAt(await http.post("/api/show", { model }, signal), "model_info");
  const key = Object.keys(info).find((name) => name.endsWith(".context_length"));
  return (key && numberAt(info, key)) || CONTEXT_LENGTH;
}

class OllamaServer {
  readonly #http: HttpClient;
  readonly #model: string;
  readonly #context: number;

  constructor(http: HttpClient, model: string, context: number) {
    this.#http = http;
    this.#model = model;
    this.#context = context;
  }

  readonly generate = async (request: GenerateRequest, signal: AbortSignal | undefined): Promise<Answer<Generated>> => {
    const { stop, maxNewTokens } = request;
    const options = { num_predict: maxNewTokens, temperature: 0, top_p: 1, seed: 0, stop };
    const reply = await this.#ask({ prompt: request.prompt, options }, signal);
    const { text, stopped } = cutAtStop(stringAt(reply, "response") ?? "", stop);
    const reason = stringAt(reply, "done_reason");
    if (stopped || reason === "stop") return { text, finish: "stop" };
    if (reason === "length") return { text, finish: "length" };
    return { error: `the server ended the answer with "${reason}", neither "stop" nor "length"` };
  };

  readonly choose = async (request: ChooseRequest, signal: AbortSignal | undefined): Promise<Answer<Chosen>> => {
    const { context, choices } = moveBlanks(request.context, request.choices);
    const options = { num_predict: 1, temperature: 0, seed: 0, stop: [] };
    const body = { prompt: context, options, logprobs: true, top_logprobs: TOP_COUNT };
    const [first] = listAt(await this.#ask(body, signal), "logprobs");
    const top = listAt(first, "top_logprobs");
    if (top.length === 0) return { error: "the server lists no log-probabilities of next tokens for this model" };
    const found = new Map<string | undefined, number>();
    // Of tokens that look the same the likelier counts: lists are sorted, so the first stays.
    for (const entry of top) {
      const token = stringAt(entry, "token");
      const logprob = numberAt(entry, "logprob");
      if (logprob !== undefined && !found.has(token)) found.set(token, logprob);
    }
    return { logprobs: choices.map((choice) => found.get(choice) ?? null) };
  };

  async #ask(
    { options, ...body }: { options: Record<string, unknown>; [field: string]: unknown },
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    return this.#http.post(
      "/api/generate",
      {
        model: this.#model,
        ...body,
        raw: true,
        stream: false,
        // An error instead of a prompt cut, or half forgotten.
        truncate: false,
        shift: false,
        options: {
          num_ctx: this.#context,
          // Ollama's own defaults are 1.1, 40 and 0.9: not the model's greedy answer, not its distribution.
          repeat_penalty: 1,
          presence_penalty: 0,
          frequency_penalty: 0,
          top_k: 0,
          min_p: 0,
          ...options,
        },
      },
      signal,
      (answer) => {
        if (stringAt(answer, "response") === undefined) return "a text";
        return (answer as { done?: unknown }).done === true ? undefined : "an end";
      },
    );
  }
}
