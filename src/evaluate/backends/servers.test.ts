// Adapters of servers against the toy model behind them: the same numbers as by hand, and refusals where they are due.
import { afterEach, describe, expect, it } from "vitest";
import {
  type CompletionsOptions,
  completions,
  type FakeReply,
  type FakeRequest,
  type FakeServer,
  fakeServer,
} from "../../../test/support/fake-chat-server.js";
import * as toy from "../../../test/support/toy-model.js";
import type { Backend, ChooseRequest, LoglikelihoodRequest } from "./backend.js";
import { openOpenAI, type ServerOptions } from "./openai.js";

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

async function serve(answer: (request: FakeRequest, count: number) => FakeReply): Promise<FakeServer> {
  const server = await fakeServer(answer);
  open.push(server);
  return server;
}

async function openedOpenAI(
  fake: CompletionsOptions = {},
  options: Partial<ServerOptions> = {},
): Promise<{ server: FakeServer; backend: Backend }> {
  const server = await serve(completions(fake));
  const backend = await openOpenAI({ url: server.url, backoff: 0.01, retries: 1, ...options });
  open.unshift(backend);
  server.requests.splice(0);
  return { server, backend };
}

const CONTEXT = "Question: abc\nAnswer:";
const CHOICES = [" A", " B", " C", " D"];
/** What the toy model gives each choice after the context, which has a token of its own for each. */
const BY_HAND = CHOICES.map((choice) => toy.nextLogprobs(toy.encode(CONTEXT).at(-1) ?? 0)[toy.encode(choice)[0] ?? 0]);
const choose = async (backend: Backend, request: Partial<ChooseRequest> = {}) =>
  (await backend.choose([{ context: CONTEXT, choices: CHOICES, ...request }]))[0];
const score = async (backend: Backend, request: Partial<LoglikelihoodRequest> = {}) =>
  (await backend.loglikelihood([{ context: CONTEXT, continuation: " EE the B", ...request }]))[0];

const PAIR = toy.continuationLogprobs(toy.encode(CONTEXT, true), toy.encode(" EE the B"));
const SUM = PAIR.reduce((sum, one) => sum + one, 0);

describe("a server that can do everything", () => {
  it("says what it is", async () => {
    const { backend } = await openedOpenAI({}, { digest: "abc" });
    expect(backend.identity).toEqual({
      backend: "openai",
      server: "vllm 0.0.1",
      model: "toy",
      digest: "abc",
      bos: "tokenizer",
    });
    expect(backend.incapacities).toEqual({});
  });

  it("scores continuations as by hand", async () => {
    const { backend } = await openedOpenAI();
    const scored = await score(backend);
    expect(scored).toEqual({ logprob: expect.closeTo(SUM, 10), tokens: 3, greedy: false });
    // Blanks at the end of the context belong to the first token of the continuation.
    expect(await score(backend, { context: `${CONTEXT} `, continuation: "EE the B" })).toEqual(scored);
    const [best] = toy.topNext(toy.encode(CONTEXT).at(-1) ?? 0, 1);
    const continuation = toy.VOCABULARY[best?.id ?? 0] ?? "";
    expect(await score(backend, { continuation })).toMatchObject({ tokens: 1, greedy: true });
  });

  it("weighs letters as log-likelihood does, by token id, in one request", async () => {
    const { server, backend } = await openedOpenAI({ mostLogprobs: 100 });
    const answer = await choose(backend);
    const listed = toy.topNext(toy.encode(CONTEXT).at(-1) ?? 0, 20).map(({ id }) => id);
    expect(answer).toEqual({
      logprobs: CHOICES.map((choice, i) =>
        listed.includes(toy.encode(choice)[0] ?? 0) ? expect.closeTo(BY_HAND[i] ?? 0, 10) : null,
      ),
    });
    expect(server.asked("/v1/completions")).toEqual([
      {
        model: "toy",
        prompt: toy.encode(CONTEXT, true),
        max_tokens: 1,
        temperature: 0,
        logprobs: 20,
        return_tokens_as_token_ids: true,
      },
    ]);
  });

  it("does not take a word of several tokens for a letter", async () => {
    const { backend } = await openedOpenAI();
    expect(await choose(backend, { choices: [" A", " the B"] })).toEqual({
      error: '" the B" is 2 tokens here, not one, so no list of next tokens has it',
    });
  });

  it("generates greedily, against the repetition penalty that a model's own configuration may have", async () => {
    const { server, backend } = await openedOpenAI();
    const expected = toy.generate(toy.encode("the B", true), 12, []);
    expect(await backend.generate([{ prompt: "the B", maxNewTokens: 12, stop: [] }])).toEqual([
      { text: expected.text, finish: expected.finish === "length" ? "length" : "stop" },
    ]);
    expect(server.asked("/v1/completions")[0]).toMatchObject({
      temperature: 0,
      repetition_penalty: 1,
      top_k: -1,
      top_p: 1,
      min_p: 0,
      max_tokens: 12,
    });
  });

  it("leaves special tokens away where the protocol does", async () => {
    const { server, backend } = await openedOpenAI();
    await backend.generate([{ prompt: "is", maxNewTokens: 1, stop: [], specialTokens: false }]);
    await score(backend, { specialTokens: false });
    await choose(backend, { specialTokens: false });
    const prompts = server.asked("/v1/completions").map(({ prompt }) => (prompt as number[])[0]);
    expect(prompts).toEqual([toy.encode("is")[0], toy.encode("Question")[0], toy.encode("Question")[0]]);
  });
});

describe("a server that takes text only", () => {
  it("is asked with text, and its own count of tokens is what must add up", async () => {
    const { server, backend } = await openedOpenAI({ ids: false });
    expect(backend.identity.bos).toBe("server");
    expect(await score(backend)).toEqual({ logprob: expect.closeTo(SUM, 10), tokens: 3, greedy: false });
    expect(server.asked("/v1/completions")[0]).toMatchObject({ prompt: `${CONTEXT} EE the B`, echo: true });
    const answer = (await choose(backend)) as { logprobs: (number | null)[] };
    expect(answer.logprobs.some((one) => one !== null)).toBe(true);
    for (const [i, one] of answer.logprobs.entries()) if (one !== null) expect(one).toBeCloseTo(BY_HAND[i] ?? 0, 10);
  });

  it("cannot score a continuation that begins within a token", async () => {
    const { backend } = await openedOpenAI({ ids: false });
    expect(await score(backend, { context: "Question: anAnsw", continuation: "er:" })).toEqual({
      error: "no token of the server ends where the continuation begins, so the continuation cannot be scored",
    });
  });

  it("takes ids from a tokenizer at hand where it accepts them, and text where not", async () => {
    const withTokenizer = await openedOpenAI({ owner: "someone" }, { tokenizer: toy.toyTokenizer });
    expect(withTokenizer.backend.identity).toMatchObject({ bos: "tokenizer", server: "someone" });
    const without = await openedOpenAI({ ids: false }, { tokenizer: toy.toyTokenizer });
    expect(without.backend.identity.bos).toBe("server");
  });

  it("must not have another tokenizer than the one at hand", async () => {
    const other = { ...toy.toyTokenizer, encode: () => [5, 6] };
    await expect(openedOpenAI({}, { tokenizer: other })).rejects.toThrow(/not that of toy on the server/);
  });

  it("gets four stops at most, and is cut at the others here", async () => {
    const { server, backend } = await openedOpenAI({ owner: "someone" });
    const long = toy.generate(toy.encode("the B", true), 30, []).text;
    const last = long.slice(6, 9);
    expect(long.indexOf(last)).toBeGreaterThan(2);
    const stop = ["class", "assert", "print", "if", last];
    const [answer] = await backend.generate([{ prompt: "the B", maxNewTokens: 30, stop }]);
    expect(answer).toEqual({ text: long.slice(0, long.indexOf(last)), finish: "stop" });
    expect(server.asked("/v1/completions")[0]?.stop).toEqual(stop.slice(0, 4));
    expect(server.asked("/v1/completions")[0]).not.toHaveProperty("repetition_penalty");
  });
});

describe("what a server cannot score is refused with the reason", () => {
  it.each([
    ["refused", /400: echo is not supported/],
    ["generated", /log-probabilities of 1 in all, 1 of them generated. It does not score prompts/],
  ] as const)("echo: %s", async (echo, reason) => {
    const { backend } = await openedOpenAI({ echo });
    expect(backend.incapacities.loglikelihood).toMatch(reason);
    expect(backend.incapacities.choose).toBeUndefined();
    await expect(score(backend)).rejects.toThrow(/cannot score continuations/);
  });

  it("no log-probabilities at all", async () => {
    const { backend } = await openedOpenAI({ mostLogprobs: 0, echo: "refused" });
    expect(backend.incapacities).toEqual({
      loglikelihood: expect.stringMatching(/at most 0 logprobs/),
      choose: expect.stringMatching(/at most 0 logprobs/),
    });
    await expect(choose(backend)).rejects.toThrow(/cannot weigh choices/);
  });

  it("fewer alternatives than twenty are used as they are, and what they lack is null", async () => {
    const { server, backend } = await openedOpenAI({ mostLogprobs: 5 });
    const answer = (await choose(backend)) as { logprobs: (number | null)[] };
    const listed = toy.topNext(toy.encode(CONTEXT).at(-1) ?? 0, 5).map(({ id }) => id);
    expect(answer.logprobs.map((one) => one !== null)).toEqual(
      CHOICES.map((choice) => listed.includes(toy.encode(choice)[0] ?? 0)),
    );
    expect(server.asked("/v1/completions")[0]?.logprobs).toBe(5);
  });

  it("infinite log-probabilities are as good as none, as a log of answers has no such number", async () => {
    const fake = completions({ mostLogprobs: 100 });
    const server = await serve((request) => {
      const json = JSON.stringify(fake(request)).replace(/"logprobs":\{.*\}/, (all) =>
        all.replace(/-\d+\.\d+/g, "-1e999"),
      );
      return { status: 200, json };
    });
    const backend = await openOpenAI({ url: server.url });
    open.unshift(backend);
    expect(backend.incapacities.choose).toMatch(/no log-probabilities of the likeliest next tokens/);
    expect(backend.incapacities.loglikelihood).toMatch(/left out log-probabilities of the continuation, or gave inf/);
  });

  it("a prompt that does not fit, whether the server says so or cuts it", async () => {
    const long = `${"abc ".repeat(20)}${CONTEXT}`;
    const honest = await openedOpenAI({ contextLength: 60 });
    expect(await score(honest.backend, { context: long })).toEqual({
      error: expect.stringMatching(/maximum context length is 60/),
    });
    const silent = await openedOpenAI({ contextLength: 60, cuts: true });
    for (const answer of [
      await score(silent.backend, { context: long }),
      await choose(silent.backend, { context: long }),
      (await silent.backend.generate([{ prompt: long, maxNewTokens: 5, stop: [] }]))[0],
    ]) {
      expect(answer).toEqual({ error: expect.stringMatching(/the prompt has \d+ tokens, but the server took 5\d/) });
    }
  });

  it("an answer that ended for no good reason", async () => {
    const fake = completions();
    const server = await serve((request) => {
      const reply = fake(request) as { choices?: { finish_reason: string }[] };
      if (request.body.max_tokens !== 1 && reply.choices?.[0]) reply.choices[0].finish_reason = "content_filter";
      return reply as FakeReply;
    });
    const backend = await openOpenAI({ url: server.url });
    open.unshift(backend);
    expect(await backend.generate([{ prompt: "is", maxNewTokens: 5, stop: [] }])).toEqual([
      { error: expect.stringMatching(/"content_filter"/) },
    ]);
  });
});

it("reasoning beside an answer comes before it, and no stop cuts it", async () => {
  const fake = completions();
  const server = await serve((request) => {
    const reply = fake(request) as { choices?: Record<string, unknown>[] };
    if (request.body.max_tokens !== 1 && reply.choices?.[0]) {
      reply.choices[0].reasoning_content = "one\ntwo";
      reply.choices[0].text = " three\nfour";
      reply.choices[0].finish_reason = "stop";
    }
    return reply as FakeReply;
  });
  const backend = await openOpenAI({ url: server.url });
  open.unshift(backend);
  expect(await backend.generate([{ prompt: "is", maxNewTokens: 5, stop: ["\n"] }])).toEqual([
    { text: "<think>one\ntwo</think> three", finish: "stop" },
  ]);
});

describe("which model", () => {
  it("is the only one, or the one that is named", async () => {
    expect((await openedOpenAI({ models: ["a", "b"] }, { model: "b" })).backend.identity.model).toBe("b");
    await expect(openedOpenAI({ models: ["a", "b"] })).rejects.toThrow(/has 2 models \(a, b\)$/);
    await expect(openedOpenAI({ models: ["llama-8b"] }, { model: "lama-8b" })).rejects.toThrow(/did you mean llama-8b/);
  });

  it("may be reached with /v1 in the address", async () => {
    const server = await serve(completions());
    const backend = await openOpenAI({ url: `${server.url}/v1` });
    open.unshift(backend);
    expect(backend.identity.model).toBe("toy");
  });
});

it("weighs letters by the lists of llama.cpp's server, and says that it scores nothing else", async () => {
  const { backend } = await openedOpenAI({ owner: "llamacpp", ids: false, echo: "refused" });
  expect(backend.identity).toMatchObject({ backend: "openai", server: "llamacpp", bos: "server" });
  const listed = toy.topNext(toy.encode(CONTEXT).at(-1) ?? 0, 20).map(({ id }) => id);
  expect(await choose(backend)).toEqual({
    logprobs: CHOICES.map((choice, i) =>
      listed.includes(toy.encode(choice)[0] ?? 0) ? expect.closeTo(BY_HAND[i] ?? 0, 10) : null,
    ),
  });
  await expect(score(backend)).rejects.toThrow(/cannot score continuations: .*echo is not supported/);
});
