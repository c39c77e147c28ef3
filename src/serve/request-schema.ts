// The fields of requests: what is done, what changes no answer here, and what is refused. Every other field is an error.
// Fields and limits: https://platform.openai.com/docs/api-reference, and those that vLLM and llama.cpp add to them.

import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { isObject } from "../kit/index.js";

const MAX_TOP = 20;
const MAX_STOPS = 64;
const MAX_MESSAGES = 10_000;
/** Tools of a request, and calls of a message. */
const MAX_TOOLS = 128;
const MAX_PARTS = 1000;
const MAX_VARIABLES = 64;
/** Answers to one request: prompts times n. */
export const MAX_ANSWERS = 128;

const count = z.int().min(0);
const anything = z.unknown();

/** A list whose entries are only looked at if there are not too many. */
const listOf = <T extends z.ZodType>(entry: T, most: number) => z.array(anything).max(most).pipe(z.array(entry));

/** Foreign fields, which are not looked at. */
const mapping = (most = Number.POSITIVE_INFINITY) =>
  z.custom<Readonly<Record<string, unknown>>>(
    (value) => isObject(value) && Object.keys(value).length <= most,
    `must be a mapping${Number.isFinite(most) ? ` of at most ${most} fields` : ""}`,
  );

const MAX_BIASES = 1024;

function isBias(value: unknown): boolean {
  if (!isObject(value)) return false;
  const biases = Object.entries(value);
  const isValid = ([id, bias]: [string, unknown]) =>
    /^\d{1,9}$/.test(id) && typeof bias === "number" && Math.abs(bias) <= 100;
  return biases.length <= MAX_BIASES && biases.every(isValid);
}

/** Fields that change no answer. */
const harmless = <const Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, anything.optional()])) as Record<Name, z.ZodOptional<z.ZodUnknown>>;

/** A field that is not supported. @param neutral values that change nothing @param advice what to do instead */
const refused = (neutral: readonly unknown[] = [], advice = "leave it out") =>
  anything.refine((value) => neutral.some((one) => isDeepStrictEqual(one, value)), `is not supported; ${advice}`);

const sampling = {
  model: z.string(),
  n: z.int().min(1).max(MAX_ANSWERS),
  /** -1: as many as fit, as in llama.cpp. */
  max_tokens: z.int().min(-1),
  min_tokens: count,
  temperature: z.number().min(0).max(100),
  top_p: z.number().gt(0).max(1),
  /** vLLM's -1 and 0 mean all tokens. */
  top_k: z.int().min(-1),
  min_p: z.number().min(0).max(1),
  frequency_penalty: z.number().min(-2).max(2),
  presence_penalty: z.number().min(-2).max(2),
  repetition_penalty: z.number().gt(0).max(100),
  /** llama.cpp's name of it. */
  repeat_penalty: z.number().gt(0).max(100),
  /** By token id. */
  logit_bias: z.custom<Readonly<Record<string, number>>>(
    isBias,
    "must be a mapping of at most 1024 token ids to numbers from -100 to 100",
  ),
  seed: z
    .number()
    .refine((seed) => Number.isInteger(seed) && Math.abs(seed) <= 2 ** 64, "must be a whole number of 64 bits"),
  stop: z.preprocess((stop) => (typeof stop === "string" ? [stop] : stop), listOf(z.string(), MAX_STOPS)),
  stop_token_ids: listOf(count, MAX_STOPS),
  ignore_eos: z.boolean(),
  stream: z.boolean(),
  stream_options: z.strictObject({
    include_usage: z.boolean().nullish(),
    ...harmless("include_obfuscation"),
    continuous_usage_stats: refused([false]).optional(),
  }),

  ...harmless("user", "safety_identifier", "metadata", "store", "service_tier", "prediction"),
  ...harmless("prompt_cache_key", "prompt_cache_retention", "request_id", "priority", "cache_salt", "cache_prompt"),

  length_penalty: refused([1]),
  bad_words: refused([[]]),
  allowed_token_ids: refused([[]]),
  use_beam_search: refused([false]),
  truncate_prompt_tokens: refused(),
  prompt_logprobs: refused(),
  skip_special_tokens: refused([true]),
  spaces_between_special_tokens: refused([true]),
  include_stop_str_in_output: refused([false]),
  return_tokens_as_token_ids: refused([false]),
  logits_processors: refused([[]]),
  structured_outputs: refused([], "use response_format of a chat"),
  guided_json: refused([], "use response_format of a chat"),
  guided_regex: refused([], "use response_format of a chat"),
  guided_choice: refused([], "use response_format of a chat"),
  guided_grammar: refused([], "use response_format of a chat"),
  grammar: refused([""], "use response_format of a chat"),
  json_schema: refused([], "use response_format of a chat"),
};

export type SamplingFields = { readonly [K in keyof typeof sampling]?: z.output<(typeof sampling)[K]> | undefined };

export const completionSchema = z
  .strictObject({
    ...sampling,
    prompt: anything,
    echo: z.boolean(),
    logprobs: count.max(MAX_TOP),
    add_special_tokens: z.boolean(),
    /** Must be n: answers are not ranked. */
    best_of: z.int(),

    suffix: refused([""]),
    response_format: refused([{ type: "text" }], "chats have it"),
  })
  .partial();

const responseFormat = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    json_schema: z.strictObject({ schema: mapping(), ...harmless("name", "description", "strict") }),
  }),
]);

export const chatSchema = z
  .strictObject({
    ...sampling,
    messages: z.array(anything).min(1).max(MAX_MESSAGES),
    max_completion_tokens: z.int().min(-1),
    logprobs: z.boolean(),
    top_logprobs: count.max(MAX_TOP),
    tools: z.array(anything).max(MAX_TOOLS),
    tool_choice: z.union(
      [
        z.enum(["auto", "none", "required"]),
        z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: z.string() }) }),
      ],
      'must be auto, none, required, or {"type": "function", "function": {"name": NAME}}',
    ),
    parallel_tool_calls: z.boolean(),
    response_format: responseFormat,
    /** Variables of the template. */
    chat_template_kwargs: mapping(MAX_VARIABLES),
    documents: z.array(anything),
    reasoning_effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
    add_generation_prompt: z.boolean(),
    continue_final_message: z.boolean(),

    ...harmless("mm_processor_kwargs"),

    echo: refused([false]),
    add_special_tokens: refused([false]),
    best_of: refused([1]),
    functions: refused([[]], "use tools"),
    function_call: refused(["none", "auto"], "use tools"),
    modalities: refused([["text"]]),
    audio: refused(),
    verbosity: refused(["medium"]),
    web_search_options: refused(),
    include_reasoning: refused([true], "reasoning is part of the text"),
    chat_template: refused([], "the model's own is used"),
    enable_thinking: refused([], "pass it in chat_template_kwargs"),
    thinking: refused([], "pass it in chat_template_kwargs"),
  })
  .partial()
  .required({ messages: true });

export const tokenizeSchema = z
  .strictObject({
    model: z.string(),
    prompt: z.string(),
    add_special_tokens: z.boolean(),
    return_token_strs: refused([false]),
  })
  .partial()
  .required({ prompt: true });

const call = z.strictObject({
  id: z.string().optional(),
  type: z.literal("function").optional(),
  function: z.strictObject({ name: z.string(), arguments: z.union([z.string(), mapping()]).nullish() }),
  ...harmless("index"),
});

/** Fields of a message that are done. Clients add facts of their own, which go to the template, as in transformers. */
const message = {
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: z.union([z.string(), z.array(anything).max(MAX_PARTS)]),
  name: z.string(),
  reasoning_content: z.string(),
  reasoning: z.string(),
  thinking: z.string(),
  tool_calls: listOf(call, MAX_TOOLS),
  tool_call_id: z.string(),
};
export const MESSAGE_FIELDS = Object.keys(message);

export const messageSchema = z
  .looseObject({
    ...message,
    /** A reply of OpenAI's that has no content. */
    refusal: z.string(),
    function_call: refused([], "use tool_calls"),
    prefix: refused([false], "pass continue_final_message in the request"),
    partial: refused([false], "pass continue_final_message in the request"),
  })
  .partial()
  .required({ role: true });

/** The text of a part is under its type. */
export const partSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text: z.string() }),
  z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
]);

/** A tool is passed to the template as it is. */
export const toolSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({ name: z.string() }),
});
