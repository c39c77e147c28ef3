// Bodies of requests: checked, with OpenAI's defaults. What the server cannot do is refused, not ignored.
// Fields and limits: https://platform.openai.com/docs/api-reference, and vLLM's `top_k` and `add_special_tokens`.

import { z } from "zod";
import { formatSome, isObject } from "../core/index.js";
import type { ChatMessage } from "../engine/index.js";
import { checkSchema, formatPath, formatProblem } from "../settings/index.js";
import { badRequest } from "./api-error.js";

/** What both kinds of requests have. */
export interface Sampling {
  readonly model: string | undefined;
  /** Answers to each prompt. */
  readonly n: number;
  /** Most new tokens; undefined: as many as fit. */
  readonly maxTokens: number | undefined;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number | undefined;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly stream: boolean;
  /** Whether a stream ends with the usage. */
  readonly includeUsage: boolean;
  /** Number of most likely tokens to list with each token; undefined without log-probabilities. */
  readonly top: number | undefined;
}

export interface CompletionRequest extends Sampling {
  readonly kind: "completion";
  readonly prompts: readonly (string | readonly number[])[];
  readonly echo: boolean;
  /** Whether a text begins with BOS. */
  readonly bos: boolean;
}

export interface ChatRequest extends Sampling {
  readonly kind: "chat";
  readonly messages: readonly ChatMessage[];
}

export interface TokenizeRequest {
  readonly model: string | undefined;
  readonly prompt: string;
  readonly bos: boolean;
}

const MAX_TOP = 20;
const MAX_STOPS = 64;
const MAX_MESSAGES = 10_000;
/** Answers to one request: prompts times n. */
const MAX_ANSWERS = 128;
const COMPLETION_TOKENS = 16;

const count = z.int().min(0);

const sampling = z.object({
  model: z.string().nullish(),
  n: z.int().min(1).max(MAX_ANSWERS).nullish(),
  max_tokens: count.nullish(),
  temperature: z.number().min(0).max(100).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(MAX_STOPS)]).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
});

const completion = sampling.extend({
  echo: z.boolean().nullish(),
  logprobs: count.max(MAX_TOP).nullish(),
  add_special_tokens: z.boolean().nullish(),
});

const chat = sampling.extend({
  max_completion_tokens: count.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: count.max(MAX_TOP).nullish(),
});

const tokenize = z.object({
  model: z.string().nullish(),
  prompt: z.string(),
  add_special_tokens: z.boolean().nullish(),
});

/** Fields that would change answers and are not supported, with the values that change nothing. */
const UNSUPPORTED: Readonly<Record<string, readonly unknown[]>> = {
  frequency_penalty: [0],
  presence_penalty: [0],
  repetition_penalty: [1],
  min_p: [0],
  logit_bias: ["{}"],
  suffix: [""],
  tools: ["[]"],
  functions: ["[]"],
  response_format: ['{"type":"text"}'],
  modalities: ['["text"]'],
  audio: [],
};

/** @throws ApiError with the first problems */
export function readCompletion(body: unknown): CompletionRequest {
  const fields = checked(completion, body, ["stop"]);
  const { echo, logprobs, add_special_tokens: bos } = fields;
  const prompts = readPrompts((body as { prompt?: unknown }).prompt);
  const best = (body as { best_of?: unknown }).best_of ?? fields.n ?? 1;
  if (best !== (fields.n ?? 1)) throw badRequest("best_of is not supported; leave it out, or give it n", "best_of");
  const common = samplingOf(fields, fields.max_tokens ?? COMPLETION_TOKENS, logprobs ?? undefined);
  if (prompts.length * common.n > MAX_ANSWERS) {
    throw badRequest(
      `the request asks for ${prompts.length * common.n} answers; at most ${MAX_ANSWERS} are allowed`,
      "prompt",
    );
  }
  if (common.maxTokens === 0 && echo !== true) {
    throw badRequest("max_tokens is 0, which needs echo; ask for at least 1 token", "max_tokens");
  }
  return { ...common, kind: "completion", prompts, echo: echo ?? false, bos: bos ?? true };
}

/** @throws ApiError with the first problems */
export function readChat(body: unknown): ChatRequest {
  const fields = checked(chat, body, ["stop"]);
  const { max_completion_tokens: limit, max_tokens: older, logprobs, top_logprobs: top } = fields;
  if (top != null && logprobs !== true) throw badRequest("top_logprobs needs logprobs: true", "top_logprobs");
  const maxTokens = limit ?? older ?? undefined;
  if (maxTokens === 0) throw badRequest("max_tokens is 0; ask for at least 1 token", "max_tokens");
  const messages = readMessages((body as { messages?: unknown }).messages);
  return { ...samplingOf(fields, maxTokens, logprobs === true ? (top ?? 0) : undefined), kind: "chat", messages };
}

/** @throws ApiError with the first problems */
export function readTokenize(body: unknown): TokenizeRequest {
  const { model, prompt, add_special_tokens: bos } = checked(tokenize, body, []);
  return { model: model ?? undefined, prompt, bos: bos ?? true };
}

function samplingOf(
  fields: z.output<typeof sampling>,
  maxTokens: number | undefined,
  top: number | undefined,
): Sampling {
  const { model, n, temperature, top_p: topP, top_k: topK, seed, stop, stream, stream_options: options } = fields;
  return {
    model: model ?? undefined,
    n: n ?? 1,
    maxTokens,
    temperature: temperature ?? 1,
    topP: topP ?? 1,
    // vLLM's -1 and 0 mean all tokens.
    topK: topK != null && topK > 0 ? topK : undefined,
    seed: seed ?? undefined,
    stop: stop == null ? [] : [stop].flat(),
    stream: stream ?? false,
    includeUsage: options?.include_usage ?? false,
    top,
  };
}

/** @param lists fields whose elements are only looked at if there are not too many */
function checked<T extends z.ZodType>(schema: T, body: unknown, lists: readonly string[]): z.output<T> {
  if (!isObject(body)) throw badRequest("the body must be a JSON object");
  for (const name of lists) {
    const list = body[name];
    if (Array.isArray(list) && list.length > MAX_STOPS) {
      throw badRequest(`${name} has ${list.length} entries; at most ${MAX_STOPS} are allowed`, name);
    }
  }
  for (const [name, neutral] of Object.entries(UNSUPPORTED)) {
    const value = body[name] ?? undefined;
    const plain = typeof value === "object" ? JSON.stringify(value).slice(0, 100) : value;
    if (value !== undefined && !neutral.includes(plain))
      throw badRequest(`${name} is not supported; leave it out`, name);
  }
  const { value, problems } = checkSchema(schema, body);
  const [first] = problems;
  if (!first) return value as z.output<T>;
  throw badRequest(problems.slice(0, 5).map(formatProblem).join("; "), formatPath(first.path) || null);
}

/** Prompts of a completion: a text, several, the token ids of one, or of several. */
function readPrompts(prompt: unknown): (string | number[])[] {
  const refusal = () =>
    badRequest("prompt must be a text, a list of texts, a list of token ids, or a list of such lists", "prompt");
  const isIds = (value: unknown): value is number[] => Array.isArray(value) && value.every(Number.isSafeInteger);
  if (typeof prompt === "string") return [prompt];
  if (!Array.isArray(prompt) || prompt.length === 0) throw refusal();
  if (isIds(prompt)) return [prompt];
  return prompt.map((one: unknown) => {
    if (typeof one === "string" || isIds(one)) return one;
    throw refusal();
  });
}

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"];

function readMessages(messages: unknown): ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0)
    throw badRequest("messages must be a list of messages", "messages");
  if (messages.length > MAX_MESSAGES) {
    throw badRequest(`messages has ${messages.length} entries; at most ${MAX_MESSAGES} are allowed`, "messages");
  }
  return messages.map((message: unknown, i) => {
    const where = `messages[${i}]`;
    if (!isObject(message)) throw badRequest(`${where} must be an object with role and content`, where);
    const { role } = message;
    if (typeof role !== "string" || !ROLES.includes(role)) {
      throw badRequest(`${where}.role must be one of ${formatSome(ROLES)}`, `${where}.role`);
    }
    // Templates know the older name.
    return { role: role === "developer" ? "system" : role, content: contentOf(message.content, `${where}.content`) };
  });
}

/** Text, or parts of it. */
function contentOf(content: unknown, where: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw badRequest(`${where} must be a text or a list of text parts`, where);
  return content
    .map((part: unknown) => {
      if (isObject(part) && part.type === "text" && typeof part.text === "string") return part.text;
      throw badRequest(`${where} has a part that is not text; only text is supported`, where);
    })
    .join("");
}
