// The backend on a stand-in for llama.cpp with known logits: answers, scores, what is read again, memory and errors.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer } from "../../../test/support/export-fixtures.js";
import { fakeLlama, logitsAfter, logprobsAfter, PIECES, writeStandIn } from "../../../test/support/fake-llama.js";
import {
  type Engine,
  editLogits,
  type LogitSettings,
  openModelSource,
  sampleToken,
  withEdits,
} from "../../engine/index.js";
import { Random } from "../../kit/index.js";
import { planGguf } from "../gguf/plan-gguf.js";
import { writeGguf } from "../gguf/write-gguf.js";
import { checkLlama, openLlama } from "./open-llama.js";

type FakeOptions = NonNullable<Parameters<typeof fakeLlama>[0]>;

const folder = temporaryFolder();
const path = join(folder, "model.gguf");
const EOS = 1;
const engines: Engine[] = [];
let record: ReturnType<typeof fakeLlama>["record"];

beforeAll(() => void writeStandIn(path));
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
  expect(record.open).toBe(0);
});

async function open(options: FakeOptions = {}, more: Parameters<typeof openLlama>[1] = {}): Promise<Engine> {
  const fake = fakeLlama(options);
  record = fake.record;
  const engine = await openLlama(path, { load: fake.load, threads: 3, ...more });
  engines.push(engine);
  return engine;
}

const largest = (values: readonly number[]) => values.indexOf(Math.max(...values));

/** What greedy decoding answers. */
function greedyAnswer(prompt: readonly number[], count: number): number[] {
  const text = [...prompt];
  while (text.length < prompt.length + count) {
    const next = largest(logitsAfter(text));
    if (next === EOS) break;
    text.push(next);
  }
  return text.slice(prompt.length);
}

const texts = (count: number, length: number) => {
  const random = Random.of(1, "texts");
  return Array.from({ length: count }, () => [0, ...Array.from({ length }, () => random.between(2, 9))]);
};

describe("a model in llama.cpp", () => {
  it("reads the next tokens of all answers together, in the order of their sequences", async () => {
    let late = 0;
    // Prompts are read at the same time; later evaluations end in another order than they began.
    const engine = await open({
      // Token 0 would be asked for again.
      logits: (text) => logitsAfter(text).map((logit, id) => (id === 0 ? -1 : logit)),
      onEvaluate: () => (++late > 3 ? new Promise((resolve) => setTimeout(resolve, 5 * (late % 3))) : undefined),
    });
    await engine.generate(texts(3, 20), { maxNewTokens: 5, stopIds: [], batch: 3 });
    const steps = record.sequences.filter((_, i) => record.evaluated[i] === 1);
    // The first answer begins, and ends, a step before the others.
    expect(steps).toEqual([0, ...Array(3).fill([0, 1, 2]).flat(), 1, 2]);
  });

  it("draws no token that ends an answer before it may end", async () => {
    const engine = await open();
    const batch = engine.openBatch(4);
    const request = { maxNewTokens: 9, stopIds: new Set([EOS]), minNewTokens: 6 };
    for (const prompt of texts(12, 12)) {
      const text = [...prompt];
      while (text.length < prompt.length + 9) {
        const logits = logitsAfter(text);
        if (text.length < prompt.length + 6) logits[EOS] = Number.NEGATIVE_INFINITY;
        if (largest(logits) === EOS) break;
        text.push(largest(logits));
      }
      const greedy = await batch.generate({ ...request, prompt, random: Random.of(1, "a") });
      expect(greedy.ids).toEqual(text.slice(prompt.length));
      for (const topK of [undefined, 1, 3]) {
        const drawn = await batch.generate({ ...request, prompt, topK, temperature: 3, random: Random.of(1, "a") });
        expect(drawn.ids.length).toBeGreaterThanOrEqual(6);
      }
    }
  });

  it("follows penalties, biases and bans, reading few logits", async () => {
    const engine = await open();
    const batch = engine.openBatch(4);
    const stopIds = new Set([EOS]);
    for (const logits of [
      { repetitionPenalty: 1.5 },
      { repetitionPenalty: 0.5, noRepeatNgramSize: 2 },
      { frequencyPenalty: 0.7, presencePenalty: -0.3, logitBias: new Map([[5, 2]]) },
      { suppressTokens: [2, 3, 4], beginSuppressTokens: [5], badWordsIds: [[6, 7], [8]] },
      { forcedEosIds: [EOS], minLength: 20 },
    ] satisfies LogitSettings[]) {
      for (const prompt of texts(6, 8)) {
        const wanted: number[] = [];
        const request = { prompt, stopIds, maxNewTokens: 9, logits };
        while (wanted.length < 9) {
          const all = Float32Array.from(logitsAfter([...prompt, ...wanted]));
          const edited = withEdits(
            all,
            editLogits(request, wanted, (id) => all[id]),
          );
          const next = largest([...edited]);
          if (next === EOS) break;
          wanted.push(next);
        }
        const found = await batch.generate({ ...request, random: Random.of(1, "a") });
        expect({ logits, ids: found.ids }).toEqual({ logits, ids: wanted });
        // With the most likely token alone, chance decides nothing.
        for (const drawing of [{ topK: 1 }, { topP: 0 }]) {
          const drawn = await batch.generate({ ...request, temperature: 2, ...drawing, random: Random.of(1, "a") });
          expect(drawn.ids).toEqual(wanted);
        }
      }
    }
  });

  it("has the repetition penalty of its metadata", async () => {
    const other = join(folder, "penalty.gguf");
    writeStandIn(other, { "general.sampling.penalty_repeat": 1.5 });
    const fake = fakeLlama();
    record = fake.record;
    const engine = await openLlama(other, { load: fake.load });
    engines.push(engine);
    expect(engine.generationConfig.logits).toEqual({ repetitionPenalty: 1.5 });
    expect(engine.notes).toEqual(["answers follow the model's own generation settings: repetition_penalty 1.5"]);
  });

  it("answers by the grammar of a schema, with penalties of llama.cpp", async () => {
    const engine = await open({ allowed: [PIECES.indexOf("c"), PIECES.indexOf("d")] });
    const grammar = await engine.grammar({ type: "object" });
    const batch = engine.openBatch(1);
    const request = { prompt: [0, 3, 3], stopIds: new Set([EOS]), maxNewTokens: 9, grammar, random: Random.of(1, "a") };
    await batch.generate({ ...request, logits: { repetitionPenalty: 1.5 } });
    const [first] = record.drawn;
    expect(first?.repeatPenalty).toMatchObject({ penalty: 1.5, frequencyPenalty: 0, presencePenalty: 0 });
    expect(first?.repeatPenalty?.punishTokens()).toEqual([0, 3, 4, 5]);
    await batch.generate({ ...request, logits: { presencePenalty: 0.5 }, minP: 0.1 });
    expect(record.drawn[1]).toMatchObject({ minP: 0.1, repeatPenalty: { penalty: 1, presencePenalty: 0.5 } });
    expect(record.drawn[1]?.repeatPenalty?.punishTokens()).toEqual([4, 5]);
    await expect(batch.generate({ ...request, logits: { presencePenalty: 1, repetitionPenalty: 2 } })).rejects.toThrow(
      /^llama.cpp cannot combine a repetition penalty with the others/,
    );
  });

  it("answers by the grammar of a schema, drawn by llama.cpp", async () => {
    const [c, d] = [PIECES.indexOf("c"), PIECES.indexOf("d")];
    for (const allowed of [
      [c, d, EOS],
      [c, d],
    ]) {
      const engine = await open({ allowed });
      const grammar = await engine.grammar({ type: "object", properties: { a: { type: ["string", "null"] } } });
      expect(record.schemas).toEqual([
        {
          ...{ type: "object", additionalProperties: false },
          properties: { a: { oneOf: [{ type: "string" }, { type: "null" }] } },
        },
      ]);
      // Whole numbers without exponents.
      const text =
        'root ::= integer-number-rule\ninteger-number-rule ::= "-"? ("0" | [1-9] [0-9]{0,15})\nother ::= "x"';
      const request = { prompt: [0, c], maxNewTokens: 9, stopIds: new Set([EOS]), random: Random.of(1, "a"), grammar };
      const batch = engine.openBatch(2);
      const asked = [batch.generate(request), batch.generate({ ...request, temperature: 0.5, topK: 7, topP: 0.9 })];
      expect(await Promise.all(asked)).toEqual(Array(2).fill({ ids: [c, d], finish: "stop" }));
      expect(record.drawn).toMatchObject([
        { temperature: 0, topK: 0, topP: 1, minP: 0, grammarEvaluationState: { grammar: { grammar: text } } },
        { temperature: 0.5, topK: 7, topP: 0.9 },
      ]);
      const [{ seed: first = 0 } = {}, { seed: second } = {}] = record.drawn;
      expect(first).not.toBe(second);
      const cut = await batch.generate({ ...request, maxNewTokens: 1 });
      expect(cut).toEqual({ ids: [c], finish: "length" });
    }
  });

  it("answers greedily, alone and at once", async () => {
    const prompts = texts(20, 12);
    const expected = prompts.map((prompt) => greedyAnswer(prompt, 9));
    expect(new Set(expected.map(({ length }) => length)).size).toBeGreaterThan(1);
    for (const batch of [1, 3, 32]) {
      const engine = await open();
      const answers = await engine.generate(prompts, { maxNewTokens: 9, batch });
      expect(answers.map(({ ids }) => ids)).toEqual(expected);
      expect(answers.map(({ finish }) => finish)).toEqual(
        expected.map(({ length }) => (length < 9 ? "stop" : "length")),
      );
      expect(record.contexts).toEqual([
        { sequences: Math.min(batch, 20), contextSize: 513, threads: 3, swaFullCache: true },
      ]);
    }
  });

  it("samples what the embedded engine samples where llama.cpp's order of steps means something else", async () => {
    const engine = await open();
    const [prompt = []] = texts(1, 6);
    for (const sampling of [
      { temperature: 1.3, topP: 0.7 },
      { temperature: 0.6, topP: 0.9 },
      { temperature: 1.3, minP: 0.4 },
      { temperature: 1.3, topK: 5, topP: 0.9 },
    ]) {
      record.samplers.length = 0;
      const [answer] = await engine.generate([prompt], { maxNewTokens: 20, seed: 5, stopIds: [], ...sampling });
      const random = Random.of(5, "answer 0");
      const text = [...prompt];
      for (let i = 0; i < 20; i++) {
        text.push(sampleToken(Float32Array.from(logitsAfter(text)), sampling, random) as number);
      }
      expect(answer?.ids).toEqual(text.slice(prompt.length));
      expect(new Set(record.samplers.slice(1).map((one) => one.topK))).toEqual(new Set([sampling.topK ?? 0]));
    }
  });

  it("lets llama.cpp draw other tokens, each with a seed of its own", async () => {
    const engine = await open();
    const [prompt = []] = texts(1, 6);
    const drawn = async (sampling: { temperature: number; topK?: number; topP?: number }, seed: number) => {
      record.samplers.length = 0;
      await engine.generate([prompt], { maxNewTokens: 9, seed, stopIds: [], ...sampling });
      // The first token is drawn from all logits, which shows those that are not numbers.
      const [first, ...others] = record.samplers;
      expect(first?.temperature).toBe(0);
      return others.map((one) => ({ ...one }));
    };
    for (const sampling of [
      { temperature: 1.3 },
      { temperature: 0.7, topK: 3 },
      { temperature: 1, topK: 5, topP: 0.9 },
    ]) {
      const asked = await drawn(sampling, 5);
      const random = Random.of(5, "answer 0");
      random.float();
      expect(asked).toEqual(
        asked.map(() => ({ topK: 0, topP: 1, minP: 0, ...sampling, seed: Math.floor(random.float() * 2 ** 32) })),
      );
      expect(asked).toHaveLength(8);
      expect(await drawn(sampling, 6)).not.toEqual(asked);
    }
  });

  it("scores continuations and next tokens", async () => {
    const engine = await open();
    const requests = texts(9, 7).map((text, i) => ({
      context: text.slice(0, 2 + (i % 3)),
      continuation: text.slice(2 + (i % 3)),
    }));
    for (const batch of [1, 4]) {
      const scores = await engine.scoreContinuations(requests, { batch });
      for (const [i, { context, continuation }] of requests.entries()) {
        const expected = continuation.map(
          (id, at) => logprobsAfter([...context, ...continuation.slice(0, at)])[id] as number,
        );
        expect(scores[i]?.tokens).toHaveLength(continuation.length);
        for (const [at, logprob] of expected.entries()) expect(scores[i]?.tokens[at]).toBeCloseTo(logprob, 10);
        const isGreedy = continuation.every(
          (id, at) => largest(logitsAfter([...context, ...continuation.slice(0, at)])) === id,
        );
        expect(scores[i]?.greedy).toBe(isGreedy);
      }
    }
    const greedy = greedyAnswer([0, 4], 3);
    expect(await engine.scoreContinuations([{ context: [0, 4], continuation: greedy }])).toMatchObject([
      { greedy: true },
    ]);
    const [next = []] = await engine.topNext([[0, 2, 3]], { count: 4 });
    const logprobs = logprobsAfter([0, 2, 3]);
    expect(next.map(({ id }) => id)).toEqual(
      [...logprobs.keys()].sort((a, b) => (logprobs[b] as number) - (logprobs[a] as number)).slice(0, 4),
    );
    for (const { id, logprob } of next) expect(logprob).toBeCloseTo(logprobs[id] as number, 10);
  });

  it("reads a common beginning once, and long prompts in parts", async () => {
    const engine = await open();
    const prompt = texts(1, 300)[0] as number[];
    await engine.generate([prompt], { maxNewTokens: 1, stopIds: [] });
    expect(record.evaluated.splice(0)).toEqual([128, 128, 45]);
    await engine.generate([[...prompt.slice(0, 290), 9, 9]], { maxNewTokens: 1, stopIds: [] });
    expect(record.evaluated.splice(0).reduce((sum, one) => sum + one)).toBeLessThanOrEqual(12);
    // The same prompt again: its last token is needed.
    await engine.generate([[...prompt.slice(0, 290), 9, 9]], { maxNewTokens: 1, stopIds: [] });
    expect(record.evaluated).toEqual([1]);
  });

  it("reads a question once for all its choices, and what questions begin with once", async () => {
    const engine = await open();
    const [shots = []] = texts(1, 300);
    const choices = [[3], [4, 5, 6], [4, 5, 7], [4, 5, 6]];
    const requests = texts(6, 140).flatMap(([, ...question]) =>
      choices.map((continuation) => ({ context: [...shots, ...question], continuation })),
    );
    const done: number[] = [];
    const scores = await engine.scoreContinuations(requests, { onDone: (index) => void done.push(index) });
    const read = () => record.evaluated.splice(0).reduce((sum, one) => sum + one);
    // Each longer choice has two tokens before its last.
    expect(read()).toBeLessThanOrEqual(shots.length + 6 * (140 + 3 * 2));
    expect(done).toEqual([...requests.keys()]);
    for (const [i, { context, continuation }] of requests.entries()) {
      const expected = continuation.map((id, at) => logprobsAfter([...context, ...continuation.slice(0, at)])[id]);
      expect(scores[i]?.tokens).toHaveLength(expected.length);
      for (const [at, logprob] of expected.entries()) expect(scores[i]?.tokens[at]).toBeCloseTo(logprob as number, 10);
    }
    await engine.scoreContinuations(requests, { isKnown: (index) => index < 20 });
    expect(read()).toBeLessThanOrEqual(140 + 3 * 2);
  });

  it("makes a context as large as the texts need, up to the model's", async () => {
    const engine = await open({ trainContextSize: 1200 });
    const prompt = texts(1, 400)[0] as number[];
    const sizes = async (maxNewTokens: number) => {
      const [answer] = await engine.generate([prompt], { maxNewTokens, stopIds: [] });
      return [answer?.ids.length, record.contexts.at(-1)?.contextSize];
    };
    expect(await sizes(10)).toEqual([10, 513]);
    expect(await sizes(500)).toEqual([500, 1025]);
    expect(await sizes(10)).toEqual([10, 1025]);
    expect(await sizes(5000)).toEqual([1200 - 401, 1201]);
    // A text that fills the context.
    const full = (texts(1, 1199)[0] as number[]).slice(0, 1200);
    await expect(engine.topNext([full], { count: 1 })).rejects.toThrow("text 1 fills the context");
    const nearly = full.slice(1);
    expect(await engine.topNext([nearly], { count: 1 })).toMatchObject([[{ id: largest(logitsAfter(nearly)) }]]);
    await expect(engine.generate([texts(1, 1200)[0] as number[]], { maxNewTokens: 1 })).rejects.toThrow(/context/);
  });

  it("ends between tokens when it is cancelled", async () => {
    const controller = new AbortController();
    let calls = 0;
    const engine = await open({ onEvaluate: () => void (++calls === 4 && controller.abort()) });
    const answering = engine.generate(texts(3, 4), {
      maxNewTokens: 100,
      stopIds: [],
      batch: 1,
      signal: controller.signal,
    });
    await expect(answering).rejects.toMatchObject({ code: "cancelled" });
    expect(calls).toBe(4);
    // The sequence is free again.
    expect(await engine.generate([[0, 2]], { maxNewTokens: 2, stopIds: [] })).toHaveLength(1);
  });

  it("serves answers that begin at any time, with their scores", async () => {
    const engine = await open({}, { context: 64 });
    expect(engine.contextLength).toBe(64);
    const batch = engine.openBatch(2);
    const prompts = texts(7, 5);
    const answers = await Promise.all(
      prompts.map(async (prompt, i) => {
        const prompted: number[] = [];
        const scored: number[] = [];
        const random = Random.of(i, "x");
        const { ids } = await batch.generate({
          ...{ prompt, maxNewTokens: 4, stopIds: new Set<number>(), random, top: 2, temperature: i % 2 },
          onPrompt: (scores) => void prompted.push(...scores.map(({ logprob }) => logprob)),
          onToken: (_, scores) => void scored.push(scores?.logprob ?? Number.NaN),
        });
        return { text: [...prompt, ...ids], logprobs: [...prompted, ...scored] };
      }),
    );
    expect(record.contexts).toMatchObject([{ sequences: 2, contextSize: 65, threads: 3 }]);
    for (const { text, logprobs } of answers) {
      expect(logprobs).toHaveLength(text.length - 1);
      for (const [i, logprob] of logprobs.entries()) {
        expect(logprob).toBeCloseTo(logprobsAfter(text.slice(0, i + 1))[text[i + 1] as number] as number, 10);
      }
    }
  });

  it("serves from a context as large as its requests need, and closes a smaller one after its answers", async () => {
    let proceed = () => {};
    let isLong = false;
    const gate = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    const engine = await open({ trainContextSize: 1200, onEvaluate: () => (isLong ? undefined : gate) });
    const batch = engine.openBatch(2);
    const [short = [], long = [], longer = []] = [40, 700, 1100].map((length) => texts(1, length)[0]);
    const ask = async (prompt: readonly number[]) => {
      const { ids } = await batch.generate({
        prompt,
        maxNewTokens: 4,
        stopIds: new Set([EOS]),
        random: Random.of(1, "x"),
      });
      expect(ids).toEqual(greedyAnswer(prompt, 4));
    };
    const sizes = () => record.contexts.map(({ sequences, contextSize }) => [sequences, contextSize]);
    const first = ask(short);
    await vi.waitFor(() => expect(record.evaluated).toHaveLength(1));
    const second = ask(long);
    await vi.waitFor(() => expect(record.contexts).toHaveLength(2));
    // The file, and both contexts.
    expect(record.open).toBe(3);
    const third = ask(longer);
    await vi.waitFor(() => expect(batch.waiting).toBe(1));
    isLong = true;
    proceed();
    await Promise.all([first, second]);
    await third;
    await ask(short);
    expect(sizes()).toEqual([
      [2, 513],
      [2, 1025],
      [2, 1201],
    ]);
    expect(record.open).toBe(2);
  });

  it("lets answers that wait be cancelled at once, and others take their turn", async () => {
    let isOpen = false;
    let proceed = () => {};
    const gate = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    const engine = await open({ onEvaluate: () => (isOpen ? undefined : gate) });
    const batch = engine.openBatch(1);
    const ask = (signal?: AbortSignal) =>
      batch.generate({ prompt: [0, 2], maxNewTokens: 1, stopIds: new Set(), random: Random.of(1, "x"), signal });
    const first = ask();
    const [early, late] = [new AbortController(), new AbortController()];
    const [left, woken, patient] = [ask(early.signal), ask(late.signal), ask()];
    await vi.waitFor(() => expect(batch.waiting).toBe(3));
    early.abort();
    await expect(left).rejects.toMatchObject({ code: "cancelled" });
    expect(batch.waiting).toBe(2);
    // Cancelled in the turn in which it is woken.
    void first.then(() => late.abort());
    isOpen = true;
    proceed();
    await expect(woken).rejects.toMatchObject({ code: "cancelled" });
    const expected = [largest(logitsAfter([0, 2]))];
    expect((await patient).ids).toEqual(expected);
    expect((await first).ids).toEqual(expected);
  });

  it("notices scores that are not numbers", async () => {
    const engine = await open({ logits: () => PIECES.map(() => Number.NaN) });
    expect(await engine.generate([[0, 2]], { maxNewTokens: 3 })).toMatchObject([{ finish: "invalid", ids: [] }]);
    const [score] = await engine.scoreContinuations([{ context: [0], continuation: [2] }]);
    expect(score?.logprob).toBeNaN();
    // Later in an answer, where token 0 is drawn, which may also be right.
    const prompt = [0, 2];
    for (const [broken, finish] of [
      [true, "invalid"],
      [false, "length"],
    ] as const) {
      const first = (text: readonly number[]) => PIECES.map((_, id) => Number(id === (text.length === 5 ? 0 : 4)));
      const later = await open({
        logits: (text) => first(text).map((one) => (broken && text.length === 5 ? Number.NaN : one)),
      });
      const [answer] = await later.generate([prompt], { maxNewTokens: 5, stopIds: [] });
      expect(answer).toMatchObject({ finish, ids: broken ? [4, 4, 4] : [4, 4, 4, 0, 4] });
    }
    // Of one token, which top-k would leave out.
    const one = await open({ logits: (text) => logitsAfter(text).map((logit, id) => (id === 5 ? Number.NaN : logit)) });
    for (const sampling of [{ topK: 2 }, { topP: 0.5 }, { topK: 2, topP: 0.5, temperature: 0.5 }]) {
      const answer = await one.generate([[0, 2]], { maxNewTokens: 3, temperature: 1, ...sampling });
      expect(answer).toMatchObject([{ finish: "invalid", ids: [] }]);
    }
  });

  it("has the file's tokenizer, template and end tokens", async () => {
    const template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}g";
    const engine = await open({ template });
    expect(await engine.encode("abc")).toEqual([0, 2, 3, 4]);
    expect(await engine.encode("abc", { bos: false })).toEqual([2, 3, 4]);
    expect(await engine.stopIds()).toEqual([EOS]);
    const chat = await engine.chatTemplate();
    expect(chat?.render([{ role: "user", content: "ab" }])).toBe("<s>abg");
    const tokenizer = await engine.tokenizer();
    expect(tokenizer.decode([0, 2, 3], { skipSpecialTokens: true })).toBe("ab");
    expect([tokenizer.idOf("c"), tokenizer.tokenOf(4), tokenizer.idOf("zz")]).toEqual([4, "c", undefined]);
    expect(await (await open()).chatTemplate()).toBeUndefined();
  });
});

describe("a recipe", () => {
  it("is written to the cache once, whole or not at all", async () => {
    const models = [join(folder, "one"), join(folder, "two")];
    for (const [i, model] of models.entries()) {
      await writeTiny(model, { seed: i });
      writeTinyTokenizer(model);
    }
    const recipe = { method: "soup" as const, models };
    const cache = { folder: join(folder, "cache"), mostBytes: 1e9 };
    const gguf = join(cache.folder, "gguf");
    const controller = new AbortController();
    const fake = fakeLlama();
    record = fake.record;
    const options = { load: fake.load, cache, type: "f16" } as const;
    const stopped = openLlama(recipe, { ...options, signal: controller.signal, onProgress: () => controller.abort() });
    await expect(stopped).rejects.toMatchObject({ code: "cancelled" });
    expect(readdirSync(gguf).filter((name) => name.endsWith(".gguf"))).toEqual([]);

    const phases: string[] = [];
    for (const onProgress of [({ phase }: { phase: string }) => void phases.push(phase), () => expect.unreachable()]) {
      const engine = await openLlama(recipe, { ...options, onProgress });
      engines.push(engine);
      expect(engine.notes.at(-1)).toMatch(/^weights are f16 in /);
    }
    expect(new Set(phases)).toEqual(new Set(["exporting as f16 for llama.cpp"]));
    const [name = "", ...others] = readdirSync(gguf);
    expect(others).toEqual([]);
    const out = join(folder, "exported.gguf");
    await writeGguf(await planGguf(await openModelSource(recipe), { type: "f16" }), { out });
    expect(readFileSync(join(gguf, name)).equals(readFileSync(out))).toBe(true);
  });
});

it("an export that another process removes to make room is written again", async () => {
  const model = await writeTiny(join(folder, "removed"));
  writeTinyTokenizer(model);
  const cache = { folder: join(folder, "small-cache"), mostBytes: 0 };
  const fake = fakeLlama();
  record = fake.record;
  let tries = 0;
  const load = async () => {
    const llama = await (await fake.load()).getLlama({} as never);
    const loadModel: typeof llama.loadModel = async (options) => {
      if (++tries > 1) return llama.loadModel(options);
      rmSync(options.modelPath);
      throw new Error("No such file or directory");
    };
    return { getLlama: async () => ({ ...llama, loadModel }) };
  };
  engines.push(await openLlama(model, { load, cache, type: "f16" }));
  expect(tries).toBe(2);
});

it("checks what would be exported, and writes nothing", async () => {
  const model = await writeTiny(join(folder, "checked"));
  writeTinyTokenizer(model);
  const plan = await planGguf(await openModelSource(model), { type: "q8_0" });
  const { bytes, mostBytes } = await checkLlama(model, { load: fakeLlama().load });
  expect({ bytes, mostBytes }).toEqual({ bytes: plan.layout.bytes, mostBytes: 50e9 });
  const missing = Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
  await expect(checkLlama(model, { load: () => Promise.reject(missing) })).rejects.toThrow(
    "llama.cpp is not installed",
  );
});

describe("what cannot be opened", () => {
  const refusal = async (options: FakeOptions, more: Parameters<typeof openLlama>[1] = {}, source = path) => {
    const fake = fakeLlama(options);
    record = fake.record;
    return openLlama(source, { load: fake.load, ...more }).then(
      () => "opened",
      (error: Error) => error.message,
    );
  };

  it("is named, with what to do", async () => {
    expect(await refusal({ refuseFile: "bad magic" })).toMatch(
      /^llama.cpp cannot open model\.gguf: bad magic\. .*export it again\.$/,
    );
    expect(await refusal({}, {}, join(folder, "none.gguf"))).toMatch(/does not exist/);
    expect(await refusal({}, { type: "f16" })).toMatch(/Leave out type\./);
    // Before the weights are read, which could not be opened here.
    expect(await refusal({ refuseFile: "bad magic" }, { chat: true })).toBe(
      "model.gguf has no chat template. Prompt it with text",
    );
    const missing = Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
    expect(await refusal({}, { load: () => Promise.reject(missing) })).toMatch(
      /npm install --ignore-scripts node-llama-cpp/,
    );
  });

  it("is a context without memory", async () => {
    const engine = await open({ refuseContext: "out of memory" });
    await expect(engine.generate(texts(2, 3), { maxNewTokens: 600 })).rejects.toThrow(
      /no memory for 2 texts at once of 1024 tokens: out of memory\. Use a smaller batch/,
    );
  });
});
