// What tests of whole evaluations share: a folder for each test, servers with the toy model behind them, tasks that it answers.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import type { Backend } from "../../src/evaluate/backends/backend.js";
import { openOpenAI } from "../../src/evaluate/backends/openai.js";
import { type EvaluateOptions, evaluate } from "../../src/evaluate/evaluate.js";
import type { ChooseItem, GenerateItem, Item, Task } from "../../src/evaluate/tasks/open-tasks.js";
import {
  type CompletionsOptions,
  completions,
  type FakeReply,
  type FakeRequest,
  type FakeServer,
  fakeServer,
} from "./fake-chat-server.js";
import * as toy from "./toy-model.js";

export let root = "";
export let out = "";
export const open: { close(): unknown }[] = [];

/** Gives each test of a file a folder `out`, and closes what it opened. Files share this module, so each one calls it. */
export function setUpEvaluations(): void {
  let number = 0;
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "layergraft-run-"));
  });
  beforeEach(() => {
    out = join(root, `out${number++}`);
  });
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));
}

export async function served(
  answer: (request: FakeRequest, count: number) => FakeReply,
  delay = 0,
): Promise<{ server: FakeServer; backend: Backend }> {
  const server = await fakeServer(answer, delay);
  open.push(server);
  const backend = await openOpenAI({ url: server.url, backoff: 0.01, retries: 2, concurrency: 4 });
  open.unshift(backend);
  server.requests.splice(0);
  return { server, backend };
}
export const vllm = (options: CompletionsOptions = {}) => served(completions(options));

export const PROTOCOL = {
  name: "test/plain",
  version: 2,
  summary: "",
  reference: "",
  shots: { default: 1, most: 1 },
  specialTokens: true,
};
/** The toy model sees the last token alone, so that is what makes items differ. */
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
export const SHARED = "Question: the Answer: is\n";

/** What the toy model says of each item is right if it has an even number of characters. */
export function generateTask(count: number, more: Partial<Task> = {}): Task {
  const items = Array.from(
    { length: count },
    (_, i): GenerateItem => ({
      kind: "generate",
      id: `g${i}`,
      group: i % 2 === 0 ? "even" : "odd",
      prompt: { form: "text", shared: SHARED, own: `Question: ${i * 7}\nAnswer:${LETTERS[i % 26]}` },
      gold: "even",
      stop: ["\n"],
      maxNewTokens: 6,
    }),
  );
  return {
    name: "lengths",
    title: "Lengths",
    protocol: PROTOCOL,
    shots: 1,
    metrics: [
      { name: "even", title: "even length", of: "even", by: "mean", scale: "share" },
      { name: "sum", title: "length", of: "length", by: "corpus", scale: "points", score: ([sum = 0]) => sum },
    ],
    executes: false,
    load: async (_, { limit } = {}) => ({ items: items.slice(0, limit), notes: ["made up"] }),
    read: (_, output) => ({ length: (output as string).length }),
    score: async (_, { length }) => ({ even: (length as number) % 2 === 0 ? 1 : 0, length: [length as number] }),
    ...more,
  };
}

export const CHOICES = [" A", " B", " C", " D"];
export function chooseTask(count: number, choices = CHOICES): Task {
  const items = Array.from(
    { length: count },
    (_, i): ChooseItem => ({
      kind: "choose",
      id: `c${i}`,
      prompt: {
        form: "text",
        shared: SHARED,
        own: `Question: ${"abc".repeat(i + 1)}\nAnswer${i % 2 === 0 ? ":" : "Z"}`,
      },
      gold: "B",
      choices,
      labels: choices.map((choice) => choice.trim()),
      correct: 1,
    }),
  );
  return {
    name: "letters",
    title: "Letters",
    protocol: PROTOCOL,
    shots: 1,
    metrics: [{ name: "accuracy", title: "accuracy", of: "accuracy", by: "mean", scale: "share" }],
    executes: false,
    load: async () => ({ items, notes: [] }),
    read: (_, output) => {
      const values = output as (number | null)[];
      return values.includes(null) ? {} : { choice: values.indexOf(Math.max(...(values as number[]))) };
    },
    score: async (item, { choice }) =>
      choice === undefined ? undefined : { accuracy: choice === (item as ChooseItem).correct ? 1 : 0 },
  };
}

export const promptOf = ({ prompt }: Item): string => (prompt.form === "text" ? prompt.shared + prompt.own : "");
export async function itemsOf(task: Task): Promise<readonly Item[]> {
  return (await task.load({})).items;
}
export const logprobsOf = (item: Item, choices = CHOICES): number[] => {
  const last = toy.encode(promptOf(item)).at(-1) ?? 0;
  return choices.map((choice) => toy.nextLogprobs(last)[toy.encode(choice)[0] ?? 0] ?? Number.NaN);
};

export const run = (options: Partial<EvaluateOptions> & Pick<EvaluateOptions, "tasks" | "backend">) =>
  evaluate({ data: {}, source: "toy model", resamples: 50, ...options });
export const read = (name: string, folder = out): string => readFileSync(join(folder, name), "utf8");
export const files = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder)
      .filter((name) => name !== "run.json" && name !== "answers.jsonl")
      .map((name) => [name, read(name, folder)]),
  );
