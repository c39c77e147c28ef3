import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { takeLock } from "../../kit/files/lock.js";
import type { Finished, ReadyStep } from "./executor.js";
import { SlurmExecutor, type SlurmOptions } from "./slurm.js";
import { commandRunner } from "./slurm-commands.js";
import { EXIT_AGAIN } from "./slurm-text.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-slurm-"));
afterAll(() => rmSync(root, { recursive: true }));

const RESULTS = {
  evaluate: { kind: "evaluate", items: [{ index: 0, id: "1", value: 0.5 }], score: 0.5 },
  train: { kind: "train", checkpoints: [{ path: "run/checkpoint-1", samples: 1 }] },
  analyze: { kind: "analyze", suggested: [] },
};

let stepCount = 0;
function makeStep(kind: ReadyStep["kind"] = "evaluate"): ReadyStep {
  const folder = join(root, `step ${stepCount++}`);
  mkdirSync(folder, { recursive: true });
  return { key: `key-${stepCount}`, kind, label: "a step", folder };
}

/** A cluster: the state of each task, and the commands it got. */
class FakeSlurm {
  readonly commands: string[][] = [];
  /** By task, what squeue shows; a task that is absent is gone. */
  readonly queue = new Map<string, string>();
  accounts = "";
  isDown = false;
  /** By job, its script. */
  readonly scripts = new Map<string, string>();
  #next = 100;

  run = async (program: string, args: readonly string[]): Promise<string> => {
    this.commands.push([program, ...args]);
    if (program === "sbatch") {
      const id = this.#next++;
      this.scripts.set(`${id}`, args[1] ?? "");
      this.queue.set(`${id}`, "PENDING");
      return `${id}\n`;
    }
    if (program === "squeue") {
      if (this.isDown)
        throw Object.assign(new Error("failed"), {
          stderr: "slurm_load_jobs error: Unable to contact slurm controller",
        });
      // With --user, no job is no error, and no line.
      if (!args.some((arg) => arg.startsWith("--user="))) throw new Error("Invalid job id specified");
      return [...this.queue].map(([id, state]) => `${id}|${state}|${this.scripts.get(id)}`).join("\n");
    }
    if (program === "sacct") {
      if (this.accounts === "") throw new Error("Slurm accounting storage is disabled");
      return this.accounts;
    }
    return "";
  };

  /** Ends a task: its script writes the exit code. */
  end(task: string, { folder, kind }: ReadyStep, code: number): void {
    if (code === 0) writeFileSync(join(folder, "result.json"), JSON.stringify(RESULTS[kind as keyof typeof RESULTS]));
    writeFileSync(
      join(folder, "exit.json"),
      JSON.stringify({ code, host: "node1", job: task, began: 100, ended: 160 }),
    );
    this.queue.delete(task);
  }
}

function open(slurm: FakeSlurm, options: Partial<SlurmOptions> = {}) {
  const finished: Finished[] = [];
  const started: string[] = [];
  const said: string[] = [];
  const executor = new SlurmExecutor(
    {
      ...{ name: "test", maxJobs: 10, command: ["node", "job.js"], pollSeconds: 0.01 },
      ...{ resources: () => ({ cores: 2 }), run: slurm.run, maxMissed: 3, ...options },
    },
    {
      onStarted: async (key, runner) => {
        if (runner.kind === "slurm") started.push(`${key} ${runner.job}`);
      },
      onFinished: (one) => finished.push(one),
      onProgress: (_, __, what) => said.push(what),
    },
  );
  const until = async (count: number) => {
    for (let i = 0; i < 300 && finished.length < count; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(finished).toHaveLength(count);
  };
  return { executor, finished, started, said, until };
}

describe("the executor", () => {
  it("submits each step with the resources of its kind, and reads how they end from files", async () => {
    const slurm = new FakeSlurm();
    const steps = [makeStep(), makeStep("train"), makeStep()] as const;
    const { executor, finished, started, until } = open(slurm, {
      resources: (kind) => (kind === "train" ? { cores: 4, gpus: "gpu:1" } : { cores: 1 }),
    });
    await executor.start(steps);
    expect(started).toEqual(steps.map(({ key }, i) => `${key} ${100 + i}`));
    expect(executor.fitting(Array(9).fill("train"))).toBe(7);
    const scripts = steps.map(({ folder }) => readFileSync(join(folder, "job.sh"), "utf8"));
    expect(scripts.map((text) => /--gres=(.*)/.exec(text)?.[1])).toEqual([undefined, "gpu:1", undefined]);
    slurm.queue.set("100", "RUNNING");
    slurm.end("102", steps[2], 0);
    await until(1);
    expect(finished[0]).toEqual({ key: steps[2].key, outcome: "done", seconds: 60 });
    writeFileSync(join(steps[0].folder, "log.txt"), "some lines\nthere is no tensor x\n");
    slurm.end("100", steps[0], 1);
    slurm.end("101", steps[1], 0);
    await until(3);
    expect(finished.find(({ key }) => key === steps[0].key)).toMatchObject({
      outcome: "failed",
      reason: "there is no tensor x",
    });
    await executor.close();
  });

  it("asks squeue, then sacct, how jobs ended that left no exit code", async () => {
    const slurm = new FakeSlurm();
    const steps = [makeStep(), makeStep(), makeStep(), makeStep()] as const;
    const { executor, finished, until } = open(slurm);
    await executor.start(steps);
    slurm.queue.set("100", "NODE_FAIL");
    slurm.queue.set("101", "TIMEOUT");
    slurm.queue.delete("102");
    await until(3);
    const of = (i: 0 | 1 | 2) => finished.find(({ key }) => key === steps[i].key);
    expect(of(0)).toMatchObject({ outcome: "lost", reason: "its job ended early (Slurm: NODE_FAIL)" });
    expect(of(1)).toMatchObject({
      outcome: "failed",
      reason: expect.stringMatching(/reached its time limit.*executor\.time/),
    });
    expect(of(2)).toMatchObject({ outcome: "lost", reason: "Slurm no longer knows its job, and it left no exit code" });
    slurm.accounts = "103|OUT_OF_MEMORY\n103.batch|OUT_OF_MEMORY\n";
    slurm.queue.clear();
    await until(4);
    expect(finished[3]).toMatchObject({ outcome: "failed", reason: expect.stringContaining("executor.memory") });
    await executor.close();
  });

  it("waits while Slurm does not answer and while a job is requeued", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const { executor, finished, until } = open(slurm);
    await executor.start([step]);
    slurm.isDown = true;
    await new Promise((resolve) => setTimeout(resolve, 80));
    expect(finished).toEqual([]);
    slurm.isDown = false;
    slurm.queue.set("100", "PENDING"); // requeued after its node failed
    await new Promise((resolve) => setTimeout(resolve, 80));
    expect(finished).toEqual([]);
    slurm.end("100", step, 0);
    await until(1);
    expect(finished[0]).toMatchObject({ outcome: "done" });
    await executor.close();
  });

  it("takes over the jobs of an earlier runner", async () => {
    const slurm = new FakeSlurm();
    const [running, ended] = [makeStep(), makeStep()];
    slurm.queue.set("7", "RUNNING");
    slurm.end("8", ended, 0);
    const { executor, finished, until } = open(slurm);
    const taken = await executor.adopt([
      { step: running, runner: { kind: "slurm", job: "7" } },
      { step: ended, runner: { kind: "slurm", job: "8" } },
      { step: makeStep(), runner: { kind: "local", host: "here", pid: 1 } },
    ]);
    expect([...taken]).toEqual([running.key, ended.key]);
    await until(1);
    expect(finished[0]).toMatchObject({ key: ended.key, outcome: "done" });
    slurm.end("7", running, 0);
    await until(2);
    await executor.close();
  });

  it("cancels", async () => {
    const slurm = new FakeSlurm();
    const { executor, finished } = open(slurm);
    await executor.start([makeStep(), makeStep()]);
    await executor.stop();
    expect(slurm.commands.at(-1)).toEqual(["scancel", "--quiet", "100", "101"]);
    expect(finished.map(({ outcome }) => outcome)).toEqual(["lost", "lost"]);
    await executor.close();
  });

  it("reports what sbatch printed", async () => {
    const refusing = {
      run: async () => {
        throw Object.assign(new Error("exit 1"), { stderr: "sbatch: error: invalid partition specified: gpu" });
      },
    } as unknown as FakeSlurm;
    const { executor } = open(refusing);
    await expect(executor.start([makeStep()])).rejects.toThrow(/sbatch refused .*invalid partition specified: gpu/);
  });

  it("needs Slurm", async () => {
    const { executor } = open(new FakeSlurm(), { run: undefined as never });
    const path = process.env.PATH;
    process.env.PATH = root;
    try {
      await expect(executor.start([makeStep()])).rejects.toThrow("sbatch is missing. Run on a login node");
    } finally {
      process.env.PATH = path;
    }
  });
});

describe("submitted jobs that no attempt names", () => {
  it("are found by their script and not submitted again", async () => {
    const slurm = new FakeSlurm();
    const steps = [makeStep(), makeStep(), makeStep()] as const;
    // Killed between sbatch and its notes: those of the first task, of none.
    const killed = open(slurm);
    await killed.executor.start(steps);
    await killed.executor.close();
    slurm.queue.set("101", "RUNNING");
    slurm.queue.set("102", "COMPLETING"); // cancelled by a person

    const { executor, finished, started, until } = open(slurm);
    const another = makeStep();
    await executor.start([...steps, another]);
    expect(started).toEqual([
      `${steps[0].key} 100`,
      `${steps[1].key} 101`,
      `${steps[2].key} 103`,
      `${another.key} 104`,
    ]);
    slurm.end("101", steps[1], 0);
    await until(1);
    expect(finished[0]).toMatchObject({ key: steps[1].key, outcome: "done" });
    await executor.close();
  });

  it("are searched for again after a job counted as lost", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const { executor, finished, started, until } = open(slurm);
    await executor.start([step]);
    slurm.queue.clear();
    await until(1);
    expect(finished[0]).toMatchObject({ outcome: "lost" });
    slurm.queue.set("100", "RUNNING");
    await executor.start([step]);
    expect(started).toEqual([`${step.key} 100`, `${step.key} 100`]);
    await executor.close();
  });

  it("are submitted again if Slurm does not answer", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const killed = open(slurm);
    await killed.executor.start([step]);
    await killed.executor.close();
    slurm.isDown = true;
    const { executor, started } = open(slurm);
    await executor.start([step]);
    expect(started).toEqual([`${step.key} 101`]);
    await executor.close();
  });
});

describe("jobs that Slurm has forgotten", () => {
  it("are not lost while a process runs their step", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const { executor, finished, until } = open(slurm);
    await executor.start([step]);
    const lock = await takeLock(step.folder);
    slurm.queue.clear();
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(finished).toEqual([]);
    await lock.release();
    await until(1);
    expect(finished[0]).toMatchObject({
      outcome: "lost",
      reason: "Slurm no longer knows its job, and it left no exit code",
    });
    await executor.close();
  });

  it.each(['{"code":', "[]", ""])("are lost if their exit code is damaged: %s", async (text) => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const { executor, finished, until } = open(slurm);
    await executor.start([step]);
    slurm.end("100", step, 1);
    writeFileSync(join(step.folder, "exit.json"), text);
    await until(1);
    expect(finished[0]).toMatchObject({ outcome: "lost", reason: expect.stringContaining("it left no exit code") });
    await executor.close();
  });

  it("are lost, not failed, if they were stopped", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const { executor, finished, until } = open(slurm);
    await executor.start([step]);
    writeFileSync(join(step.folder, "log.txt"), "stopped\n");
    slurm.end("100", step, EXIT_AGAIN);
    await until(1);
    expect(finished[0]).toMatchObject({ outcome: "lost", reason: "stopped" });
    await executor.close();
  });
});

it("a damaged result fails only its step, and is renamed", async () => {
  const slurm = new FakeSlurm();
  const steps = [makeStep(), makeStep()] as const;
  const { executor, finished, until } = open(slurm);
  await executor.start(steps);
  slurm.end("100", steps[0], 0);
  writeFileSync(join(steps[0].folder, "result.json"), '{"kind":');
  await until(1);
  expect(finished[0]).toMatchObject({
    outcome: "failed",
    reason: expect.stringMatching(
      /^its result was damaged. It is now .*result\.json\.damaged; run the experiment again/,
    ),
  });
  expect(existsSync(join(steps[0].folder, "result.json"))).toBe(false);
  slurm.end("101", steps[1], 0);
  await until(2);
  await executor.close();
});

describe("commands that hang", () => {
  /** With programs of these names before all others, which sleep. */
  async function withHanging<T>(programs: readonly string[], work: () => Promise<T>): Promise<T> {
    const bin = mkdtempSync(join(root, "bin-"));
    for (const name of programs) writeFileSync(join(bin, name), "#!/bin/sh\nexec sleep 60\n", { mode: 0o755 });
    const path = process.env.PATH;
    process.env.PATH = `${bin}:${path}`;
    try {
      return await work();
    } finally {
      process.env.PATH = path;
    }
  }
  const hanging = (slurm: FakeSlurm, programs: readonly string[]): SlurmOptions["run"] => {
    const bounded = commandRunner({ seconds: () => 0.2 });
    return (program, args) => (programs.includes(program) ? bounded(program, args) : slurm.run(program, args));
  };

  it("are killed, reported and repeated", async () => {
    const slurm = new FakeSlurm();
    const step = makeStep();
    const programs = ["squeue"];
    const { executor, finished, said, until } = open(slurm, { run: hanging(slurm, programs) as never });
    await withHanging(programs, async () => {
      await executor.start([step]);
      for (let i = 0; i < 300 && said.length === 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    });
    expect(said[0]).toMatch(
      /^asking Slurm again: squeue timed out after 0.2 s; check with scontrol ping that Slurm's controller is up/,
    );
    expect(finished).toEqual([]);
    programs.pop();
    slurm.end("100", step, 0);
    await until(1);
    await executor.close();
  });

  it("do not block stopping, which reports jobs that may still run", async () => {
    const slurm = new FakeSlurm();
    const { executor, finished } = open(slurm, { run: hanging(slurm, ["scancel"]) as never });
    await executor.start([makeStep()]);
    await withHanging(["scancel"], () => executor.stop());
    expect(finished[0]).toMatchObject({
      outcome: "lost",
      reason: expect.stringMatching(/^stopped, but job 100 may still run: scancel timed out after 0.2 s/),
    });
    await executor.close();
  });

  it("end when aborted", async () => {
    const controller = new AbortController();
    const run = commandRunner({ signal: controller.signal });
    const running = withHanging(["squeue"], () => run("squeue", []));
    setTimeout(() => controller.abort(), 50);
    await expect(running).rejects.toThrow(/aborted/);
  });
});
