// Sampled answers, several to an item: what servers are asked, what is stored, and statistics with the item as their unit.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  chooseTask,
  generateTask,
  out,
  read,
  run,
  served,
  setUpEvaluations,
  vllm,
} from "../../test/support/evaluation.js";
import { type CompletionsOptions, completions, type FakeRequest } from "../../test/support/fake-chat-server.js";
import { averageRepeats, compareItems, scoreItems } from "./scoring/scores.js";
import { withAnswers } from "./tasks/answer-settings.js";
import { openTasks, type Task } from "./tasks/open-tasks.js";

setUpEvaluations();

const DRAWN = { maxNewTokens: 9, temperature: 1, topP: 0.95, topK: 20, repeats: 3 } as const;

/** A server whose answers have one or two characters, as their seed is even or odd. */
const bySeed = (options: CompletionsOptions = {}) => {
  const answer = completions(options);
  return served((request: FakeRequest) => {
    const reply = answer(request) as { choices: { text: string }[] };
    if (typeof request.body.seed !== "number") return reply;
    return { ...reply, choices: [{ ...reply.choices[0], text: "a".repeat(1 + (request.body.seed % 2)) }] };
  });
};

describe("requests for sampled answers", () => {
  const SAMPLED = { max_tokens: 9, temperature: 1, top_p: 0.95, top_k: 20 };
  it.each([
    ["vllm", DRAWN, { ...SAMPLED, min_p: 0, repetition_penalty: 1 }],
    ["sglang", { temperature: 0.6 }, { temperature: 0.6, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 }],
    ["llamacpp", DRAWN, { ...SAMPLED, min_p: 0, repeat_penalty: 1 }],
    ["llamacpp", { temperature: 0.6 }, { temperature: 0.6, top_p: 1, top_k: 0, min_p: 0, repeat_penalty: 1 }],
    ["someone", { temperature: 0.6, topP: 0.5 }, { temperature: 0.6, top_p: 0.5 }],
  ])("of %s with %j have its fields", async (owner, answers, expected) => {
    const { server, backend } = await served(completions({ owner }));
    await run({ tasks: [withAnswers(generateTask(2), answers)], backend });
    const bodies = server.asked("/v1/completions");
    expect(bodies).toHaveLength(2 * ("repeats" in answers ? answers.repeats : 1));
    for (const { model: _, prompt: _p, stop: _s, seed, max_tokens, ...rest } of bodies) {
      expect(seed).toSatisfy((value) => Number.isInteger(value) && value >= 0 && value < 2 ** 31);
      expect({ max_tokens, ...rest }).toEqual({ max_tokens: 6, ...expected });
    }
    expect(new Set(bodies.map(({ seed }) => seed)).size).toBe(bodies.length);
  });

  it("are greedy without settings", async () => {
    const { server, backend } = await vllm({ owner: "someone" });
    await run({ tasks: [generateTask(1)], backend });
    expect(server.asked("/v1/completions")).toMatchObject([{ temperature: 0, max_tokens: 6 }]);
    expect(server.asked("/v1/completions")[0]).not.toHaveProperty("seed");
  });

  it.each([{ repeats: 2 }, { topP: 0.5 }, { topK: 3, temperature: 0 }])("%j needs a temperature", (answers) => {
    expect(() => withAnswers(generateTask(1), answers)).toThrow(/need a temperature above 0/);
  });
});

describe("an evaluation with repeats", () => {
  it("averages the answers of each item, and stores every one", async () => {
    const { server, backend } = await bySeed();
    const task = withAnswers(generateTask(4), DRAWN);
    const { results, samples } = await run({ tasks: [task], backend, out, seed: 3 });
    const seeds = server.asked("/v1/completions").map(({ seed }) => Number(seed));
    const stored = samples.get("lengths") ?? [];
    expect(stored.map(({ id, repeat }) => `${id} ${repeat}`)).toEqual(
      ["g0", "g1", "g2", "g3"].flatMap((id) => [1, 2, 3].map((repeat) => `${id} ${repeat}`)),
    );
    const even = seeds.filter((seed) => seed % 2 === 1).length;
    expect(even).toBeGreaterThan(0);
    expect(even).toBeLessThan(12);
    const [found] = results.tasks;
    expect(found).toMatchObject({ answers: DRAWN, items: 4, answeredBy: { generation: 12 } });
    expect(found?.scores[0]).toMatchObject({ metric: "even", items: 4, unscored: 0 });
    expect(found?.scores[0]?.value).toBeCloseTo(even / 12, 12);
    // A corpus score of averages is that of all answers, here a sum: a third of theirs.
    expect(found?.scores[1]?.value).toBeCloseTo((12 + even) / 3, 12);
    const before = read("results.json");
    const again = await run({ tasks: [task], backend, out, seed: 3, resume: true });
    expect(read("results.json")).toBe(before);
    expect(server.asked("/v1/completions")).toHaveLength(12);
    expect(again.results).toEqual(results);
    const other = await run({ tasks: [task], backend, seed: 4 });
    expect(other.samples.get("lengths")?.map(({ output }) => output)).not.toEqual(stored.map(({ output }) => output));
  });

  it("counts an answer that did not come as wrong", async () => {
    const answer = completions();
    let first = 0;
    const { backend } = await served((request) => {
      if (typeof request.body.seed !== "number" || first++ > 0) return answer(request);
      return { status: 400, json: { error: "too long for me" } };
    });
    const { results } = await run({ tasks: [withAnswers(generateTask(2), DRAWN)], backend });
    expect(results.tasks[0]?.problems).toMatchObject({ refused: 1, unscored: 0 });
    expect(results.tasks[0]?.scores[0]).toMatchObject({ items: 2, unscored: 0 });
  });

  it("leaves choices as they are, with a note", async () => {
    const { backend } = await vllm();
    const { results } = await run({ tasks: [withAnswers(chooseTask(2), DRAWN)], backend });
    expect(results.tasks[0]?.answeredBy).toEqual({ "log-likelihood": 2 });
    expect(results.tasks[0]?.notes).toEqual([expect.stringMatching(/settings of answers in text have no effect/)]);
  });
});

describe("statistics with repeats", () => {
  const golden = JSON.parse(readFileSync("test/fixtures/evaluation/repeats.json", "utf8")) as {
    first: number[][];
    second: number[][];
    scores: Record<"first" | "second" | "difference", { mean: number; standard_error: number }>;
  };
  const metric = { name: "right", title: "right", of: "right", by: "mean", scale: "share" } as const;
  const samplesOf = (table: number[][]) =>
    table.flatMap((answers, item) =>
      answers.map((right, i) => ({ id: String(item), repeat: i + 1, verdict: { right } })),
    );

  it.each(["first", "second"] as const)("have statsmodels' mean and error clustered by item: %s", (name) => {
    const [score] = scoreItems([metric], averageRepeats(samplesOf(golden[name])));
    expect(score?.value).toBeCloseTo(golden.scores[name].mean, 12);
    expect(score?.standardError).toBeCloseTo(golden.scores[name].standard_error, 12);
    expect(score?.items).toBe(40);
    // The bootstrap draws items, not answers: its spread is that of the clustered error.
    expect(score?.interval?.deviation).toBeCloseTo(golden.scores[name].standard_error, 2);
  });

  it("compare two models item by item", () => {
    const [first, second] = [golden.first, golden.second].map((table) => averageRepeats(samplesOf(table)));
    const found = compareItems(metric, first ?? [], second ?? []);
    const { mean, standard_error: error } = golden.scores.difference;
    expect(found.difference).toBeCloseTo(mean, 12);
    expect(found.interval?.deviation).toBeCloseTo(error, 2);
    expect(found.items).toBe(40);
    // About twice the standard error on either side.
    expect(Math.abs((found.interval?.high ?? 0) - mean - 1.96 * error)).toBeLessThan(0.01);
  });
});

describe("a task with a chat protocol", () => {
  const chatting = async (answers = {}) => {
    const [task] = await openTasks(["mgsm_sw"], { answers });
    const data = { folder: "test/fixtures/evaluation" };
    return { tasks: [task as Task], data, limit: 2 };
  };

  it("is asked as a chat where the model has a template, which the results say", async () => {
    const toy = completions({ ids: false });
    const text = { choices: [{ text: "Jibu ni 18.", finish_reason: "stop" }] };
    const { backend } = await served((request) => (Number(request.body.max_tokens) > 100 ? text : toy(request)));
    const withTemplate = { ...backend, renderChat: async () => "Answer:x" };
    const { results } = await run({ ...(await chatting({ repeats: 2, temperature: 0.5 })), backend: withTemplate });
    expect(results.tasks[0]).toMatchObject({ protocol: "layergraft/mgsm-chat@5", shots: 0, answers: { repeats: 2 } });
    expect(results.tasks[0]?.notes[0]).toMatch(
      /asked as a chat.*the protocol layergraft\/mgsm-native-cot@5 asks without/,
    );
    const plain = await run({ ...(await chatting()), backend });
    expect(plain.results.tasks[0]?.protocol).toBe("layergraft/mgsm-native-cot@5");
    const [asked] = await openTasks(["mgsm_sw"], { protocols: ["mgsm-native-cot"] });
    const named = await run({ ...(await chatting()), tasks: [asked as Task], backend: withTemplate });
    expect(named.results.tasks[0]?.protocol).toBe("layergraft/mgsm-native-cot@5");
  });
});
