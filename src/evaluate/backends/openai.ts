// A server with OpenAI's completions endpoint. Its abilities are tested when it is opened.
import { join } from "node:path";
import { isFile } from "../../kit/files/index.js";
import { LayergraftError, usageError } from "../../kit/index.js";
import { didYouMean, formatSome } from "../../kit/printing/index.js";
import { loadChatTemplate, loadTokenizer } from "../../text/index.js";
import { type Answerer, answerAll, idsOf, listAt, numberAt, objectAt, stringAt } from "./answering.js";
import {
  type Answer,
  type AnswerOptions,
  type Backend,
  type BackendIdentity,
  type Encode,
  encodeWith,
  type Incapacities,
} from "./backend.js";
import { CompletionServer } from "./completions.js";
import { rendererOf } from "./engine-backend.js";
import { HttpClient, type HttpOptions } from "./http.js";
import { type ServeOptions, startServer } from "./serve.js";

export interface ServerOptions extends HttpOptions {
  /** The server's name for the model. Default: the only one it has. */
  readonly model?: string | undefined;
  /** Name of the model that the server was started with, used where it lists several models, or none. */
  readonly served?: string | undefined;
  /** Tokenizer of the model. Default: the server tokenizes, if it can. */
  readonly tokenizer?: Backend["tokenizer"];
  /** Renders a chat with the model's template. Default: protocols with chats are refused. */
  readonly renderChat?: Backend["renderChat"];
  /** Variables that it gives the template. */
  readonly templateVariables?: BackendIdentity["templateVariables"];
  /** Digest of the model's weights, if known. */
  readonly digest?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Ordinary text of several tokens, for tests of abilities. */
const PROBE = "The capital of France is Paris";

/**
 * Opens a server by its address, with or without `/v1`.
 * @throws LayergraftError code `server` when it does not answer, `usage` when it does not have the model
 */
export async function openOpenAI(options: ServerOptions): Promise<Backend> {
  const { signal, renderChat, tokenizer } = options;
  const http = new HttpClient({ ...options, url: options.url.replace(/\/v1\/?$/, "") });
  try {
    const { model, owner } = await findModel(http, options);
    const version = stringAt(await http.ask("/version", undefined, signal), "version");
    const encode = await findEncode(http, model, options);
    const ids = await encode?.(PROBE, true, signal);
    // A server that does not take token ids for a prompt refuses, or counts other tokens.
    const asked = { model, prompt: ids, max_tokens: 1, temperature: 0 };
    const reply = ids && (await http.ask("/v1/completions", asked, signal));
    const takesIds = ids !== undefined && numberAt(objectAt(reply, "usage"), "prompt_tokens") === ids.length;
    const known = { model, owner, encode: takesIds ? encode : undefined };
    // What a server cannot do it refuses at once, so there is nothing to wait for.
    const trialHttp = new HttpClient({ ...options, url: http.url, retries: 1 });
    const trial = new CompletionServer(trialHttp, { ...known, topCount: 0 });
    const loglikelihood = await trial.whyNoEcho(PROBE, signal);
    const top = await trial.findTopCount(PROBE, signal);
    trialHttp.close();
    const incapacities: Incapacities = {
      ...(loglikelihood && { loglikelihood }),
      ...(typeof top === "string" && { choose: top }),
    };
    const server = new CompletionServer(http, { ...known, topCount: typeof top === "number" ? top : 0 });
    return {
      identity: {
        backend: "openai",
        server: owner === undefined ? null : [owner, version].filter(Boolean).join(" "),
        model,
        digest: options.digest ?? null,
        bos: takesIds ? "tokenizer" : "server",
        ...(options.templateVariables && { templateVariables: options.templateVariables }),
      },
      incapacities,
      renderChat,
      tokenizer,
      generate: answering(http, server.generate, "generate text"),
      loglikelihood: answering(http, server.loglikelihood, "score continuations", incapacities.loglikelihood),
      choose: answering(http, server.choose, "weigh choices", incapacities.choose),
      close: async () => http.close(),
    };
  } catch (error) {
    http.close();
    throw error;
  }
}

/**
 * Starts the user's server and opens it. Closing the backend stops the server, which is also stopped if this fails.
 * @throws as `startServer` and `openOpenAI`
 */
export async function openServed(
  server: ServeOptions,
  options: Omit<ServerOptions, "url" | "served"> = {},
): Promise<{ readonly backend: Backend; readonly url: string }> {
  const { url, stop } = await startServer(server);
  try {
    const served = options.model ?? server.model;
    const opened = await openOpenAI({ ...options, model: undefined, url, served, signal: server.signal });
    return { backend: { ...opened, close: () => opened.close().finally(stop) }, url };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * The tokenizer and the chat template in a model's folder; neither without a tokenizer.json.
 * @throws LayergraftError code `usage` for variables that the template does not read
 */
export async function readTexts(
  folder: string | undefined,
  templateVariables?: BackendIdentity["templateVariables"],
): Promise<Pick<ServerOptions, "tokenizer" | "renderChat" | "templateVariables">> {
  const isKnown = folder !== undefined && (await isFile(join(folder, "tokenizer.json")));
  const renderChat = rendererOf(isKnown ? await loadChatTemplate(folder) : undefined, templateVariables);
  return isKnown ? { tokenizer: await loadTokenizer(folder), renderChat, templateVariables } : {};
}

/** @param reason why it cannot, if it cannot */
const answering =
  <Q, T extends object>(http: HttpClient, answerOne: Answerer<Q, T>, what: string, reason?: string) =>
  async (requests: readonly Q[], options?: AnswerOptions<T>): Promise<Answer<T>[]> => {
    if (reason !== undefined) throw new LayergraftError("backend", `this backend cannot ${what}: ${reason}`);
    return answerAll(requests, http.concurrency, answerOne, options);
  };

/** The model to use, and its owner, which says what the server is. */
async function findModel(
  http: HttpClient,
  { model, served, signal }: ServerOptions,
): Promise<{ model: string; owner?: string }> {
  // A server that was started for a model has it, whatever it lists.
  const reply =
    served === undefined ? await http.get("/v1/models", signal) : await http.ask("/v1/models", undefined, signal);
  const entries = listAt(reply, "data");
  const names = entries.map((entry) => stringAt(entry, "id")).filter((name) => name !== undefined);
  const [only] = names;
  const isOther = served !== undefined && !names.includes(served) && names.length !== 1;
  const found = model ?? (names.length === 1 ? only : served);
  if (found === undefined || (names.length > 0 && !names.includes(found) && !isOther)) {
    throw usageError(
      model === undefined
        ? `${http.url} has ${names.length} models (${formatSome(names)})`
        : `${http.url} has no model ${model}${didYouMean(model, names) || `; it has ${formatSome(names)}`}`,
      { option: "model" },
    );
  }
  const owner = stringAt(entries[names.indexOf(found)], "owned_by");
  return { model: found, ...(owner === undefined ? {} : { owner }) };
}

/** How prompts become ids: by the tokenizer at hand, or by the server's `/tokenize`; undefined where there is neither. */
async function findEncode(http: HttpClient, model: string, options: ServerOptions): Promise<Encode | undefined> {
  const theirs: Encode = async (text, specialTokens, signal) => {
    const body = { model, prompt: text, add_special_tokens: specialTokens };
    return idsOf(await http.post("/tokenize", body, signal, (reply) => (idsOf(reply) ? undefined : "token ids"))) ?? [];
  };
  const asked = await http.ask("/tokenize", { model, prompt: PROBE, add_special_tokens: false }, options.signal);
  const ids = idsOf(asked);
  const answered = ids && ids.length > 0 ? ids : undefined;
  if (!options.tokenizer) return answered && theirs;
  const ours = options.tokenizer.encode(PROBE);
  if (answered && answered.join() !== ours.join()) {
    throw usageError(
      `the tokenizer is not that of ${model} on the server: "${PROBE}" is ${ours.join(" ")} here and ` +
        `${answered.join(" ")} there`,
    );
  }
  return encodeWith(options.tokenizer);
}
