// Whole evaluations against the toy model: scores by hand, problems counted, stopped and gone on with to the same bytes.
// @module-tag slow
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CHOICES,
  chooseTask,
  files,
  generateTask,
  itemsOf,
  logprobsOf,
  out,
  promptOf,
  read,
  run,
  SHARED,
  served,
  setUpEvaluations,
  vllm,
} from "../../test/support/evaluation.js";
import { completions, type FakeRequest } from "../../test/support/fake-chat-server.js";
import * as toy from "../../test/support/toy-model.js";
import { CancelledError, LayergraftError, OutputError } from "../kit/errors.js";
import { wallClock } from "../text/index.js";
import type { Backend } from "./backends/backend.js";
import { evaluate } from "./evaluate.js";
import { readResults } from "./results/read-results.js";
import type { Sample } from "./results/result-types.js";
import type { EvaluationProgress } from "./task-run.js";
import type { GenerateItem } from "./tasks/open-tasks.js";
import type { Task } from "./tasks/task.js";

setUpEvaluations();

describe("an answer without a text", () => {
  const EMPTY: readonly Record<string, unknown>[] = [
    { choices: [] },
    {},
    { choices: [{ text: null, finish_reason: "stop" }] },
  ];

  it.each(EMPTY)("%j is asked for again", async (empty) => {
    const answer = completions();
    let asked = 0;
    const { backend } = await served((request) =>
      request.path === "/v1/completions" && request.body.max_tokens !== 1 && asked++ === 0 ? empty : answer(request),
    );
    const { samples } = await evaluate({ tasks: [generateTask(3)], backend, data: {}, source: "x" });
    expect(samples.get("lengths")?.every(({ output, fault }) => typeof output === "string" && !fault)).toBe(true);
    expect(asked).toBe(4);
  });

  it("fails its item after the last attempt, and not the run", async () => {
    const answer = completions();
    let first: unknown;
    const { backend } = await served((request) => {
      if (request.path !== "/v1/completions" || request.body.max_tokens === 1) return answer(request);
      first ??= JSON.stringify(request.body.prompt);
      return JSON.stringify(request.body.prompt) === first ? { choices: [] } : answer(request);
    });
    const { results, samples } = await evaluate({ tasks: [generateTask(3)], backend, data: {}, source: "x" });
    expect(results.tasks[0]?.problems).toMatchObject({ refused: 1, unscored: 0 });
    const problems = samples.get("lengths")?.flatMap(({ fault }) => fault ?? []);
    expect(problems).toEqual([expect.stringMatching(/completions answered without a text \(asked 3 times\)$/)]);
  });

  it("has no answer after its reasoning where the model has only reasoned", async () => {
    const answer = completions();
    let asked = 0;
    const { backend } = await served((request) => {
      if (request.path !== "/v1/completions" || request.body.max_tokens === 1) return answer(request);
      asked++;
      return {
        choices: [{ text: null, finish_reason: "length", message: { content: null, reasoning_content: "hm" } }],
      };
    });
    const { results, samples } = await evaluate({ tasks: [generateTask(2)], backend, data: {}, source: "x" });
    expect(samples.get("lengths")?.map(({ output, finish }) => [output, finish])).toEqual([
      ["<think>hm</think>", "length"],
      ["<think>hm</think>", "length"],
    ]);
    expect(results.tasks[0]?.problems).toMatchObject({ refused: 0, unscored: 0, cut: 2 });
    expect(asked).toBe(2);
  });
});

describe("results", () => {
  it("have scores that can be counted by hand, and every sample", async () => {
    const { backend } = await vllm();
    const tasks = [generateTask(9), chooseTask(4)];
    const { results, samples } = await run({ tasks, backend, out });
    const answers = (await itemsOf(generateTask(9))).map((item) =>
      toy.generate(toy.encode(promptOf(item), true), 6, ["\n"]),
    );
    const lengths = answers.map(({ text }) => text.length);
    expect(new Set(lengths.map((length) => length % 2)).size).toBe(2);
    const [first] = results.tasks;
    expect(first?.scores[0]).toMatchObject({
      metric: "even",
      value: lengths.filter((length) => length % 2 === 0).length / 9,
      items: 9,
      unscored: 0,
    });
    expect(first?.scores[1]?.value).toBe(lengths.reduce((sum, length) => sum + length, 0));
    expect(first).toMatchObject({
      protocol: "test/plain@2",
      shots: 1,
      items: 9,
      notes: ["made up"],
      answeredBy: { generation: 9 },
      problems: {
        refused: 0,
        missing: 0,
        unscored: 0,
        cut: answers.filter(({ finish }) => finish === "length").length,
      },
    });
    const right = (await itemsOf(chooseTask(4))).filter((item) => {
      const values = logprobsOf(item);
      return values.indexOf(Math.max(...values)) === 1;
    });
    expect(results.tasks[1]?.scores[0]?.value).toBe(right.length / 4);
    expect(results.backend).toEqual(backend.identity);
    expect(samples.get("lengths")?.map(({ output }) => output)).toEqual(answers.map(({ text }) => text));

    const lines = read("samples-lengths.jsonl").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as Sample)).toEqual(samples.get("lengths"));
    const sample = JSON.parse(lines[3] ?? "") as Sample;
    expect(sample).toMatchObject({ id: "g3", group: "odd", gold: "even", verdict: { length: [lengths[3]] } });
    const shared = JSON.parse(read("shared-prompts.json")) as Record<string, string>;
    expect(shared[(sample.prompt as { shared: string }).shared]).toBe(SHARED);
    expect(JSON.parse(read("run.json"))).toMatchObject({ kept: 0, node: process.version });
    expect(await readResults(out)).toEqual(results);
  });

  it("tell progress with the score so far", async () => {
    const { backend } = await vllm();
    const told: EvaluationProgress[] = [];
    const { results } = await run({ tasks: [generateTask(9)], backend, onProgress: (progress) => told.push(progress) });
    expect(told.map(({ done }) => done)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(told[0]).toMatchObject({ total: 9, score: undefined, itemsPerSecond: undefined, metric: "even" });
    expect(told.at(-1)).toMatchObject({ score: results.tasks[0]?.scores[0]?.value, refused: 0 });
    expect(told.at(-1)?.itemsPerSecond).toBeGreaterThan(0);
  });
});

describe("choices", () => {
  it("are weighed by the next token where it tells all of them, and by log-likelihood where not", async () => {
    // Twenty alternatives do not hold every letter, so some items must be asked once more.
    const { server, backend } = await vllm();
    const { results, samples } = await run({ tasks: [chooseTask(6)], backend });
    const items = await itemsOf(chooseTask(6));
    const isTold = items.map((item) => {
      const top = toy.topNext(toy.encode(promptOf(item)).at(-1) ?? 0, 20).map(({ id }) => id);
      return CHOICES.every((choice) => top.includes(toy.encode(choice)[0] ?? 0));
    });
    const told = isTold.filter(Boolean).length;
    expect(told).toBeLessThan(6);
    const by = results.tasks[0]?.answeredBy ?? {};
    expect(by["log-likelihood"]).toBe(6 - told);
    expect(by["next token"] ?? 0).toBe(told);
    for (const [i, item] of items.entries()) {
      const output = samples.get("letters")?.[i]?.output as number[];
      for (const [j, value] of logprobsOf(item).entries()) expect(output[j]).toBeCloseTo(value, 9);
    }
    expect(server.asked("/v1/completions").filter(({ echo }) => echo === true)).toHaveLength(4 * (6 - told));
  });

  it("that a server does not list are reported, and in no score where asked so", async () => {
    const { backend } = await vllm({ echo: "refused", mostLogprobs: 5 });
    const { results, samples } = await run({ tasks: [chooseTask(6)], backend, out, skipUnanswered: true });
    const missing = (samples.get("letters") ?? []).filter(({ output }) => (output as unknown[]).includes(null));
    expect(missing.length).toBeGreaterThan(0);
    expect(results.tasks[0]?.problems).toMatchObject({ missing: missing.length, unscored: missing.length, refused: 0 });
    expect(results.tasks[0]?.scores[0]).toMatchObject({ items: 6 - missing.length, unscored: missing.length });
    if (missing.length === 6) expect(results.tasks[0]?.scores[0]?.value).toBeNaN();
    expect(JSON.stringify(await readResults(out))).toBe(JSON.stringify(results));
  });

  it("are refused by a server that gives no log-probabilities, before anything is asked", async () => {
    const { server, backend } = await vllm({ echo: "refused", mostLogprobs: 0 });
    const running = run({ tasks: [generateTask(2), chooseTask(2)], backend, out });
    await expect(running).rejects.toThrow(/letters needs log-probabilities.*at most 0 logprobs.*Use another server/s);
    expect(server.requests).toEqual([]);
    expect(() => readdirSync(out)).toThrow();
  });

  it("of several tokens are refused where no text can be scored, item by item, and then altogether", async () => {
    const { backend } = await vllm({ echo: "refused" });
    const { results } = await run({ tasks: [chooseTask(3)], backend });
    expect(results.tasks[0]?.answeredBy).toEqual({ "next token": 3 });
    await expect(run({ tasks: [chooseTask(3, [" A", " the B"])], backend })).rejects.toThrow(
      /no answer to 3 requests; the last one was refused.*" the B" is 2 tokens/s,
    );
  });
});

describe("problems", () => {
  const tooLong = (body: FakeRequest["body"], unlucky: readonly number[]): boolean => {
    const text = Array.isArray(body.prompt) ? toy.decode(body.prompt as number[]) : "";
    return body.max_tokens === 6 && unlucky.some((i) => text.includes(`Question: ${i * 7}\n`));
  };

  it.each([
    ["count as wrong", false],
    ["are in no score where asked so", true],
  ])("of single items are counted, kept in the samples, and %s", async (_, skipUnanswered) => {
    const fake = completions();
    const { backend } = await served((request) =>
      tooLong(request.body, [1, 4]) ? { status: 400, json: { error: "too long for me" } } : fake(request),
    );
    const { results, samples } = await run({ tasks: [generateTask(6)], backend, out, skipUnanswered });
    const unscored = skipUnanswered ? 2 : 0;
    const items = 6 - unscored;
    expect(results.tasks[0]?.problems).toMatchObject({ refused: 2, unscored });
    const even = (samples.get("lengths") ?? []).filter(
      ({ output }) => typeof output === "string" && output.length % 2 === 0,
    );
    expect(results.tasks[0]?.scores[0]).toMatchObject({ items, unscored, value: even.length / items });
    expect(samples.get("lengths")?.[4]).toMatchObject({
      output: null,
      fault: expect.stringMatching(/too long for me/),
      reading: null,
      verdict: skipUnanswered ? null : { even: 0, length: [0] },
    });
    expect(await readResults(out)).toEqual(results);
  });

  it("of one task leave the others scored, and a resumed run asks it again", async () => {
    const fake = completions();
    let isDown = true;
    const { backend } = await served((request) =>
      isDown && tooLong(request.body, [0, 1]) ? { status: 400, json: { error: "too long for me" } } : fake(request),
    );
    const tasks = [generateTask(2, { name: "hopeless" }), chooseTask(3)];
    const failed: string[] = [];
    const onFailure = ({ name }: { readonly name: string }, { message }: Error) => failed.push(`${name}: ${message}`);
    await expect(run({ tasks, backend })).rejects.toThrow(/hopeless: no answer to 2 requests/);
    const { results } = await run({ tasks, backend, out, onFailure });
    expect(results.tasks.map(({ task }) => task)).toEqual(["letters"]);
    expect(failed).toEqual([expect.stringMatching(/^hopeless: .*no answer to 2 requests/)]);
    isDown = false;
    const again = await run({ tasks, backend, out, onFailure, resume: true });
    expect(again.results.tasks.map(({ task }) => task)).toEqual(["hopeless", "letters"]);
  });

  it("of the data of all tasks are one error, before anything is asked", async () => {
    const { server, backend } = await vllm();
    const broken = (name: string, code: string) =>
      generateTask(1, {
        name,
        load: async () => {
          throw new LayergraftError(code, `${name} has no data`);
        },
      });
    const tasks = [generateTask(1), broken("one", "missing-data"), generateTask(0, { name: "two" })];
    await expect(run({ tasks, backend, out })).rejects.toThrow(
      "The data of 2 of 3 tasks cannot be read:\n  - one has no data\n  - two has no items",
    );
    expect(server.requests).toEqual([]);
  });

  it("of all items end the evaluation early", async () => {
    const fake = completions();
    const { server, backend } = await served((request) =>
      request.body.max_tokens === 6 ? { status: 400, json: { error: "never" } } : fake(request),
    );
    const running = run({ tasks: [generateTask(500)], backend });
    await expect(running).rejects.toThrow(/no answer to 2\d requests; the last one was refused: .*never/);
    expect(server.asked("/v1/completions").length).toBeLessThan(40);
  });

  it("of a server that goes away are an error, with what there was kept", async () => {
    const fake = completions();
    const { backend } = await served((request, count) => (count > 12 ? { status: 503 } : fake(request)));
    await expect(run({ tasks: [generateTask(40)], backend, out })).rejects.toThrow(/answered 503.*asked 3 times/);
    expect(read("answers.jsonl").split("\n").length).toBeGreaterThan(3);
    expect(readdirSync(out)).not.toContain("results.json");
    expect(readdirSync(out)).not.toContain(".layergraft-lock");
  });

  it("of tasks are errors, too", async () => {
    const { backend } = await vllm();
    const score = async (): Promise<never> => {
      throw new LayergraftError("data", "cannot judge this");
    };
    await expect(run({ tasks: [generateTask(3, { score })], backend })).rejects.toThrow("cannot judge this");
    const none = generateTask(0);
    await expect(run({ tasks: [none], backend })).rejects.toThrow(/lengths has no items/);
    const chat = { form: "chat", messages: [{ role: "user", content: "is" }], shared: 0 } as const;
    const [item] = await itemsOf(generateTask(1));
    const load = async () => ({ items: [{ ...(item as GenerateItem), prompt: chat }], notes: [] });
    await expect(run({ tasks: [generateTask(1, { load })], backend })).rejects.toThrow(
      /needs the model.s chat template/,
    );
  });
});

describe("programs", () => {
  const identity = {
    python: "3",
    network: "kernel",
    processes: "kernel",
    files: "kernel",
    isolation: "kernel",
    memory: "kernel",
    seconds: 3,
    memoryBytes: 1,
  } as const;
  const programs = (count: number) =>
    generateTask(count, {
      executes: true,
      score: async (_, reading, { executor, signal } = {}) => {
        const done = await executor?.run([{ name: "program", source: String(reading.length) }], { signal });
        return { even: done?.outcome === "passed" ? 1 : 0 };
      },
      metrics: [{ name: "even", title: "pass", of: "even", by: "mean", scale: "share" }],
    });

  it("are executed only in a sandbox", async () => {
    const { server, backend } = await vllm();
    const refused = { code: "usage", where: { option: "allowCode" } };
    await expect(run({ tasks: [programs(2)], backend, out })).rejects.toMatchObject(refused);
    expect(server.requests).toEqual([]);
  });

  it("are executed once, a few at a time, and told in the samples", async () => {
    const { backend } = await vllm();
    let running = 0;
    const most = { atOnce: 0, runs: 0 };
    const sandbox = {
      identity,
      async run([part]: readonly { source: string }[]) {
        most.runs++;
        most.atOnce = Math.max(most.atOnce, ++running);
        await new Promise((resolve) => setTimeout(resolve, 2));
        running--;
        return Number(part?.source) % 2 === 0
          ? { outcome: "passed", detail: "" }
          : { outcome: "timeout", detail: "it took longer" };
      },
    };
    const { results, samples } = await run({ tasks: [programs(12)], backend, sandbox, out });
    const executions = (samples.get("lengths") ?? []).map(({ execution }) => execution?.outcome);
    expect(results.sandbox).toEqual(identity);
    expect(results.tasks[0]?.problems.executions).toEqual({
      timeout: executions.filter((outcome) => outcome === "timeout").length,
    });
    expect(most.atOnce).toBeLessThanOrEqual(4);
    expect(new Set(executions)).toEqual(new Set(["passed", "timeout"]));
    const before = most.runs;
    await run({ tasks: [programs(12)], backend, sandbox, out, resume: true });
    expect(most.runs).toBe(before);
  });
});

/** When a process began, as its lock says it. */
function bornOf(pid: number): string {
  if (!existsSync(`/proc/${pid}/stat`)) return "";
  const line = readFileSync(`/proc/${pid}/stat`, "utf8");
  return line.slice(line.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

describe("a stopped evaluation", () => {
  const tasks = () => [generateTask(30), chooseTask(8)];

  it("resumes to the same files, byte for byte, and asks nothing twice", async () => {
    const whole = await vllm();
    await run({ tasks: tasks(), backend: whole.backend, out: `${out}-whole` });

    const { server, backend } = await vllm();
    for (const after of [3, 11, 5]) {
      const controller = new AbortController();
      let told = 0;
      const stopping = run({
        tasks: tasks(),
        backend,
        out,
        resume: true,
        signal: controller.signal,
        onProgress: ({ itemsPerSecond }) => {
          if (itemsPerSecond !== undefined && ++told >= after) controller.abort();
        },
      });
      await expect(stopping).rejects.toThrow(CancelledError);
      // As a kill in the middle of writing leaves it.
      appendFileSync(join(out, "answers.jsonl"), '["0123456789abcdef0123456789abcdef",{"te');
    }
    const kept = read("answers.jsonl").split("\n").length - 1;
    const { results } = await run({ tasks: tasks(), backend, out, resume: true });
    expect(files(out)).toEqual(files(`${out}-whole`));
    expect(JSON.parse(read("run.json"))).toMatchObject({ kept });
    expect(await readResults(out)).toEqual(results);
    const asked = server.asked("/v1/completions").map((body) => JSON.stringify(body));
    // Those under way when it was stopped had no answer yet: at most one for each place, each time.
    expect(asked.length - new Set(asked).size).toBeLessThanOrEqual(3 * 4);
    const again = server.requests.length;
    await run({ tasks: tasks(), backend, out, resume: true });
    const generations = server.requests.slice(again).filter(({ path }) => path === "/v1/completions");
    expect(generations).toEqual([]);
  });

  it("asks again for what is damaged, says so, and ends with the same files", async () => {
    const { backend } = await vllm();
    await run({ tasks: [generateTask(3)], backend, out });
    const whole = files(out);
    const file = join(out, "answers.jsonl");
    const [first = "", second = "", ...rest] = readFileSync(file, "utf8").split("\n");
    const [key] = JSON.parse(second) as [string];
    writeFileSync(file, [first, JSON.stringify([key, { text: 5, finish: {} }]), ...rest].join("\n"));
    const notes: string[] = [];
    await run({ tasks: [generateTask(3)], backend, out, resume: true, onNote: (note) => notes.push(note) });
    expect(notes).toEqual(["1 damaged line of answers.jsonl removed; what it answered is asked again"]);
    expect(files(out)).toEqual(whole);
  });

  it("keeps the time of its start, which chat templates may write", async () => {
    const asked: (Date | undefined)[] = [];
    const { backend } = await vllm();
    const dated: Backend = {
      ...backend,
      renderChat: async ([message], now) => {
        asked.push(now);
        return `${message?.content}, today is ${now?.toISOString()}`;
      },
    };
    const chat = generateTask(2, {
      load: async () => ({
        items: ["a", "b"].map((id) => ({
          ...{ kind: "generate", id, gold: "even", stop: [], maxNewTokens: 4 },
          prompt: { form: "chat", shared: 0, messages: [{ role: "user", content: id }] },
        })),
        notes: [],
      }),
    } as Partial<Task>);
    const [first, later] = [new Date("2026-01-31T12:00:00Z"), new Date("2026-03-01T12:00:00Z")];
    await run({ tasks: [chat], backend: dated, out, now: first });
    await run({ tasks: [chat], backend: dated, out, now: later, resume: true });
    expect(asked).toEqual([first, first, first, first]);
    expect(JSON.parse(read("run.json"))).toMatchObject({ started: wallClock(first), kept: 2 });
    await run({ tasks: [chat], backend: dated, now: later });
    expect(asked.slice(4)).toEqual([later, later]);
  });

  it("is not resumed with other settings, nor without resume", async () => {
    const { backend } = await vllm();
    await run({ tasks: [generateTask(3)], backend, out });
    const before = files(out);
    await expect(run({ tasks: [generateTask(3)], backend, out })).rejects.toMatchObject({
      where: { option: "resume" },
    });
    const resume = { backend, out, resume: true };
    await expect(run({ ...resume, tasks: [generateTask(3)], seed: 1 })).rejects.toThrow(
      /settings\.seed was 0 and is 1/,
    );
    await expect(run({ ...resume, tasks: [generateTask(4)] })).rejects.toThrow(/tasks\.lengths\.promptsDigest was/);
    await expect(run({ ...resume, tasks: [generateTask(3)], source: "x" })).rejects.toThrow(OutputError);
    expect(files(out)).toEqual(before);
  });

  it.skipIf(process.platform === "win32")("is not resumed where its settings are a device without end", async () => {
    const { backend } = await vllm();
    mkdirSync(out, { recursive: true });
    symlinkSync("/dev/zero", join(out, "settings.json"));
    const again = run({ tasks: [generateTask(3)], backend, out, resume: true });
    await expect(again).rejects.toThrow(/other settings, which cannot be resumed: its settings\.json is not JSON/);
  });

  it("is left alone while another run writes it, but not by one that is dead", async () => {
    const { backend } = await vllm();
    await run({ tasks: [generateTask(3)], backend, out });
    const lock = join(out, ".layergraft-lock");
    const other = { host: hostname(), pid: process.ppid, born: bornOf(process.ppid) };
    writeFileSync(lock, JSON.stringify(other));
    const again = () => run({ tasks: [generateTask(3)], backend, out, resume: true });
    await expect(again()).rejects.toThrow(/is locked by process \d+ on/);
    writeFileSync(lock, JSON.stringify({ ...other, pid: 999_999_999 }));
    await again();
    expect(readdirSync(out)).not.toContain(".layergraft-lock");
  });

  it("resumes what was killed before it had settings", async () => {
    const { backend } = await vllm();
    mkdirSync(out);
    for (const name of [".layergraft-lock.0a1b.tmp", "settings.json.0a1b.tmp", "server.log"]) {
      writeFileSync(join(out, name), "");
    }
    await run({ tasks: [generateTask(3)], backend, out, resume: true });
    expect(readdirSync(out)).toContain("results.json");
  });

  it("is not begun in a folder of something else", async () => {
    const { backend } = await vllm();
    mkdirSync(out);
    writeFileSync(join(out, "thesis.tex"), "");
    await expect(run({ tasks: [generateTask(3)], backend, out, resume: true })).rejects.toThrow(
      /is not empty and has no evaluation in it, but thesis\.tex/,
    );
    await expect(run({ tasks: [generateTask(3)], backend, out: join(out, "thesis.tex") })).rejects.toThrow(
      /is not a folder/,
    );
  });
});
