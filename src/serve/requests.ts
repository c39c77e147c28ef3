// Bodies of requests: checked, with OpenAI's defaults.

import type { z } from "zod";
import { isObject } from "../kit/index.js";
import { parseWritten, withWritten } from "../kit/numbers/index.js";
import { closest } from "../kit/printing/index.js";
import { checkSchema, formatPath, formatProblem } from "../kit/settings/index.js";
import type { ChatMessage } from "../text/index.js";
import { badRequest } from "./api-error.js";
import {
  chatSchema,
  completionSchema,
  MAX_ANSWERS,
  MESSAGE_FIELDS,
  messageSchema,
  partSchema,
  type SamplingFields,
  tokenizeSchema,
  toolSchema,
} from "./request-schema.js";
import type { AnswerRequest } from "./served-model.js";
import type { Tools } from "./tool-calls.js";

/** What both kinds of requests have. */
export interface Sampling {
  readonly model: string | undefined;
  /** Answers to each prompt. */
  readonly n: number;
  /** Most new tokens; undefined: as many as fit. */
  readonly maxTokens: number | undefined;
  /** Least new tokens: before, nothing ends an answer. */
  readonly minTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number | undefined;
  readonly minP: number;
  /** Changes to logits; the model's own settings apply where these are undefined. */
  readonly logits: AnswerRequest["logits"];
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  /** Tokens that end an answer, besides the model's own. */
  readonly stopIds: readonly number[];
  /** Whether the model's own end tokens end no answer. */
  readonly ignoresEnd: boolean;
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

/** A variable of the template, and the field of the request that it comes from. */
export interface TemplateVariable {
  readonly name: string;
  readonly value: unknown;
  readonly field: string;
}

/** A limit of an answer, and the field of the request that it comes from. */
export interface AnswerLimit {
  readonly field: "response_format" | "tool_choice";
  /** JSON Schema of the answer. */
  readonly schema: Readonly<Record<string, unknown>>;
}

export interface ChatRequest extends Sampling {
  readonly kind: "chat";
  readonly messages: readonly ChatMessage[];
  readonly variables: readonly TemplateVariable[];
  readonly opensReply: boolean;
  readonly continuesFinal: boolean;
  readonly tools: Tools;
  /** Most calls in one answer; undefined: any number. */
  readonly maxCalls: number | undefined;
  /** What the answer must be; undefined: any text. */
  readonly limit: AnswerLimit | undefined;
}

export interface TokenizeRequest {
  readonly model: string | undefined;
  readonly prompt: string;
  readonly bos: boolean;
}

const COMPLETION_TOKENS = 16;

/** @throws ApiError with the first problems */
export function readCompletion(body: unknown): CompletionRequest {
  const fields = checked(completionSchema, body);
  const { echo = false, logprobs, add_special_tokens: bos = true, n = 1, best_of: best = n } = fields;
  const prompts = readPrompts(fields.prompt);
  if (best !== n) throw badRequest("best_of is not supported; leave it out, or give it n", "best_of");
  const common = samplingOf(fields, fields.max_tokens ?? COMPLETION_TOKENS, logprobs);
  if (prompts.length * n > MAX_ANSWERS) {
    throw badRequest(
      `the request asks for ${prompts.length * n} answers; at most ${MAX_ANSWERS} are allowed`,
      "prompt",
    );
  }
  if (common.maxTokens === 0 && !echo) {
    throw badRequest("max_tokens is 0, which needs echo; ask for at least 1 token", "max_tokens");
  }
  return { ...common, kind: "completion", prompts, echo, bos };
}

/** @throws ApiError with the first problems */
export function readChat(body: unknown): ChatRequest {
  const fields = checked(chatSchema, body);
  const { logprobs = false, top_logprobs: top = 0, response_format: format, tool_choice: choice } = fields;
  const { continue_final_message: continuesFinal = false, add_generation_prompt: opens = !continuesFinal } = fields;
  if (top > 0 && !logprobs) throw badRequest("top_logprobs needs logprobs: true", "top_logprobs");
  const maxTokens = fields.max_completion_tokens ?? fields.max_tokens;
  if (maxTokens === 0) throw badRequest("max_tokens is 0; ask for at least 1 token", "max_tokens");
  if (continuesFinal && opens) {
    throw badRequest(
      "add_generation_prompt begins a new message, so it cannot be true with continue_final_message; leave it out",
      "add_generation_prompt",
    );
  }
  const tools = choice === "none" ? [] : (fields.tools ?? []);
  const common = samplingOf(fields, maxTokens, logprobs ? top : undefined);
  const callable: Tools = new Map(
    tools.map((tool, i) => {
      const { name, parameters } = checked(toolSchema, tool, ["tools", i]).function;
      return [name, parameters];
    }),
  );
  const limits = [callLimit(choice, callable), formatLimit(format)].filter((limit) => limit !== undefined);
  const [limit] = limits;
  for (const [name, isGiven] of [
    ["logprobs", logprobs],
    ["min_tokens", common.minTokens > 0],
    ["ignore_eos", common.ignoresEnd],
    ["logit_bias", common.logits.logitBias !== undefined],
    ["response_format", limits.length > 1],
    ["tools", tools.length > 0 && limit?.field === "response_format"],
  ] as const) {
    if (limit && isGiven) throw badRequest(`${name} cannot be combined with ${limit.field}; leave one out`, name);
  }
  return {
    ...common,
    kind: "chat",
    messages: fields.messages.map(readMessage),
    variables: variablesOf(fields, tools),
    opensReply: opens,
    continuesFinal,
    tools: callable,
    maxCalls: fields.parallel_tool_calls === false ? 1 : undefined,
    limit,
  };
}

type ChatFields = z.output<typeof chatSchema>;

function formatLimit(format: ChatFields["response_format"]): AnswerLimit | undefined {
  if (format === undefined || format.type === "text") return undefined;
  const schema = format.type === "json_schema" ? format.json_schema.schema : { type: "object" };
  return { field: "response_format", schema };
}

/** The limit to one call of a tool, in JSON whatever the template teaches, as in vLLM. */
function callLimit(choice: ChatFields["tool_choice"], tools: Tools): AnswerLimit | undefined {
  if (choice === undefined || choice === "auto" || choice === "none") return undefined;
  const named = choice === "required" ? [...tools.keys()] : [choice.function.name];
  const missing = named.length === 0 ? "a tool" : named.find((name) => !tools.has(name));
  if (missing !== undefined)
    throw badRequest(`tool_choice asks for ${missing}, which tools does not have`, "tool_choice");
  const calls = named.map((name) => ({
    type: "object",
    properties: { name: { const: name }, arguments: tools.get(name) ?? { type: "object" } },
  }));
  return { field: "tool_choice", schema: { oneOf: calls } };
}

/** @throws ApiError with the first problems */
export function readTokenize(body: unknown): TokenizeRequest {
  const { model, prompt, add_special_tokens: bos = true } = checked(tokenizeSchema, body);
  return { model, prompt, bos };
}

function samplingOf(fields: SamplingFields, maxTokens: number | undefined, top: number | undefined): Sampling {
  const { top_k: topK = 0, stop = [], min_tokens: minTokens = 0 } = fields;
  const most = maxTokens === -1 ? undefined : maxTokens;
  const biases = Object.entries(fields.logit_bias ?? {}).map(([id, one]) => [Number(id), one] as const);
  const bias = biases.length === 0 ? undefined : new Map(biases);
  if (minTokens > (most ?? minTokens)) {
    throw badRequest(`min_tokens is ${minTokens}, more than max_tokens, which is ${most}`, "min_tokens");
  }
  return {
    model: fields.model,
    n: fields.n ?? 1,
    maxTokens: most,
    minTokens,
    temperature: fields.temperature ?? 1,
    topP: fields.top_p ?? 1,
    topK: topK > 0 ? topK : undefined,
    minP: fields.min_p ?? 0,
    logits: {
      logitBias: bias,
      repetitionPenalty: fields.repetition_penalty ?? fields.repeat_penalty,
      frequencyPenalty: fields.frequency_penalty,
      presencePenalty: fields.presence_penalty,
    },
    seed: fields.seed,
    stop: stop.filter((text) => text !== ""),
    stopIds: fields.stop_token_ids ?? [],
    ignoresEnd: fields.ignore_eos ?? false,
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    top,
  };
}

/** Far more than there are. */
const MAX_FIELDS = 1000;

/** @param path of the value in the body */
function checked<T extends z.ZodType>(schema: T, value: unknown, path: readonly PropertyKey[] = []): z.output<T> {
  if (!isObject(value)) {
    const where = formatPath(path);
    throw badRequest(`${where || "the body"} must be a JSON object`, where || null);
  }
  const entries = Object.entries(value);
  if (entries.length > MAX_FIELDS) {
    const where = formatPath(path) || "the body";
    throw badRequest(
      `${where} has ${entries.length} fields; at most ${MAX_FIELDS} are allowed`,
      formatPath(path) || null,
    );
  }
  // A null is a field that is not given.
  const given = Object.fromEntries(entries.filter(([, one]) => one !== null));
  const { value: read, problems } = checkSchema(schema, given, path);
  const [first] = problems;
  if (!first) return read as z.output<T>;
  throw badRequest(problems.slice(0, 5).map(formatProblem).join("; "), formatPath(first.at ?? first.path) || null);
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

/** Foreign fields of a message whose names are compared with its own: as many as clients add, as comparing takes time. */
const MAX_COMPARED = 16;

/** A message as templates read it. */
function readMessage(value: unknown, index: number): ChatMessage {
  const path = ["messages", index];
  const { role, content, refusal, tool_calls: calls = [], ...rest } = checked(messageSchema, value, path);
  for (const name of Object.keys(rest).slice(0, MAX_COMPARED)) {
    const meant = MESSAGE_FIELDS.includes(name) ? undefined : closest(name, MESSAGE_FIELDS);
    if (meant === undefined) continue;
    const field = formatPath([...path, name]);
    throw badRequest(`unknown field ${field}; did you mean ${meant}?`, field);
  }
  const parts = Array.isArray(content)
    ? content.map((part, i) => textOf(part, [...path, "content", i])).join("")
    : content;
  const text = parts ?? refusal ?? (calls.length > 0 ? "" : undefined);
  if (text === undefined) {
    const where = formatPath([...path, "content"]);
    throw badRequest(`${where} must be a text or a list of text parts`, where);
  }
  return {
    ...withWritten(rest, Object(value)),
    // Templates know the older name.
    role: role === "developer" ? "system" : role,
    content: text,
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
  };
}

function textOf(part: unknown, path: readonly PropertyKey[]): string {
  const type = isObject(part) ? part.type : undefined;
  if (typeof type === "string" && !["text", "refusal"].includes(type)) {
    throw badRequest(`${formatPath(path)} is not text; only text is supported`, formatPath(path));
  }
  const read = checked(partSchema, part, path);
  return read.type === "text" ? read.text : read.refusal;
}

type Call = NonNullable<z.output<typeof messageSchema>["tool_calls"]>[number];

/** A call as templates read it: with its arguments as data, or as the text that the model wrote if that is not JSON. */
function callOf({ id, function: { name, arguments: given } }: Call) {
  let parsed: unknown = given ?? {};
  try {
    if (typeof given === "string") parsed = given.trim() === "" ? {} : parseWritten(given);
  } catch {
    // The template decides.
  }
  const called = { name, arguments: isObject(parsed) ? parsed : given };
  return { ...(id === undefined ? {} : { id }), type: "function", function: called };
}

/** Fields that a request has for these. */
const RESERVED = ["messages", "tools", "documents", "add_generation_prompt", "continue_final_message"];

function variablesOf(
  { chat_template_kwargs: given = {}, documents, reasoning_effort: effort }: ChatFields,
  tools: readonly unknown[],
): TemplateVariable[] {
  const variables: TemplateVariable[] = [];
  const add = (name: string, value: unknown, field = name) => {
    if (value !== undefined) variables.push({ name, value, field });
  };
  if (tools.length > 0) add("tools", tools);
  add("documents", documents);
  add("reasoning_effort", effort);
  // As in vLLM: most templates have only this switch.
  if (effort !== undefined) add("enable_thinking", effort !== "none", "reasoning_effort");
  // Last, as they override the others.
  for (const [name, value] of Object.entries(withWritten(given))) {
    const field = `chat_template_kwargs.${name}`;
    if (RESERVED.includes(name)) throw badRequest(`${field} is a field of the request; pass it there`, field);
    add(name, value, field);
  }
  return variables;
}
