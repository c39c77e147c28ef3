// Answers that are kept: nothing is asked twice, torn lines are no harm, others' files are not taken for ours.
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { AnswerCache, keyOf, withCache } from "./answer-cache.js";
import type { Backend, Generated, GenerateRequest } from "./backend.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-cache-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let path = "";
let number = 0;
beforeEach(() => {
  path = join(folder, `${number++}.jsonl`);
});

/** Answers a prompt with itself; `asked` has what was asked, call by call. */
function echo(options: { batch?: number; faulty?: string } = {}) {
  const asked: string[][] = [];
  const known: boolean[][] = [];
  const size = options.batch;
  const backend: Backend = {
    identity: { backend: "echo", server: null, model: "m", digest: null, bos: "server" },
    incapacities: {},
    ...(size === undefined
      ? {}
      : {
          batches: (requests) =>
            Array.from({ length: Math.ceil(requests.length / size) }, (_, i) =>
              [...requests.keys()].slice(i * size, (i + 1) * size),
            ),
        }),
    async generate(requests, { onResult, isKnown } = {}) {
      asked.push(requests.map(({ prompt }) => prompt));
      known.push(requests.map((_, i) => isKnown?.(i) ?? false));
      return requests.map(({ prompt }, i) => {
        const answer = prompt === options.faulty ? { error: "no" } : { text: prompt, finish: "stop" as const };
        onResult?.(i, answer);
        return answer;
      });
    },
    loglikelihood: async () => [],
    choose: async () => [],
    close: async () => undefined,
  };
  return { backend, asked, known };
}

const request = (prompt: string, more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt,
  maxNewTokens: 5,
  stop: [],
  ...more,
});
const texts = (answers: readonly object[]) => answers.map((answer) => (answer as Generated).text);

async function ask(backend: Backend, prompts: readonly string[]): Promise<string[]> {
  const cache = await AnswerCache.open(path);
  const answers = await withCache(backend, cache).generate(prompts.map((prompt) => request(prompt)));
  await cache.close();
  return texts(answers);
}

describe("a run that is taken up again", () => {
  it("asks only what is not kept", async () => {
    const { backend, asked } = echo();
    expect(await ask(backend, ["a", "b"])).toEqual(["a", "b"]);
    expect(await ask(backend, ["c", "b", "a"])).toEqual(["c", "b", "a"]);
    expect(asked).toEqual([["a", "b"], ["c"]]);
  });

  it("tells every answer once, kept or new", async () => {
    const { backend } = echo();
    await ask(backend, ["b"]);
    const cache = await AnswerCache.open(path);
    const told: [number, string][] = [];
    await withCache(backend, cache).generate(
      ["a", "b", "c"].map((prompt) => request(prompt)),
      {
        onResult: (index, answer) => told.push([index, (answer as Generated).text]),
      },
    );
    await cache.close();
    expect(told.sort()).toEqual([
      [0, "a"],
      [1, "b"],
      [2, "c"],
    ]);
  });

  it("takes other settings, kinds and models for other questions, but not another shared beginning", async () => {
    const { backend, asked } = echo();
    const cache = await AnswerCache.open(path);
    const cached = withCache(backend, cache);
    await cached.generate([request("a")]);
    await cached.generate([request("a", { maxNewTokens: 6 }), request("a", { stop: ["x"] })]);
    await cached.generate([request("a", { prefix: "the same for many" })]);
    const other = { ...backend, identity: { ...backend.identity, digest: "other weights" } };
    await withCache(other, cache).generate([request("a")]);
    await cache.close();
    expect(asked.map((call) => call.length)).toEqual([1, 2, 1]);
  });

  it("asks again for what was refused", async () => {
    const { backend, asked } = echo({ faulty: "b" });
    await ask(backend, ["a", "b"]);
    await ask(backend, ["a", "b"]);
    expect(asked).toEqual([["a", "b"], ["b"]]);
  });

  it("computes batches whole, in the same company as before", async () => {
    const first = echo({ batch: 3 });
    await ask(first.backend, ["a", "b", "c", "d", "e"]);
    expect(first.asked).toEqual([
      ["a", "b", "c"],
      ["d", "e"],
    ]);
    // As a kill leaves it: one answer of the second batch.
    const lines = readFileSync(path, "utf8").split("\n").slice(0, 4);
    writeFileSync(path, `${lines.join("\n")}\n`);
    const second = echo({ batch: 3 });
    expect(await ask(second.backend, ["a", "b", "c", "d", "e"])).toEqual(["a", "b", "c", "d", "e"]);
    expect(second.asked).toEqual([["d", "e"]]);
    expect(second.known).toEqual([[true, false]]);
  });
});

describe("the file", () => {
  it("survives being cut anywhere", async () => {
    const cache = await AnswerCache.open(path);
    const values = [
      { text: 'ünï\u2028\n"code" 数', finish: "stop" as const, more: [1.5, null] },
      { logprob: -(0.1 + 0.2), tokens: 2, greedy: true },
      { logprobs: [-1.5, null] },
      { outcome: "passed", detail: "" },
    ];
    for (const [i, value] of values.entries()) cache.put(keyOf(i), value);
    await cache.close();
    const whole = readFileSync(path);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length }), async (length) => {
        writeFileSync(path, whole);
        truncateSync(path, length);
        const cut = await AnswerCache.open(path);
        const lines = whole.subarray(0, length).filter((byte) => byte === 0x0a).length;
        expect(cut.size).toBe(lines);
        for (const [i, value] of values.entries()) expect(cut.get(keyOf(i))).toEqual(i < lines ? value : undefined);
        cut.put(keyOf("later"), { outcome: "failed", detail: "later" });
        await cut.close();
        const again = await AnswerCache.open(path);
        expect(again.size).toBe(lines + 1);
        await again.close();
      }),
      { numRuns: 25 },
    );
  });

  it("loses a line that is not an answer, and asks for that one again", async () => {
    const wrong = [{ text: 5, finish: "stop" }, { text: "b" }, { text: "b", finish: "later" }, null, 7, []];
    const damaged = [
      "{}",
      "[1, 2]",
      '["a"]',
      "nonsense",
      "\0\0",
      ...wrong.map((value) => JSON.stringify(["k", value])),
    ];
    for (const line of damaged) {
      rmSync(path, { force: true });
      await ask(echo().backend, ["a", "b", "c"]);
      const [first = "", , last = ""] = readFileSync(path, "utf8").split("\n");
      writeFileSync(path, `${[first, line, last].join("\n")}\n`);
      const cache = await AnswerCache.open(path);
      expect([line, cache.damaged, cache.size]).toEqual([line, 1, 2]);
      cache.close();
      const { backend, asked } = echo();
      expect(await ask(backend, ["a", "b", "c"])).toEqual(["a", "b", "c"]);
      expect(asked).toEqual([["b"]]);
      const whole = await AnswerCache.open(path);
      expect([whole.damaged, whole.size]).toEqual([0, 3]);
      whole.close();
    }
  });
});
