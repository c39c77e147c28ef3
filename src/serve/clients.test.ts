// Requests as clients send them: bodies that were recorded between each client and a server, with words of our own. Recorded with
// openai 3.57 (Python), langchain-openai 1.7, litellm 1.110 and lm-eval 0.4.13; those of Open WebUI are as its code makes them.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { idOf, writeScripted } from "../../test/support/engine.js";
import { stubModel } from "../../test/support/stub-model.js";
import { type Engine, openEngine } from "../engine/index.js";
import { servedModel } from "./served-model.js";
import { type RunningServer, startApiServer } from "./server.js";

const TEMPLATE =
  "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }};{% endfor %}" +
  "{{ tools | tojson if tools }}{{ '<tool_call>' if tools }}{{ '' if enable_thinking is false else '<think>' }}";
const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Dar"}}\n</tool_call>';
const WEATHER = {
  name: "get_weather",
  description: "Weather of a city",
  parameters: { properties: { city: { type: "string" } }, required: ["city"], type: "object" },
};
const TOOLS = [{ type: "function", function: WEATHER }];
const ASKED = { content: "Weather?", role: "user" };
const SAID = { function: { arguments: '{"city":"Dar"}', name: "get_weather" }, id: "oGi8SgYMc", type: "function" };

const stubs = {
  text: stubModel(TEMPLATE, Array(50).fill("Hello there.")),
  tools: stubModel(TEMPLATE, Array(50).fill(CALL)),
};
let engine: Engine;
let server: RunningServer;

beforeAll(async () => {
  const folder = join(temporaryFolder(), "tiny");
  await writeScripted(folder, { a: "b", b: "a", hi: "?", ":": "hi" });
  engine = await openEngine(folder);
  const tiny = await servedModel(engine);
  server = await startApiServer({ models: new Map(Object.entries({ ...stubs, tiny })), port: 0 });
});
afterAll(async () => {
  await server.close(0);
  await engine.close();
});

interface Choice {
  readonly text?: string;
  readonly delta?: { readonly content?: string; readonly tool_calls?: object[] };
  readonly logprobs?: { readonly token_logprobs: number[]; readonly top_logprobs: Record<string, number>[] };
}

async function post(path: string, body: object): Promise<{ status: number; json: { choices: Choice[] } }> {
  const reply = await fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
  return { status: reply.status, json: (await reply.json()) as { choices: Choice[] } };
}

/** The chunks of a stream, up to its end. */
async function stream(path: string, body: object): Promise<{ choices: Choice[]; usage?: object }[]> {
  const reply = await fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
  const events = (await reply.text()).split("\n\n").filter((event) => event !== "");
  expect(events.pop()).toBe("data: [DONE]");
  return events.map((event) => JSON.parse(event.replace(/^data: /, "")));
}

const CHAT = "/v1/chat/completions";
const answer = (content: string, more: object = {}) => ({
  message: { role: "assistant", content, refusal: null },
  ...more,
});

describe("requests of", () => {
  it.each<[string, object, object]>([
    [
      "openai for Python, with scores of two answers",
      {
        ...{ messages: [ASKED], model: "text", logprobs: true, max_tokens: 5, n: 2, seed: 2 ** 63 },
        ...{ stop: ["!"], temperature: 0, top_logprobs: 2 },
      },
      {
        choices: [
          { index: 0, ...answer("Hello", { finish_reason: "length" }) },
          { index: 1, logprobs: { content: expect.objectContaining({ length: 5 }) } },
        ],
      },
    ],
    [
      "openai for Python, with its own reply and a tool's",
      {
        messages: [
          ASKED,
          // As model_dump() of a reply has it.
          {
            content: null,
            refusal: null,
            role: "assistant",
            annotations: null,
            audio: null,
            function_call: null,
            tool_calls: [SAID],
          },
          { role: "tool", tool_call_id: SAID.id, content: "28 degrees" },
        ],
        ...{ model: "text", tools: TOOLS },
      },
      { choices: [answer("Hello there.", { finish_reason: "stop" })] },
    ],
    [
      "LangChain's ChatOpenAI, without a stream",
      {
        ...{
          messages: [{ content: "x", role: "user" }],
          model: "text",
          logprobs: true,
          top_logprobs: 0,
          n: 2,
          seed: 1,
        },
        ...{ stop: ["q"], stream: false, max_completion_tokens: 9 },
      },
      { choices: [answer("Hello the", { finish_reason: "length" }), { index: 1 }] },
    ],
    [
      "LangChain's bind_tools with strict",
      {
        messages: [ASKED],
        model: "tools",
        stream: false,
        tools: [{ type: "function", function: { ...WEATHER, strict: true } }],
      },
      {
        choices: [
          { finish_reason: "tool_calls", message: { content: null, tool_calls: [{ function: SAID.function }] } },
        ],
      },
    ],
    [
      "LangChain after a call",
      {
        messages: [
          ASKED,
          {
            content: null,
            role: "assistant",
            tool_calls: [{ type: "function", id: SAID.id, function: SAID.function }],
          },
          { content: "28", role: "tool", tool_call_id: SAID.id },
        ],
        ...{ model: "text", stream: false, temperature: 0, tools: TOOLS },
      },
      { choices: [answer("Hello there.")] },
    ],
    [
      "LiteLLM after a call",
      {
        messages: [
          ASKED,
          { role: "assistant", tool_calls: [SAID] },
          { role: "tool", tool_call_id: SAID.id, name: "get_weather", content: "28" },
        ],
        ...{ model: "text", tools: TOOLS },
      },
      { choices: [answer("Hello there.")] },
    ],
    [
      "LiteLLM as hosted_vllm",
      { model: "text", messages: [ASKED], max_tokens: 5, chat_template_kwargs: { enable_thinking: false } },
      { choices: [answer("Hello")] },
    ],
    [
      "LiteLLM without a limit",
      { model: "text", messages: [ASKED], max_tokens: -1, store: false },
      { choices: [answer("Hello there.")] },
    ],
    [
      "lm-eval's local-chat-completions",
      { messages: [ASKED], model: "text", max_tokens: 20, temperature: 0, stop: ["\n", "."], seed: 1234 },
      { choices: [answer("Hello there", { finish_reason: "stop" })] },
    ],
    [
      "Open WebUI for a title",
      {
        ...{ model: "text", messages: [ASKED], stream: false, max_completion_tokens: 1000 },
        ...{ temperature: 0.7, top_p: 0.9, frequency_penalty: 0, seed: 0, stop: ["\u0000"], user: "me" },
      },
      { choices: [answer("Hello there.")] },
    ],
  ])("%s", async (_, body, expected) => {
    expect(await post(CHAT, body)).toMatchObject({ status: 200, json: expected });
  });

  it("give templates what they say", async () => {
    const prompts: string[] = stubs.text.prompts;
    prompts.length = 0;
    await post(CHAT, { model: "text", messages: [ASKED], chat_template_kwargs: { enable_thinking: false } });
    await post(CHAT, { model: "text", messages: [ASKED], reasoning_effort: "none", stream: false });
    await post(CHAT, { messages: [{ role: "assistant", tool_calls: [SAID] }], model: "text" });
    expect(prompts).toEqual([
      "user:Weather?;",
      "user:Weather?;",
      'assistant:[{"id": "oGi8SgYMc", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Dar"}}}];<think>',
    ]);
  });

  it("Open WebUI and LangChain, as streams", async () => {
    const options = { stream: true, stream_options: { include_usage: true } };
    const chunks = await stream(CHAT, {
      ...options,
      model: "text",
      messages: [ASKED],
      temperature: 0.8,
      max_tokens: 500,
    });
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta?.content ?? "")).join("")).toBe(
      "Hello there.",
    );
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 13 } });
    const called = await stream(CHAT, {
      messages: [ASKED],
      model: "tools",
      stream: true,
      temperature: 0,
      tools: TOOLS,
    });
    const calls = called.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta?.tool_calls ?? []));
    expect(calls).toMatchObject([{ index: 0, type: "function", function: SAID.function }]);
  });

  it("lm-eval's local-completions, whose log-likelihoods are those of the engine", async () => {
    const prompt = [[idOf("<s>"), idOf("a"), idOf("hi"), idOf("b")]];
    const ours = { model: "tiny", prompt, temperature: 0, max_tokens: 1, logprobs: 1, seed: 1234, echo: true };
    const { json, status } = await post("/v1/completions", ours);
    expect(status).toBe(200);
    const { token_logprobs: scores = [], top_logprobs: top = [] } = json.choices[0]?.logprobs ?? {};
    // As it reads them: without the context of 2 tokens, and the token that is generated.
    const [expected = []] = await engine.score(prompt);
    for (const [i, score] of scores.slice(2, -1).entries()) expect(score).toBeCloseTo(expected[i + 1] ?? 0, 5);
    expect(top.slice(2, -1).map((one) => Math.max(...Object.values(one)))).not.toContain(Number.NaN);
    const generates = {
      prompt: [[idOf("a")]],
      model: "tiny",
      max_tokens: 4,
      temperature: 0,
      stop: ["\n", "a"],
      seed: 1234,
    };
    expect((await post("/v1/completions", generates)).json.choices).toMatchObject([
      { text: "b", finish_reason: "stop" },
    ]);
  });

  it("LangChain's OpenAI and openai, as completions", async () => {
    const langchain = {
      ...{ model: "tiny", prompt: ["a"], best_of: 2, frequency_penalty: 0, logprobs: null, max_tokens: 2, n: 2 },
      ...{ presence_penalty: 0, seed: null, temperature: 0, top_p: 1 },
    };
    const openai = {
      model: "tiny",
      prompt: "a",
      best_of: 1,
      echo: true,
      max_tokens: 2,
      stream: false,
      suffix: null,
      temperature: 0,
    };
    const texts = async (body: object) => (await post("/v1/completions", body)).json.choices.map(({ text }) => text);
    expect([await texts(langchain), await texts(openai)]).toEqual([["ba", "ba"], ["aba"]]);
  });
});
