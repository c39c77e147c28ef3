import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { StepKind } from "../steps/step.js";
import type { Finished } from "./executor.js";
import { LocalExecutor, workersOf } from "./local.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-local-"));
afterAll(() => rmSync(root, { recursive: true }));
const program = join(root, "worker.mjs");
writeFileSync(
  program,
  `process.on("message", ({ id, input: folder }) => {
     if (folder === "die") process.kill(process.pid, "SIGKILL");
     else if (folder === "leave") process.exit(3);
     else if (folder === "fail") process.send({ id, value: { outcome: "failed", reason: "no such tensor", seconds: 0.5 } });
     else if (folder !== "hang") {
       process.send({ id, event: { share: 0.5, what: String(process.pid) } });
       process.send({ id, value: { outcome: "done", seconds: 1 } });
     }
   });`,
);

let executor: LocalExecutor | undefined;
afterEach(() => executor?.close());

function open(workers = 2) {
  const finished: Finished[] = [];
  const started: string[] = [];
  const pids: string[] = [];
  let heard: () => void = () => undefined;
  executor = new LocalExecutor(
    { program, total_cores: workers },
    {
      onStarted: async (key, runner) => {
        started.push(`${key} ${runner.kind}`);
      },
      onFinished: (one) => {
        finished.push(one);
        heard();
      },
      onProgress: (_, __, what) => pids.push(what),
    },
  );
  const until = async (count: number) => {
    while (finished.length < count) {
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
  };
  return { executor, finished, started, pids, until };
}

const step = (folder: string) => ({ key: folder, kind: "evaluate" as const, label: folder, folder });

describe("local workers", () => {
  it("run one step after another", async () => {
    const { executor, finished, started, pids, until } = open(1);
    expect(executor.fitting(["evaluate", "evaluate"])).toBe(1);
    await executor.start([step("one")]);
    await until(1);
    expect(executor.fitting(["evaluate", "evaluate"])).toBe(1);
    await executor.start([step("two")]);
    await until(2);
    expect(finished).toEqual([
      { key: "one", outcome: "done", seconds: 1 },
      { key: "two", outcome: "done", seconds: 1 },
    ]);
    expect(started).toEqual(["one local", "two local"]);
    expect(new Set(pids).size).toBe(1); // the same process
  });

  it("lose their step when they die, and are replaced; errors of steps are failures", async () => {
    const { executor, finished, until } = open();
    await executor.start([step("die"), step("fail")]);
    await until(2);
    await executor.start([step("leave"), step("good")]);
    await until(4);
    expect(finished.find(({ key }) => key === "die")).toEqual({
      key: "die",
      outcome: "lost",
      reason: "its process was ended by SIGKILL, perhaps for lack of memory",
    });
    expect(finished.find(({ key }) => key === "fail")).toEqual({
      ...{ key: "fail", outcome: "failed", reason: "no such tensor", seconds: 0.5 },
    });
    expect(finished.find(({ key }) => key === "leave")).toMatchObject({
      outcome: "lost",
      reason: "its process exited with code 3",
    });
    expect(finished.find(({ key }) => key === "good")).toMatchObject({ outcome: "done" });
  });

  it("stop", async () => {
    const { executor, finished } = open();
    await executor.start([step("hang"), step("hang")]);
    expect(executor.fitting(["evaluate"])).toBe(0);
    await executor.stop();
    expect(finished).toEqual([
      { key: "hang", outcome: "lost", reason: "stopped" },
      { key: "hang", outcome: "lost", reason: "stopped" },
    ]);
  });
});

describe("how many run at once", () => {
  it("is limited by cores and memory, and is at least one", () => {
    expect(workersOf({ total_cores: 8, cores: 2 })).toBe(4);
    expect(workersOf({ total_cores: 8, cores: 2, total_memory: 30e9, memory: 16e9 })).toBe(1);
    expect(workersOf({ total_cores: 8, total_memory: 100e9, memory: 16e9 })).toBe(6);
    expect(workersOf({ total_cores: 2, cores: 4 })).toBe(1);
  });

  it("follows what each kind of step needs; one that needs more than there is runs alone", () => {
    const events = { onStarted: async () => undefined, onFinished: () => undefined };
    const resources = (kind: StepKind) => (kind === "train" ? { cores: 2, memory: 4e9 } : { cores: 4, memory: 6e9 });
    const on = (total_cores: number, total_memory = 100e9) =>
      new LocalExecutor({ total_cores, total_memory, resources }, events);
    expect(on(16).fitting(Array(9).fill("train"))).toBe(8);
    expect(on(16).fitting(["evaluate", "train", "train", "evaluate", "evaluate", "train"])).toBe(5);
    expect(on(16, 9e9).fitting(["train", "train", "train"])).toBe(2);
    expect(on(2).fitting(["evaluate", "train"])).toBe(1);
    expect(on(2).fitting([])).toBe(0);
  });
});
