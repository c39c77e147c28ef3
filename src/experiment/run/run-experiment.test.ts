// @module-tag slow
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { fakeFacts, ITEMS } from "../../../test/support/fake-world.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "../execute/executor.js";
import { parsePlan } from "../plan/plan-file.js";
import { type StepResult, writeResult } from "../steps/result.js";
import { readAttempt, type StepOrder } from "../steps/step-state.js";
import { type RunEvent, type RunOptions, runExperiment } from "./run-experiment.js";
import { StoredSteps } from "./stored-steps.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-runner-"));
afterAll(() => rmSync(root, { recursive: true }));
let out = "";
let count = 0;
beforeEach(() => {
  out = join(root, `${count++}`);
});

const PLAN = `
name: small
base: base
experts:
  math: { role: task, train: { run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1.0e-5 } }, seeds: [1, 2] } }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: swap, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2], top: [0, 1] } }
evaluate: { tasks: ["mgsm_{language}"] }
`;

/** Ends steps at once, or as a test decides. */
class FakeExecutor implements Executor {
  readonly started: string[] = [];
  readonly orders: StepOrder[] = [];
  stopped = 0;
  readonly #events: ExecutorEvents;
  readonly #fate: (step: ReadyStep, times: number) => Outcome | "never";
  readonly #times = new Map<string, number>();

  constructor(events: ExecutorEvents, fate: (step: ReadyStep, times: number) => Outcome | "never") {
    this.#events = events;
    this.#fate = fate;
  }

  fitting({ length }: readonly unknown[]): number {
    return Math.min(3, length);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    for (const step of steps) {
      this.started.push(step.label);
      const order = JSON.parse(readFileSync(join(step.folder, "step.json"), "utf8")) as StepOrder;
      this.orders.push(order);
      await this.#events.onStarted(step.key, { kind: "local", host: "here", pid: 1 });
      const times = (this.#times.get(step.key) ?? 0) + 1;
      this.#times.set(step.key, times);
      const fate = this.#fate(step, times);
      if (fate === "never") continue;
      if (fate.outcome === "done") await writeResult(step.folder, resultOf(order));
      setImmediate(() => this.#events.onFinished({ ...fate, key: step.key }));
    }
  }

  async adopt(): Promise<ReadonlySet<string>> {
    return new Set();
  }
  async stop(): Promise<void> {
    this.stopped++;
  }
  async close(): Promise<void> {}
}

function resultOf({ step }: StepOrder): StepResult {
  if (step.kind === "train") return { kind: "train", checkpoints: [{ path: "run/checkpoint-10", samples: 10 }] };
  if (step.kind === "analyze") return { kind: "analyze", suggested: [] };
  if (step.kind === "merge") return { kind: "merge" };
  if (step.kind === "verb") return { kind: "verb", figures: [] };
  const places = step.items ?? Array.from({ length: ITEMS }, (_, i) => i);
  return { kind: "evaluate", score: 0.5, items: places.map((index) => ({ index, id: `${index}`, value: index % 2 })) };
}

const DONE: Outcome = { outcome: "done", seconds: 1 };

function run(
  fate: (step: ReadyStep, times: number) => Outcome | "never" = () => DONE,
  more: Partial<RunOptions> = {},
): { executor: () => FakeExecutor; summary: ReturnType<typeof runExperiment> } {
  let executor: FakeExecutor | undefined;
  const summary = runExperiment({
    known: new StoredSteps([{ title: "", values: {}, plan: parsePlan(PLAN) }], fakeFacts, out),
    attempts: 3,
    settings: () => ({ folder: "/plans", allowCode: false }),
    executor: (events) => {
      executor = new FakeExecutor(events, fate);
      return executor;
    },
    ...more,
  });
  return { executor: () => executor as FakeExecutor, summary };
}

describe("a run", () => {
  it("expands a plan that is done once, for every look at it", async () => {
    await run().summary;
    const plan = parsePlan(PLAN);
    let count = 0;
    const variant = {
      ...{ title: "", values: {} },
      get plan() {
        count++;
        return plan;
      },
    };
    const known = new StoredSteps([variant], fakeFacts, out);
    const { expansion } = await known.read();
    expect(expansion.waiting).toEqual([]);
    const again = run(undefined, { known });
    expect(await again.summary).toMatchObject({ counts: { done: expansion.steps.length, left: 0 }, expansion });
    expect(again.executor().started).toEqual([]);
    expect((await known.read()).expansion).toBe(expansion);
    expect(count).toBe(1);
  });

  it("runs every step once, after the steps it needs", async () => {
    const first = run();
    const { counts, failures } = await first.summary;
    expect(failures).toEqual([]);
    // 2 trainings; base, 3 experts; 2 pairs in 4 configurations on the search's items, and the default, which is also the
    // best here, on the others.
    expect(counts).toEqual({ done: 2 + 4 + 2 * 4 + 2, running: 0, failed: 0, left: 0, waiting: 0 });
    const { started, orders } = first.executor();
    expect(new Set(orders.map(({ step }) => step.key)).size).toBe(started.length);
    expect(started.indexOf("train math-1")).toBeLessThan(started.indexOf("evaluate math-1 on mgsm_sw"));
    const merged = orders.find(({ step }) => step.label.startsWith("evaluate swap, math-2"));
    const trained = orders.find(({ step }) => step.label === "train math-2")?.step.key;
    expect(Object.values(merged?.folders ?? {})).toContain(join(out, "steps", trained ?? "", "run/checkpoint-10"));

    const second = run();
    expect((await second.summary).counts.done).toBe(16);
    expect(second.executor().started).toEqual([]);
  });

  it("reports scores, and counts steps that depend on results", async () => {
    const events: { event: RunEvent; all: number }[] = [];
    await run(() => DONE, {
      onEvent: (event, { done, running, left, waiting }) =>
        events.push({ event, all: done + running + left + waiting }),
    }).summary;
    const ends = events.flatMap(({ event }) => (event.event === "done" ? [event] : []));
    expect(ends).toHaveLength(16);
    for (const { kind, score } of ends) expect(score).toBe(kind === "evaluate" ? 0.5 : undefined);
    // An evaluation is of a model and a task of the plan; a training is of neither.
    const of = (start: string) => ends.find(({ label }) => label.startsWith(start));
    expect(of("evaluate base on mgsm_sw")).toMatchObject({
      ...{ model: { name: "base", entry: "base", configuration: "" }, task: "mgsm_sw" },
    });
    expect(of("evaluate math-2 on")?.model).toEqual({ name: "math-2", entry: "math", configuration: "" });
    const swapped = ends.flatMap(({ model }) => (model?.entry === "swap" ? [model] : []));
    expect(swapped).toHaveLength(2 * 4 + 2);
    for (const { name, configuration } of swapped) {
      expect(configuration).toMatch(/^bottom \d, top \d$/);
      expect(name).toMatch(new RegExp(`^swap, math-[12] x swahili-1, ${configuration}$`));
    }
    expect(of("train math-1")).not.toHaveProperty("model");
    expect(events[0]?.all).toBeGreaterThan(10);
    expect(events.at(-1)?.all).toBe(16);
  });

  it("runs steps that do not depend on a failed one, and retries that in the next run", async () => {
    const first = run(({ label }) =>
      label === "train math-2" ? { outcome: "failed", reason: "diverged", seconds: 3 } : DONE,
    );
    const { counts, failures } = await first.summary;
    expect(failures).toEqual([{ label: "train math-2", reason: "diverged" }]);
    expect(counts).toMatchObject({ failed: 1, left: 0 });
    expect(counts.waiting).toBeGreaterThan(0);
    expect(first.executor().started).toContain("evaluate math-1 on mgsm_sw");
    const [train] = first.executor().orders.filter(({ step }) => step.label === "train math-2");
    const folder = join(out, "steps", train?.step.key ?? "");
    expect(await readAttempt(folder)).toEqual({ state: "failed", reason: "diverged" });

    const second = run();
    expect((await second.summary).counts).toMatchObject({ failed: 0, left: 0, waiting: 0 });
    expect(second.executor().started[0]).toBe("train math-2");
    expect(second.executor().started).not.toContain("evaluate math-1 on mgsm_sw");
    expect(await readAttempt(folder)).toBeUndefined();
  });

  it("retries lost steps up to the limit", async () => {
    const twice = run(({ label }, times) =>
      label === "train math-1" && times < 3 ? { outcome: "lost", reason: "node failed" } : DONE,
    );
    expect((await twice.summary).failures).toEqual([]);
    expect(twice.executor().started.filter((label) => label === "train math-1")).toHaveLength(3);

    out = join(root, "always");
    const always = run(({ label }) => (label === "train math-1" ? { outcome: "lost", reason: "node failed" } : DONE));
    expect((await always.summary).failures).toEqual([{ label: "train math-1", reason: "node failed; tried 3 times" }]);
  });

  it("fails a step that ends without a result", async () => {
    const { summary } = run(({ label, folder }) => {
      if (label !== "evaluate base on mgsm_sw") return DONE;
      rmSync(join(folder, "result.json"), { force: true });
      return { outcome: "lost", reason: "gone" };
    });
    expect((await summary).failures).toEqual([{ label: "evaluate base on mgsm_sw", reason: "gone; tried 3 times" }]);
  });

  it("stops and resumes", async () => {
    const controller = new AbortController();
    const first = run(({ label }) => (label === "evaluate swahili-1 on mgsm_sw" ? "never" : DONE), {
      signal: controller.signal,
      onEvent: ({ event, label }) => {
        if (event === "started" && label === "evaluate swahili-1 on mgsm_sw") setTimeout(() => controller.abort(), 20);
      },
    });
    await expect(first.summary).rejects.toThrow(
      /stopped; \d+ steps are done and (about )?[1-9]\d* left\. Run it again to resume/,
    );
    expect(first.executor().stopped).toBe(1);
    // Its attempt is running, but its runner is gone.
    const second = run();
    const { counts } = await second.summary;
    expect(counts).toMatchObject({ done: 16, left: 0, waiting: 0 });
    expect(second.executor().started).toContain("evaluate swahili-1 on mgsm_sw");
  });

  it("finds a result of a killed runner, and computes a deleted one again", async () => {
    const first = run();
    await first.summary;
    const [order] = first.executor().orders.filter(({ step }) => step.kind === "train");
    const folder = join(out, "steps", order?.step.key ?? "");
    const running = {
      state: "running",
      since: "2026-01-01T00:00:00Z",
      runner: { kind: "local", host: "here", pid: 1 },
    };
    writeFileSync(join(folder, "attempt.json"), JSON.stringify(running));
    const second = run();
    await second.summary;
    expect(second.executor().started).toEqual([]);

    rmSync(folder, { recursive: true });
    const third = run();
    await third.summary;
    expect(third.executor().started).toEqual([order?.step.label]);
    // The date of its templates is the experiment's.
    const starts = [...first.executor().orders, ...third.executor().orders].map(({ settings }) => settings.started);
    expect(new Set(starts)).toEqual(new Set([expect.stringMatching(/^\d{4}-\d\d-\d\dT/)]));
  });

  it("takes over a Slurm job of an earlier runner", async () => {
    const first = run();
    await first.summary;
    const [order] = first.executor().orders;
    if (!order) throw new Error("nothing ran");
    const folder = join(out, "steps", order.step.key);
    rmSync(join(folder, "result.json"));
    const job = { state: "running", since: "2026-01-01T00:00:00Z", runner: { kind: "slurm", job: "12_3" } };
    writeFileSync(join(folder, "attempt.json"), JSON.stringify(job));
    const adopted: unknown[] = [];
    const adopt =
      (events: ExecutorEvents): Executor["adopt"] =>
      async (steps) => {
        for (const { step, runner } of steps) {
          adopted.push([step.label, runner]);
          await writeResult(step.folder, resultOf(order));
          setImmediate(() => events.onFinished({ ...DONE, key: step.key }));
        }
        return new Set(steps.map(({ step }) => step.key));
      };
    const second = run(() => DONE, {
      executor: (events) => Object.assign(new FakeExecutor(events, () => DONE), { adopt: adopt(events) }),
    });
    expect((await second.summary).counts).toMatchObject({ left: 0, done: 16 });
    expect(adopted).toEqual([[order.step.label, { kind: "slurm", job: "12_3" }]]);
  });

  it("starts nothing after it was stopped", async () => {
    const controller = new AbortController();
    const { summary, executor } = run(() => "never", {
      signal: controller.signal,
      onEvent: ({ event }) => event === "started" && controller.abort(),
    });
    await expect(summary).rejects.toThrow("stopped");
    expect(executor().started).toHaveLength(1);
  });

  it("runs in one process at a time", async () => {
    const controller = new AbortController();
    const first = run(() => "never", { signal: controller.signal });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await expect(run().summary).rejects.toThrow(/is locked by process \d+/);
    controller.abort();
    await expect(first.summary).rejects.toThrow("stopped");
  });

  it("refuses invalid results", async () => {
    await run().summary;
    const key = readdirSync(join(out, "steps")).find((one) => one.startsWith("evaluate")) ?? "";
    writeFileSync(join(out, "steps", key, "result.json"), '{"kind":"evaluate","score":"high"}');
    await expect(run().summary).rejects.toThrow(/result\.json is not a valid step result .* Delete its folder/);
  });
});
