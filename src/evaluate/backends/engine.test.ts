// The engine as a backend: what it is handed, in which company, and what becomes of prompts that do not fit.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import * as toy from "../../../test/support/toy-model.js";
import { NO_GENERATION_CONFIG } from "../../engine/generation-config.js";
import { CancelledError } from "../../kit/errors.js";
import { makeChatTemplate } from "../../text/index.js";
import { AnswerCache, withCache } from "./answer-cache.js";
import { type EvaluationEngine, engineBackend, modelBackend, rendererOf } from "./engine-backend.js";

interface Calls {
  readonly generate: { prompts: readonly (readonly number[])[]; batch: number | undefined; sampling: object }[];
  readonly scored: number[];
  closed: number;
}

function toyEngine(contextLength = 1000): { engine: EvaluationEngine; calls: Calls } {
  const calls: Calls = { generate: [], scored: [], closed: 0 };
  const engine: EvaluationEngine = {
    contextLength,
    async generate(prompts, { maxNewTokens, stop = [], batch, onDone, temperature, topP, topK, seed }) {
      calls.generate.push({ prompts, batch, sampling: { temperature, topP, topK, seed } });
      const answers = prompts.map((prompt) =>
        toy.generate(prompt, Math.min(maxNewTokens, contextLength - prompt.length), stop),
      );
      // In another order than they were asked, as an engine that fills free places does.
      for (const i of [...answers.keys()].reverse()) onDone?.(i, answers[i] as (typeof answers)[number]);
      return answers;
    },
    async scoreContinuations(requests, { onDone } = {}) {
      calls.scored.push(requests.length);
      return requests.map(({ context, continuation }, i) => {
        const tokens = toy.continuationLogprobs(context, continuation);
        const score = { logprob: tokens.reduce((sum, one) => sum + one, 0), tokens, greedy: false };
        onDone?.(i, score);
        return score;
      });
    },
    async close() {
      calls.closed++;
    },
  };
  return { engine, calls };
}

const identity = { backend: "engine", server: null, model: "toy", digest: "d" };

const backendOf = (engine: EvaluationEngine, batch?: number) =>
  engineBackend({ engine, tokenizer: toy.toyTokenizer, identity, batch });

describe("generation", () => {
  it("hands over the sampling of each answer, those of one setting together, each with its seed", async () => {
    const { engine, calls } = toyEngine();
    const asked = (sampling?: object) => ({ prompt: "Answer: 1", maxNewTokens: 3, stop: [], sampling });
    const warm = { temperature: 0.6, topP: 0.95, topK: 20 };
    const prompts = [{ ...warm, seed: 5 }, undefined, { temperature: 1, seed: 6 }, { ...warm, seed: 7 }].map(asked);
    await backendOf(engine).generate(prompts as Parameters<ReturnType<typeof backendOf>["generate"]>[0]);
    expect(calls.generate.map(({ sampling }) => sampling)).toEqual([
      { ...warm, seed: [5, 7] },
      { seed: [0] },
      { temperature: 1, seed: [6] },
    ]);
  });

  it("hands over ids with BOS, prompts of one beginning together, and gives answers back in their order", async () => {
    const { engine, calls } = toyEngine();
    const prompts = Array.from({ length: 21 }, (_, i) => ({
      prompt: `${i % 2 === 0 ? "Question" : "Answer:"} is ${i}`,
      prefix: i % 2 === 0 ? "Question" : "Answer:",
      maxNewTokens: 6,
      stop: ["\n"],
    }));
    const seen: number[] = [];
    const answers = await backendOf(engine, 2).generate(prompts, { onResult: (index) => seen.push(index) });
    expect(answers).toEqual(
      prompts.map(({ prompt }) => {
        const { text, finish } = toy.generate(toy.encode(prompt, true), 6, ["\n"]);
        return { text, finish: finish === "length" ? "length" : "stop" };
      }),
    );
    expect(seen.toSorted((a, b) => a - b)).toEqual([...prompts.keys()]);
    // Four batches of two at once; 11 prompts begin with the one, 10 with the other.
    expect(calls.generate.map(({ prompts }) => prompts.length)).toEqual([8, 3, 8, 2]);
    expect(calls.generate[0]?.batch).toBe(2);
    expect(calls.generate[0]?.prompts[1]).toEqual(toy.encode("Question is 2", true));
  });

  it("adds no special tokens where the text begins with them, or where none are wanted", async () => {
    const { engine, calls } = toyEngine();
    const tokenizer = { ...toy.toyTokenizer, bos: toy.encode(":")[0] };
    await engineBackend({ engine, tokenizer, identity }).generate([
      { prompt: ": is", maxNewTokens: 1, stop: [] },
      { prompt: " is", maxNewTokens: 1, stop: [], specialTokens: false },
      { prompt: " is", maxNewTokens: 1, stop: [] },
    ]);
    expect(calls.generate[0]?.prompts).toEqual([toy.encode(": is"), toy.encode(" is"), toy.encode(" is", true)]);
  });

  it("leaves the end away that a tokenizer puts after every text", async () => {
    const { engine, calls } = toyEngine();
    const tokenizer = {
      ...toy.toyTokenizer,
      encode: (text: string, { specialTokens = false } = {}) => [
        ...toy.encode(text, specialTokens),
        ...(specialTokens ? [toy.END] : []),
      ],
    };
    const backend = engineBackend({ engine, tokenizer, identity });
    await backend.generate([{ prompt: " is", maxNewTokens: 1, stop: [] }]);
    expect(calls.generate[0]?.prompts).toEqual([toy.encode(" is", true)]);
    expect(await backend.loglikelihood([{ context: " is", continuation: " the" }])).toMatchObject([{ tokens: 1 }]);
  });

  it("refuses texts that cannot fit before it encodes them", async () => {
    const { engine, calls } = toyEngine(10);
    const encoded: string[] = [];
    const tokenizer = {
      ...toy.toyTokenizer,
      encode: (text: string, options?: { specialTokens?: boolean }) => {
        encoded.push(text);
        return toy.toyTokenizer.encode(text, options);
      },
    };
    const backend = engineBackend({ engine, tokenizer, identity });
    const long = "a".repeat(321);
    const error = "the prompt has 321 characters, which cannot fit into the model's context of 10 tokens";
    const generated = await backend.generate([
      { prompt: long, maxNewTokens: 1, stop: [] },
      { prompt: " is", maxNewTokens: 1, stop: [] },
    ]);
    expect(generated[0]).toEqual({ error });
    expect(generated[1]).not.toHaveProperty("error");
    const scored = await backend.loglikelihood([
      { context: long.slice(0, 300), continuation: long.slice(300) },
      { context: " is", continuation: " the" },
    ]);
    expect(scored[0]).toEqual({ error });
    expect(scored[1]).not.toHaveProperty("error");
    expect(encoded.filter((text) => text.includes("aaa"))).toEqual([]);
    expect(calls.generate[0]?.prompts).toHaveLength(1);
  });

  it("reports prompts that fill the context and answers that ran out of it", async () => {
    const { engine, calls } = toyEngine(10);
    const answers = await backendOf(engine).generate([
      { prompt: "abcdefghij", maxNewTokens: 4, stop: [] },
      { prompt: "abcdefg", maxNewTokens: 4, stop: [] },
      { prompt: "abc", maxNewTokens: 4, stop: [] },
    ]);
    expect(answers.map((answer) => "error" in answer)).toEqual([true, true, false]);
    expect(answers[0]).toEqual({
      error: "the prompt has 11 tokens, which with 4 more exceeds the model's context of 10",
    });
    expect(calls.generate[0]?.prompts).toHaveLength(2);
  });

  it("keeps different settings apart", async () => {
    const { engine, calls } = toyEngine();
    const request = { prompt: "is", maxNewTokens: 3, stop: [] };
    await backendOf(engine).generate([request, { ...request, maxNewTokens: 5 }, request]);
    expect(calls.generate.map(({ prompts }) => prompts.length)).toEqual([2, 1]);
  });
});

describe("scoring", () => {
  it("gives log-likelihoods and weighs choices of any length", async () => {
    const { engine, calls } = toyEngine();
    const backend = backendOf(engine);
    const context = "Question: abc\nAnswer:";
    const byHand = (continuation: string) =>
      toy.continuationLogprobs(toy.encode(context, true), toy.encode(continuation)).reduce((sum, one) => sum + one, 0);
    expect(await backend.loglikelihood([{ context, continuation: " EE the B" }])).toEqual([
      { logprob: byHand(" EE the B"), tokens: 3, greedy: false },
    ]);
    expect(await backend.choose([{ context, choices: [" A", " EE the B"] }])).toEqual([
      { logprobs: [byHand(" A"), byHand(" EE the B")] },
    ]);
    expect(calls.scored).toEqual([1, 2]);
  });

  it("keeps each item of an interrupted batch, and does not ask for it again", async () => {
    const path = join(temporaryFolder(), "answers.jsonl");
    const { engine } = toyEngine();
    const requests = ["a", "b", "c"].map((context) => ({ context, choices: [" A", " B", " C", " D"] }));
    const wanted = await backendOf(engine).choose(requests);
    const scored: boolean[][] = [];
    // Ends after the choices of two items and one of the third.
    const stops: EvaluationEngine = {
      ...engine,
      scoreContinuations: async (pairs, { onDone } = {}) => {
        await engine.scoreContinuations(pairs.slice(0, 9), { onDone });
        throw new CancelledError("stopped");
      },
    };
    const continues: EvaluationEngine = {
      ...engine,
      scoreContinuations: async (pairs, options = {}) => {
        scored.push(pairs.map((_, i) => options.isKnown?.(i) ?? false));
        return engine.scoreContinuations(pairs, options);
      },
    };
    const ask = async (asked: EvaluationEngine, onCached?: () => void) => {
      const cache = await AnswerCache.open(path);
      return withCache(backendOf(asked), cache, onCached)
        .choose(requests)
        .finally(() => cache.close());
    };
    await expect(ask(stops)).rejects.toThrow(CancelledError);
    let cached = 0;
    expect(await ask(continues, () => void cached++)).toEqual(wanted);
    expect(cached).toBe(2);
    expect(scored).toEqual([requests.flatMap((_, i) => Array(4).fill(i < 2))]);
  });

  it("encodes the context of an item's choices once", async () => {
    const { engine } = toyEngine();
    const encoded: string[] = [];
    const tokenizer = {
      ...toy.toyTokenizer,
      encode(text: string, options: { specialTokens?: boolean } = {}) {
        encoded.push(text);
        return toy.encode(text, options.specialTokens);
      },
    };
    const backend = engineBackend({ engine, tokenizer, identity });
    await backend.choose(["a", "b", "c"].map((context) => ({ context, choices: [" A", " B", " C", " D"] })));
    for (const context of ["a", "b", "c"]) expect(encoded.filter((text) => text === context)).toHaveLength(1);
    expect(encoded).toHaveLength(1 + 3 * 5); // and the empty text, for the marks
  });

  it("reports what has no log-likelihood", async () => {
    const { engine } = toyEngine(10);
    const answers = await backendOf(engine).loglikelihood([
      { context: "is", continuation: "" },
      { context: "", continuation: "is", specialTokens: false },
      { context: "abcdefgh", continuation: "abc" },
      { context: "is", continuation: " the" },
    ]);
    expect(answers.map((answer) => "error" in answer)).toEqual([true, true, true, false]);
    const [choice] = await backendOf(engine).choose([{ context: "abcdefgh", choices: [" A", "abc"] }]);
    expect(choice).toEqual({ error: expect.stringMatching(/exceeds the model's context of 10/) });
  });
});

it("stops between batches, and closes the engine", async () => {
  const { engine, calls } = toyEngine();
  const controller = new AbortController();
  const backend = backendOf(engine, 1);
  const requests = Array.from({ length: 12 }, () => ({ prompt: "is", maxNewTokens: 1, stop: [] }));
  const running = backend.generate(requests, { signal: controller.signal, onResult: () => controller.abort() });
  await expect(running).rejects.toThrow(CancelledError);
  expect(calls.generate).toHaveLength(1);
  await backend.close();
  expect(calls.closed).toBe(1);
});

describe("chats", () => {
  const template = makeChatTemplate("{{ messages[0].content }}{{ '' if enable_thinking is false else '<think>' }}");
  const messages = [{ role: "user" as const, content: "a" }];

  it("are written with the variables that the template reads, which results name", async () => {
    expect(await rendererOf(template)?.(messages)).toBe("a<think>");
    expect(await rendererOf(template, { enable_thinking: false })?.(messages)).toBe("a");
    expect(rendererOf(undefined)).toBeUndefined();
    expect(() => rendererOf(template, { thinking: true })).toThrow(/thinking is not read by the chat template/);
    // Lost, it would leave the model thinking.
    expect(() => rendererOf(template, { thinking: false })).toThrow(/^thinking is not read by the chat template/);
    expect(() => rendererOf(template, { enable_thinkng: false })).toThrow(/; did you mean enable_thinking\?$/);
    expect(() => rendererOf(template, { messages: [] })).toThrow("messages is always set; leave it out");
    expect(() => rendererOf(undefined, { deep: 1 })).toThrow(/deep is for a chat template, but none is known/);
    const { engine } = toyEngine();
    const opened = {
      ...engine,
      tokenizer: async () => toy.toyTokenizer,
      chatTemplate: async () => template,
      generationConfig: NO_GENERATION_CONFIG,
    };
    const templateVariables = { enable_thinking: false };
    expect((await modelBackend(opened as never, { templateVariables })).identity).toMatchObject({ templateVariables });
    expect((await modelBackend(opened as never)).identity).not.toHaveProperty("templateVariables");
    expect((await modelBackend(opened as never)).identity).not.toHaveProperty("generationConfig");
    const applied = { repetition_penalty: 1.1 };
    const penalised = { ...opened, generationConfig: { ...NO_GENERATION_CONFIG, applied } } as never;
    expect((await modelBackend(penalised)).identity).toMatchObject({ generationConfig: applied });
  });
});
