// @module-tag slow
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { writeInitialModel } from "../../../examples/miniature/world/untrained-model.js";
import { writeWordTokenizer } from "../../../test/support/small-world.js";
import { isLocked, takeLock } from "../../kit/files/lock.js";
import { ReadFacts } from "../check/facts-reader.js";
import { ModelPool } from "./model-pool.js";
import { type StepResult, writeResult } from "./result.js";
import { type RunStepOptions, runStepFolder } from "./run-step.js";
import type { EvaluateStep } from "./step.js";
import type { StepOrder } from "./step-state.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-step-"));
afterAll(() => rmSync(root, { recursive: true }));
const at = (...names: string[]) => join(root, ...names);
const WEIGHTS = "model.safetensors";
const KEY = "evaluate-000000000000000000000000000000";
const folder = at("experiment", "steps", KEY);
const TASK = { task: "items.yaml" };
const ITEMS = 40;

const line = (i: number, text = `asha had ${i % 9} bananas .`) => `${JSON.stringify({ text, answer: `${i % 9}` })}\n`;

beforeAll(async () => {
  await writeInitialModel(at("first"), 1, { layers: 2, width: 16, heads: 2, feedForward: 32 });
  writeFileSync(at("items.jsonl"), Array.from({ length: ITEMS }, (_, i) => line(i)).join(""));
  const task = ["task: items", "data: items.jsonl", 'prompt: "{text} [solve] :"', "answer: generate"];
  writeFileSync(at(TASK.task), [...task, 'gold: "{answer}"', "max_new_tokens: 4", "read: number", ""].join("\n"));
});

beforeEach(() => {
  rmSync(at("experiment"), { recursive: true, force: true });
  rmSync(at("model"), { recursive: true, force: true });
  cpSync(at("first"), at("model"), { recursive: true });
});

/** Writes a step that asks a model as it is now. */
async function prepare(model: string, changes: Partial<EvaluateStep> = {}, settings = {}): Promise<string> {
  const facts = new ReadFacts({ folder: root });
  await facts.readModel(model, ["base"]);
  const { request = TASK } = changes;
  await facts.readTask(request, ["evaluate"]);
  expect(facts.problems).toEqual([]);
  const { identity } = facts.modelIdentity(model);
  const { digest } = facts.task(request);
  const step: EvaluateStep = {
    ...{ kind: "evaluate", key: KEY, label: `ask ${model}`, needs: [], locations: {}, backend: "engine" },
    of: { name: model, entry: model, configuration: "" },
    ...{ model: identity, request: TASK, digest, items: null, ...changes },
  };
  const order: StepOrder = {
    step,
    folders: { [identity]: at(model) },
    settings: { folder: root, allowCode: false, threads: 1, ...settings },
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "step.json"), JSON.stringify(order));
  return identity;
}

/** Changes one bit of the last weight, in place, with size and modification time as they were. */
function flip(path: string): void {
  const { atime, mtime } = statSync(path);
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  writeFileSync(path, bytes);
  utimesSync(path, atime, mtime);
}

/** Runs the step until its first answers are there, and stops it. */
async function stopMidway(): Promise<void> {
  const controller = new AbortController();
  const onProgress: RunStepOptions["onProgress"] = (share) => share > 0 && controller.abort();
  await expect(runStepFolder(folder, { signal: controller.signal, onProgress })).rejects.toThrow();
  expect(existsSync(join(folder, "result.json"))).toBe(false);
}

const kept = () => (JSON.parse(readFileSync(join(folder, "evaluation", "run.json"), "utf8")) as { kept: number }).kept;

it("marks items whose choices are tied, which are worth their share", async () => {
  const rows = [0, 1, 2].map((right) => JSON.stringify({ text: "asha", choices: ["qqq", "xxx", "zzz"], right }));
  writeFileSync(at("quiz.jsonl"), `${rows.join("\n")}\n`);
  const task = ["task: quiz", "data: quiz.jsonl", 'prompt: "{text}"', "answer: choose", "choices: choices"];
  writeFileSync(at("quiz.yaml"), [...task, 'correct: "{right}"', ""].join("\n"));
  writeWordTokenizer(at("model"));
  await prepare("model", { request: { task: "quiz.yaml" } });
  const result = await runStepFolder(folder);
  expect(result).toMatchObject({ score: 1 / 3, unscored: 0 });
  expect("items" in result && result.items.map(({ value, tied }) => [value, tied])).toEqual(
    rows.map(() => [1 / 3, true]),
  );
});

describe("a step that was stopped", () => {
  it("resumes after its model was renamed and moved", async () => {
    await prepare("model");
    await stopMidway();
    renameSync(at("model"), at("moved"));
    try {
      await prepare("moved", { label: "ask mOne" });
      expect(await runStepFolder(folder)).toMatchObject({ kind: "evaluate", unscored: 0 });
      expect(kept()).toBeGreaterThan(0);
    } finally {
      renameSync(at("moved"), at("model"));
    }
  });

  it("counts the seconds of all attempts", async () => {
    await prepare("model");
    await stopMidway();
    const worked = join(folder, "worked.txt");
    expect(Number(readFileSync(worked, "utf8"))).toBeGreaterThan(0);
    // Of an attempt that was killed, what it left last.
    writeFileSync(worked, "1000.5");
    const { seconds = 0 } = await runStepFolder(folder);
    expect(seconds).toBeGreaterThan(1000.5);
    expect(seconds).toBeLessThan(2000);
  });

  it("restarts if it was begun with other settings", async () => {
    await prepare("model");
    await stopMidway();
    const settings = join(folder, "evaluation", "settings.json");
    const before = JSON.parse(readFileSync(settings, "utf8")) as object;
    writeFileSync(settings, JSON.stringify({ ...before, layergraft: "0.0.0" }));
    expect(await runStepFolder(folder)).toMatchObject({ kind: "evaluate" });
    expect(kept()).toBe(0);
  });
});

describe("inputs of a step", () => {
  it("must be the model that was identified", async () => {
    await prepare("model");
    flip(at("model", WEIGHTS));
    await expect(runStepFolder(folder)).rejects.toThrow(
      /model changed since the experiment was started or resumed\. Run it again/,
    );
    expect(existsSync(join(folder, "evaluation"))).toBe(false);
  });

  it("must stay the same to the end, or the result is not kept", async () => {
    await prepare("model");
    const models = new ModelPool();
    let flips = 0;
    const onProgress: RunStepOptions["onProgress"] = () => {
      if (flips++ === 0) flip(at("model", WEIGHTS));
    };
    await expect(runStepFolder(folder, { models, onProgress })).rejects.toThrow(
      /model changed while the step ran, so its result was discarded/,
    );
    expect(existsSync(join(folder, "result.json"))).toBe(false);
    expect(existsSync(join(folder, "evaluation"))).toBe(false);
    // The model that is open is not the one that was identified.
    flip(at("model", WEIGHTS));
    const again = await runStepFolder(folder, { models });
    expect(again.kind === "evaluate" && again.openSeconds).toBeGreaterThan(0);
    await models.close();
  });

  it("must be the items that were identified", async () => {
    await prepare("model");
    const before = readFileSync(at("items.jsonl"), "utf8");
    writeFileSync(at("items.jsonl"), before.replace("asha had 3", "asha has 3"));
    try {
      await expect(runStepFolder(folder)).rejects.toThrow(
        /the items of items changed since the experiment was started/,
      );
    } finally {
      writeFileSync(at("items.jsonl"), before);
    }
    expect(await runStepFolder(folder)).toMatchObject({ kind: "evaluate" });
  });
});

describe("a result", () => {
  it("counts items without an answer as wrong", async () => {
    const before = readFileSync(at("items.jsonl"), "utf8");
    writeFileSync(at("items.jsonl"), before.replace(line(3), line(3, "bananas ".repeat(30_000))));
    try {
      await prepare("model", { items: [2, 3, 4] });
      const said: string[] = [];
      const result = await runStepFolder(folder, { onProgress: (_, what) => said.push(what) });
      expect(result).toMatchObject({ kind: "evaluate", unscored: 0, items: [{ index: 2 }, { value: 0 }, {}] });
      expect(said.at(-1)).toMatch(/, 1 unanswered$/);
      await prepare("model", { items: [3] });
      rmSync(join(folder, "result.json"));
      rmSync(join(folder, "evaluation"), { recursive: true });
      await expect(runStepFolder(folder)).rejects.toThrow(/no answer to 1 request; the last one was refused/);
    } finally {
      writeFileSync(at("items.jsonl"), before);
    }
  });

  it("may have one item", async () => {
    await prepare("model", { items: [3] });
    expect(await runStepFolder(folder)).toMatchObject({ items: [{ index: 3 }] });
  });
});

describe("a step that another process runs", () => {
  it("is waited for while that process lives", async () => {
    await prepare("model");
    const other = await takeLock(folder);
    const result: StepResult = { kind: "evaluate", score: 1, items: [{ index: 0, id: "1", value: 1 }] };
    const said: string[] = [];
    const onProgress = (_: number, what: string) => {
      said.push(what);
      void writeResult(folder, result).then(() => other.release());
    };
    expect(await runStepFolder(folder, { onProgress })).toEqual(result);
    expect(said).toEqual(["waiting for another process that runs this step"]);
  });

  it("keeps its lock if the waiting process is stopped", async () => {
    await prepare("model");
    const other = await takeLock(folder);
    await expect(runStepFolder(folder, { signal: AbortSignal.abort() })).rejects.toThrow(
      "stopped while another process ran this step",
    );
    expect(await isLocked(folder)).toBe(true);
    await other.release();
  });
});
