// The server under OpenAI's own client: what it answers equals what the engine computes.
// @module-tag slow
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { idOf, writeScripted } from "../../test/support/engine.js";
import { type Engine, openEngine } from "../engine/index.js";
import type { ServedModel } from "./served-model.js";
import { servedModel } from "./served-model.js";
import { type RunningServer, startApiServer } from "./server.js";

const folder = join(temporaryFolder(), "model");
const models = new Map<string, ServedModel>();
let engine: Engine;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  await writeScripted(folder, {
    ...{ c: "byte C3", "byte C3": "byte A9", "byte A9": "ST", ST: "OP", OP: "x", x: " ", " ": "ab", ab: "!" },
    ...{ ":": "hi", hi: "?", a: "b", b: "a" },
  });
  engine = await openEngine(folder);
  models.set("plain", await servedModel(await openEngine(folder)));
  // A second one, with shared weights.
  models.set("shared", await servedModel(await openEngine(folder, { shared: true })));
  server = await startApiServer({ models, port: 0 });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "unused", maxRetries: 0 });
});
afterAll(async () => {
  await server.close();
  for (const model of models.values()) await model.close();
  await engine.close();
});

const GREEDY = { model: "plain", temperature: 0 } as const;
const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, false]));
const HELLO = [{ role: "user", content: "hi" }] as const;
const ADD = { type: "function", function: { name: "add" } };

describe("completions", () => {
  it("answer texts, token ids, and several of them", async () => {
    const one = await client.completions.create({ ...GREEDY, prompt: "c" });
    expect(one).toMatchObject({
      object: "text_completion",
      model: "plain",
      choices: [{ index: 0, text: "éSTOPx ab!", finish_reason: "stop", logprobs: null }],
      // BOS and c; eight tokens and the end token.
      usage: { prompt_tokens: 2, completion_tokens: 9, total_tokens: 11 },
    });
    expect(one.system_fingerprint).toBe(`layergraft-${engine.digest.slice(0, 12)}`);
    const ids = await client.completions.create({ ...GREEDY, prompt: [idOf("a")], max_tokens: 3 });
    expect(ids.choices).toMatchObject([{ text: "bab", finish_reason: "length" }]);
    expect(ids.usage?.prompt_tokens).toBe(1);
    for (const prompt of [
      ["x", "hi"],
      [[idOf("x")], [idOf("hi")]],
    ] satisfies (string[] | number[][])[]) {
      const { choices } = await client.completions.create({ ...GREEDY, prompt, n: 2 });
      expect(choices.map(({ index, text }) => [index, text])).toEqual([
        [0, " ab!"],
        [1, " ab!"],
        [2, "?"],
        [3, "?"],
      ]);
    }
  });

  it("follow penalties and biases", async () => {
    const answer = async (fields: object) => {
      const { choices } = await client.completions.create({ ...GREEDY, prompt: "a", max_tokens: 4, ...fields });
      return choices[0]?.text;
    };
    expect(await answer({})).toBe("baba");
    // The model's logits are 0 and far above: only a bias or a penalty beyond that changes what follows.
    expect(await answer({ logit_bias: { [idOf("b")]: -100 } })).not.toContain("b");
    expect(await answer({ logit_bias: { [idOf("x")]: 100 } })).toBe("xxxx");
    expect(await answer({ repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0, min_p: 0.5 })).toBe("baba");
    const sampled = await answer({ temperature: 100, min_p: 1, seed: 1 });
    expect(sampled).toBe("baba");
  });

  it("end at stop texts, also across tokens", async () => {
    const stopped = { ...GREEDY, prompt: "c", stop: ["never", "TO"] };
    const whole = await client.completions.create(stopped);
    expect(whole.choices).toMatchObject([{ text: "éS", finish_reason: "stop" }]);
    let text = "";
    for await (const chunk of await client.completions.create({ ...stopped, stream: true })) {
      text += chunk.choices[0]?.text ?? "";
    }
    expect(text).toBe("éS");
  });

  it.each([
    // After "hi" comes "?", then the end. Where it may not come, <unk> is the first of equal tokens.
    [{ prompt: "hi" }, "?", "stop", 2],
    [{ prompt: "hi", min_tokens: 3 }, "?", "stop", 4],
    [{ prompt: "hi", ignore_eos: true, max_tokens: 5 }, "?", "length", 5],
    [{ prompt: "hi", stop_token_ids: [idOf("?")] }, "", "stop", 1],
    [{ prompt: "a", ignore_eos: true, stop_token_ids: [idOf("a")] }, "b", "stop", 2],
    [{ prompt: "a", stop_token_ids: [idOf("a")], min_tokens: 2, max_tokens: 3 }, "b", "stop", 3],
    [{ prompt: "a", stop: ["b"] }, "", "stop", 1],
    [{ prompt: "a", stop: ["b"], min_tokens: 2 }, "ba", "stop", 3],
  ])("end where %j says", async (fields, text, finish, tokens) => {
    for (const stream of [false, true]) {
      const body = { ...GREEDY, max_tokens: 9, ...fields };
      const found = { text: "", finish: "", tokens: 0 };
      const add = ({ choices, usage }: OpenAI.Completion) => {
        found.text += choices[0]?.text ?? "";
        found.finish ||= choices[0]?.finish_reason ?? "";
        found.tokens ||= usage?.completion_tokens ?? 0;
      };
      if (!stream) add(await client.completions.create(body));
      else {
        const options = { stream: true, stream_options: { include_usage: true } } as const;
        for await (const chunk of await client.completions.create({ ...body, ...options })) add(chunk);
      }
      expect(found).toEqual({ text, finish, tokens });
    }
  });

  it("do not end too early when they are sampled, and have the scores of all tokens", async () => {
    const fields = { model: "plain", prompt: "hi", temperature: 9, n: 20, min_tokens: 6, max_tokens: 7, logprobs: 20 };
    const { choices } = await client.completions.create(fields as OpenAI.CompletionCreateParamsNonStreaming);
    expect(choices.map(({ logprobs }) => logprobs?.tokens?.slice(0, 6).includes("</s>"))).toEqual(
      Array(20).fill(false),
    );
    // The end is listed with its own score all the same: after "?" it is the likeliest.
    const after = choices.flatMap(({ logprobs }) => {
      const at = logprobs?.tokens?.indexOf("?") ?? -1;
      return at >= 0 && at < 5 ? [Object.entries(logprobs?.top_logprobs?.[at + 1] ?? {})] : [];
    });
    expect(after.length).toBeGreaterThan(0);
    for (const top of after) expect(top.toSorted(([, a], [, b]) => b - a)[0]?.[0]).toBe("</s>");
  });

  it("score a prompt that they echo, as the engine does", async () => {
    const prompt = [idOf("c"), idOf("a"), idOf("b"), idOf("hi")];
    const [expected = []] = await engine.score([[...prompt, idOf("?")]]);
    for (const [model, max_tokens] of [
      ["plain", 1],
      ["shared", 1],
      ["plain", 0],
    ] as const) {
      const reply = await client.completions.create({
        model,
        temperature: 0,
        prompt,
        max_tokens,
        echo: true,
        logprobs: 3,
      });
      const { text, logprobs } = reply.choices[0] ?? {};
      const count = prompt.length + max_tokens;
      expect(text).toBe(max_tokens === 1 ? "cabhi?" : "cabhi");
      expect(logprobs?.tokens).toEqual(["c", "a", "b", "hi", "?"].slice(0, count));
      expect(logprobs?.text_offset).toEqual([0, 1, 2, 3, 5].slice(0, count));
      expect(logprobs?.token_logprobs?.[0]).toBeNull();
      for (const [i, value] of expected.slice(0, count - 1).entries()) {
        expect(logprobs?.token_logprobs?.[i + 1]).toBeCloseTo(value, 5);
      }
      // "a" after "c" is not among the likely ones; it is listed all the same.
      expect(Object.keys(logprobs?.top_logprobs?.[1] ?? {})).toHaveLength(4);
      expect(logprobs?.top_logprobs?.[2]).toMatchObject({ b: logprobs?.token_logprobs?.[2] });
      expect(reply.usage?.completion_tokens).toBe(max_tokens);
    }
    const echoed = await client.completions.create({ ...GREEDY, prompt: "ab", max_tokens: 2, echo: true, n: 2 });
    expect(echoed.choices.map(({ text }) => text)).toEqual(["ab!", "ab!"]);
  });

  it("name the tokens that are parts of characters by their bytes", async () => {
    const { choices } = await client.completions.create({ ...GREEDY, prompt: "c", max_tokens: 3, logprobs: 20 });
    const { text, logprobs } = choices[0] ?? {};
    expect(text).toBe("éST");
    expect(logprobs?.tokens).toEqual(["bytes:\\xc3", "bytes:\\xa9", "ST"]);
    expect(logprobs?.text_offset).toEqual([0, 1, 1]);
    const [first, second] = logprobs?.token_logprobs ?? [];
    // Both are among the alternatives, each with its own number.
    expect(logprobs?.top_logprobs?.[0]).toMatchObject({ "bytes:\\xc3": first, "bytes:\\xa9": expect.any(Number) });
    expect(logprobs?.top_logprobs?.[1]).toMatchObject({ "bytes:\\xa9": second });
    expect(Object.keys(logprobs?.top_logprobs?.[0] ?? {})).toHaveLength(20);
    const chat = await client.chat.completions.create({
      ...{ ...GREEDY, max_completion_tokens: 1, temperature: 0, logprobs: true, top_logprobs: 20 },
      messages: [{ role: "user", content: "a" }],
    });
    const top = chat.choices[0]?.logprobs?.content?.[0]?.top_logprobs ?? [];
    expect(top.find(({ token }) => token === "bytes:\\xc3")?.bytes).toEqual([0xc3]);
    expect(top.find(({ token }) => token === "hi")?.bytes).toEqual([104, 105]);
  });

  it("are the same for the same seed, in a stream too, and differ for others", async () => {
    const sampled = { model: "plain", prompt: "a", max_tokens: 12, temperature: 1.5, top_p: 0.9, seed: 3, logprobs: 2 };
    const [first, again, shared, other] = await Promise.all(
      [{}, {}, { model: "shared" }, { seed: 4 }].map((more) => client.completions.create({ ...sampled, ...more })),
    );
    expect(again?.choices).toEqual(first?.choices);
    expect(shared?.choices[0]?.text).toBe(first?.choices[0]?.text);
    expect(other?.choices[0]?.text).not.toBe(first?.choices[0]?.text);
    const chunks = [];
    const stream = await client.completions.create({
      ...sampled,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) chunks.push(chunk);
    const choices = chunks.flatMap((chunk) => chunk.choices);
    expect(choices.map(({ text }) => text).join("")).toBe(first?.choices[0]?.text);
    expect(choices.flatMap(({ logprobs }) => logprobs?.token_logprobs)).toEqual(
      first?.choices[0]?.logprobs?.token_logprobs,
    );
    expect(choices.at(-1)?.finish_reason).toBe(first?.choices[0]?.finish_reason);
    expect(chunks.at(-1)?.usage).toEqual(first?.usage);
  });
});

describe("chats", () => {
  it("go through the model's template", async () => {
    const reply = await client.chat.completions.create({
      ...GREEDY,
      messages: [
        ...HELLO,
        { role: "assistant", content: "hi" },
        { role: "user", content: [{ type: "text", text: "a" }] },
      ],
      logprobs: true,
      top_logprobs: 2,
    });
    // <s>user:hi\nbot:hi\nuser:a\nbot:
    const prompt = await engine.encode([
      { role: "user", content: "hi" },
      { role: "assistant", content: "hi" },
      { role: "user", content: "a" },
    ]);
    expect(reply).toMatchObject({
      object: "chat.completion",
      choices: [{ message: { role: "assistant", content: "hi?", refusal: null }, finish_reason: "stop" }],
      usage: { prompt_tokens: prompt.length, completion_tokens: 3 },
    });
    const scored = reply.choices[0]?.logprobs?.content ?? [];
    const [expected = []] = await engine.score([[...prompt, idOf("hi"), idOf("?"), idOf("</s>")]]);
    expect(scored.map(({ token }) => token)).toEqual(["hi", "?", "</s>"]);
    for (const [i, value] of expected.slice(-3).entries()) expect(scored[i]?.logprob).toBeCloseTo(value, 5);
    expect(scored[0]?.bytes).toEqual([104, 105]);
    expect(scored[0]?.top_logprobs).toHaveLength(2);
    expect(scored[0]?.top_logprobs[0]).toMatchObject({ token: "hi", logprob: scored[0]?.logprob });
  });

  it("stream each choice", async () => {
    const request = { model: "plain", messages: [...HELLO], n: 3, seed: 5, temperature: 2, max_completion_tokens: 9 };
    const whole = await client.chat.completions.create(request);
    const texts = ["", "", ""];
    const ends: (string | null)[] = [];
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) {
      for (const { index, delta, finish_reason } of choices) {
        texts[index] += delta.content ?? "";
        if (finish_reason) ends[index] = finish_reason;
      }
    }
    expect(texts).toEqual(whole.choices.map(({ message }) => message.content));
    expect(ends).toEqual(whole.choices.map(({ finish_reason }) => finish_reason));
    expect(new Set(texts).size).toBeGreaterThan(1);
  });
});

describe("models", () => {
  it("are listed, and one by one", async () => {
    const ids = [];
    for await (const { id, owned_by } of await client.models.list()) ids.push([id, owned_by]);
    expect(ids).toEqual([
      ["plain", "layergraft"],
      ["shared", "layergraft"],
    ]);
    expect(await client.models.retrieve("shared")).toMatchObject({ id: "shared", max_model_len: 64 });
  });

  it("that are unknown are refused with those that there are", async () => {
    const refused = await client.completions.create({ model: "gpt-4", prompt: "a" }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OpenAI.NotFoundError);
    expect(refused).toMatchObject({
      status: 404,
      code: "model_not_found",
      param: "model",
      message: '404 The model "gpt-4" does not exist. The server has plain, shared.',
    });
  });
});

const ask = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const reply = await fetch(server.url + path, { method: "POST", body: text, headers });
  return {
    status: reply.status,
    headers: reply.headers,
    json: (await reply.json()) as { error?: Record<string, unknown> },
  };
};

describe("what is wrong is refused with its field", () => {
  const deep = "[".repeat(500_000);
  it.each<[unknown, string | null, RegExp]>([
    ['{"model": "plain"', null, /^The body is not valid JSON\.$/],
    [deep, null, /not valid JSON/],
    [`{"model":"plain","prompt":"a","metadata":${deep}${"]".repeat(500_000)}}`, null, /^ok$/],
    [`{"model":"plain","prompt":${deep}${"]".repeat(500_000)}}`, "prompt", /prompt must be a text/],
    [[], null, /must be a JSON object/],
    [{ prompt: "a" }, "model", /model is missing. The server has plain, shared/],
    [{ model: "plain" }, "prompt", /prompt must be a text/],
    [
      { model: "plain", prompt: "a", tempurature: 0 },
      "tempurature",
      /^unknown field "tempurature"; did you mean temper/,
    ],
    [{ model: "plain", prompt: "a", include_usage: true }, "include_usage", /it belongs under stream_options$/],
    [{ model: "plain", prompt: "a", tools: [] }, "tools", /^unknown field "tools"$/],
    [{ model: "plain", prompt: "a", xyzzy: 9 }, "xyzzy", /^unknown field "xyzzy"$/],
    [{ model: "plain", prompt: "a", xyzzy: null, seed: null, stop: null }, null, /^ok$/],
    [{ model: "plain", prompt: "a", stream_options: { usage: true } }, "stream_options.usage", /unknown field "usage"/],
    [many(900), "f0", /unknown field "f0".*unknown field "f4"$/],
    [many(200_000), null, /^the body has 200000 fields; at most 1000 are allowed$/],
    [{ model: "plain", prompt: "a", guided_json: {} }, "guided_json", /not supported; use response_format of a chat/],
    [{ model: "plain", prompt: [] }, "prompt", /prompt must be a text/],
    [{ model: "plain", prompt: [1.5] }, "prompt", /prompt must be a text/],
    [{ model: "plain", prompt: [["a"]] }, "prompt", /prompt must be a text/],
    [{ model: "plain", prompt: [99] }, null, /the prompt has the token 99; the tokens of model are 0 to 23/],
    [{ model: "plain", prompt: [[3], []] }, null, /prompt 2 is empty/],
    [{ model: "plain", prompt: Array.from({ length: 60 }, () => 3) }, "prompt", /maximum context length is 64 tokens/],
    [
      { model: "plain", prompt: ["a", "a".repeat(2049)] },
      "prompt",
      /The prompt has 2,049 characters, which cannot fit/,
    ],
    [{ model: "plain", prompt: "a", max_tokens: 64 }, "prompt", /The prompt has 2 tokens, and 64 more are asked for/],
    [{ model: "plain", prompt: "a", max_tokens: -2 }, "max_tokens", /max_tokens: must be at least -1/],
    [{ model: "plain", prompt: "c", max_tokens: -1 }, null, /^ok$/],
    [{ model: "plain", prompt: "a", min_tokens: 5, max_tokens: 4 }, "min_tokens", /min_tokens is 5, more than max_tok/],
    [
      { model: "plain", prompt: "a", stop_token_ids: [5, 9e15] },
      null,
      /stop_token_ids has the token 9000000000000000; the/,
    ],
    [{ model: "plain", prompt: "a", stop_token_ids: [23], min_tokens: 2 }, null, /^ok$/],
    [{ model: "plain", prompt: "a", seed: 1.5 }, "seed", /seed: must be a whole number of 64 bits/],
    ['{"model": "plain", "prompt": "a", "seed": 18446744073709551615}', null, /^ok$/],
    [{ model: "plain", prompt: "a", max_tokens: 0 }, "max_tokens", /needs echo/],
    [{ model: "plain", prompt: "a", temperature: "hot" }, "temperature", /temperature: must be a number/],
    [{ model: "plain", prompt: "a", top_p: 0 }, "top_p", /top_p/],
    [{ model: "plain", prompt: "a", n: 1e9 }, "n", /at most 128/],
    [{ model: "plain", prompt: Array.from({ length: 65 }, () => "a"), n: 2 }, "prompt", /130 answers; at most 128/],
    [{ model: "plain", prompt: "a", stop: "" }, null, /^ok$/],
    [{ model: "plain", prompt: "a", stop: Array.from({ length: 99 }, () => "x") }, "stop", /must list at most 64/],
    [{ model: "plain", prompt: "a", logprobs: 21 }, "logprobs", /at most 20/],
    [
      { model: "plain", prompt: "a", frequency_penalty: 2.5 },
      "frequency_penalty",
      /frequency_penalty: must be at most 2/,
    ],
    [{ model: "plain", prompt: "a", repetition_penalty: 0 }, "repetition_penalty", /must be above 0/],
    [{ model: "plain", prompt: "a", min_p: 2 }, "min_p", /min_p: must be at most 1/],
    [
      { model: "plain", prompt: "a", logit_bias: { a: 1 } },
      "logit_bias",
      /must be a mapping of at most 1024 token ids/,
    ],
    [{ model: "plain", prompt: "a", logit_bias: { 3: 101 } }, "logit_bias", /to numbers from -100 to 100/],
    [
      { model: "plain", prompt: "a", logit_bias: { 99: 1 } },
      null,
      /logit_bias has the token 99; the tokens of model are/,
    ],
    [{ model: "plain", prompt: "a", best_of: 4 }, "best_of", /not supported/],
    [{ model: "plain", prompt: "a", frequency_penalty: 0, logit_bias: {}, user: "me", best_of: 1 }, null, /^ok$/],
  ])("%#", async (body, param, message) => {
    const { status, json } = await ask("/v1/completions", body);
    if (message.source === "^ok$")
      return expect({ status, json }).toMatchObject({ status: 200, json: { choices: [{}] } });
    expect(json.error).toMatchObject({ type: "invalid_request_error", param });
    expect(json.error?.message).toMatch(message);
    expect(status).toBe(400);
  });

  it.each<[object, RegExp]>([
    [{ messages: [] }, /messages: must not be empty/],
    [{ messages: [{ role: "king", content: "a" }] }, /messages\[0\]\.role: must be one of system/],
    [
      { messages: [{ role: "user", contents: "a" }] },
      /^unknown field messages\[0\]\.contents; did you mean content\?$/,
    ],
    [{ messages: [{ role: "user", content: ["a"] }] }, /messages\[0\]\.content\[0\] must be a JSON object/],
    [
      { messages: [{ role: "assistant", content: "a", prefix: true }] },
      /prefix: is not supported; pass continue_final/,
    ],
    [{ messages: [{ role: "user", content: null }] }, /messages\[0\]\.content must be a text/],
    [{ messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] }, /not text; only text/],
    [{ messages: Array.from({ length: 10_001 }, () => 1) }, /must list at most 10000/],
    [{ messages: HELLO, tools: [{ type: "function" }] }, /tools\[0\]\.function: is missing/],
    [{ messages: HELLO, tools: [ADD] }, /^tools is not read by the chat template of model; leave it out$/],
    [
      { messages: HELLO, tools: [ADD], tool_choice: "any" },
      /^tool_choice: must be auto, none, required, or \{"type": "function", "function": \{"name": NAME\}\}$/,
    ],
    [{ messages: HELLO, tool_choice: "required" }, /^tool_choice asks for a tool, which tools does not have$/],
    [
      { messages: HELLO, tools: [ADD], tool_choice: { type: "function", function: { name: "ad" } } },
      /^tool_choice asks for ad, which tools does not have$/,
    ],
    [
      { messages: HELLO, tools: [ADD], tool_choice: "required", logprobs: true },
      /^logprobs cannot be combined with tool_/,
    ],
    [
      { messages: HELLO, tools: [ADD], tool_choice: "required", response_format: { type: "json_object" } },
      /^response_format cannot be combined with tool_choice; leave one out$/,
    ],
    [
      {
        messages: HELLO,
        response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "string", pattern: "a" } } },
      },
      /^response_format: schema has pattern, which is not supported here/,
    ],
    [{ messages: HELLO, response_format: { type: "json_schema", schema: {} } }, /json_schema: is missing/],
    [{ messages: HELLO, chat_template_kwargs: { rol: "x" } }, /^chat_template_kwargs\.rol is not read.*mean role\?$/],
    [
      { messages: HELLO, chat_template_kwargs: many(100_000) },
      /^chat_template_kwargs: must be a mapping of at most 64 fields$/,
    ],
    [
      { messages: [{ role: "user", content: "a", ...many(100_000) }] },
      /^messages\[0\] has 100002 fields; at most 1000/,
    ],
    [{ messages: HELLO, chat_template_kwargs: { messages: [] } }, /messages is a field of the request/],
    [{ messages: HELLO, enable_thinking: false }, /enable_thinking: is not supported; pass it in chat_template_kwar/],
    [{ messages: HELLO, reasoning_effort: "high" }, /^reasoning_effort is not read by the chat template of model/],
    [{ messages: HELLO, add_generation_prompt: true, continue_final_message: true }, /cannot be true with continue_/],
    [
      { messages: HELLO, min_tokens: 9e15 },
      /The prompt has \d+ tokens, and 9000000000000000 more are asked for\. Shorten the prompt or ask for fewer\.$/,
    ],
    [{ messages: HELLO, top_logprobs: 2 }, /top_logprobs needs logprobs/],
  ])("chat %#", async (body, message) => {
    const { status, json } = await ask("/v1/chat/completions", { model: "plain", ...body });
    expect(json.error?.message).toMatch(message);
    expect(status).toBe(400);
  });

  it("by path and method", async () => {
    expect((await ask("/v1/embeddings", {})).status).toBe(404);
    const get = await fetch(`${server.url}/v1/completions`);
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    expect((await ask("/v1/completions", {}, { "content-encoding": "gzip" })).status).toBe(415);
  });
});
