// What is said to Slurm and what is read of its answers, as text; the script of a job is run by a shell here.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { lastLine } from "./slurm-outcome.js";
import { endOf, isOpen, jobScript, readAccounts, readQueue, shellQuote } from "./slurm-text.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-slurm-text-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("the script of a job", () => {
  const script = (list: string, command: readonly string[], setup?: string) =>
    jobScript({
      ...{ name: "mgsm", list, count: 3, command, setup },
      resources: {
        cores: 4,
        memory: 16e9,
        gpus: "gpu:1",
        time: "04:00:00",
        partition: "gpu",
        options: ["--account=me"],
      },
    });

  it("asks for what the plan says", () => {
    const lines = script("/shared/a.list", ["node", "job.js"]).split("\n");
    expect(lines.filter((line) => line.startsWith("#SBATCH")).map((line) => line.slice(8))).toEqual([
      ...["--job-name=mgsm", "--array=0-2", "--cpus-per-task=4", "--mem=15259M", "--gres=gpu:1", "--time=04:00:00"],
      ...["--partition=gpu", "--requeue", "--open-mode=append", "--output=/dev/null", "--account=me"],
    ]);
  });

  it("runs the step of its task, notes how it ended, and keeps what it said", () => {
    const folders = [join(root, "step 1"), join(root, "step 2")];
    for (const folder of folders) mkdirSync(folder);
    const list = join(root, "it's a list");
    writeFileSync(list, folders.map((folder) => `${folder}\n`).join(""));
    const file = join(root, "job.sh");
    const program = 'console.log("in", process.argv[1], process.env.MARK); process.exit(3)';
    writeFileSync(file, script(list, [process.execPath, "-e", program], "export MARK='set up'"));
    const env = { ...process.env, SLURM_ARRAY_JOB_ID: "12", SLURM_ARRAY_TASK_ID: "1" };
    expect(() => execFileSync("bash", [file], { env, stdio: "ignore" })).toThrow();
    const folder = folders[1] ?? "";
    expect(JSON.parse(readFileSync(join(folder, "exit.json"), "utf8"))).toMatchObject({ code: 3, job: "12_1" });
    expect(readFileSync(join(folder, "log.txt"), "utf8")).toBe(`in ${folder} set up\n`);
  });

  it("quotes words for the shell", () => {
    expect(shellQuote("plain/path-1.js")).toBe("plain/path-1.js");
    expect(shellQuote("it's $HOME")).toBe("'it'\\''s $HOME'");
  });
});

describe("Slurm's tables", () => {
  it("of tasks by their ids, with states and scripts of any name", () => {
    const table = "12_3|PENDING|/a b/1|2.sh\n  12_1|COMPLETING|/a.sh\n13|RUNNING|(null)\nnonsense\n";
    expect([...readQueue(table)]).toEqual([
      ["12_3", { state: "PENDING", script: "/a b/1|2.sh" }],
      ["12_1", { state: "COMPLETING", script: "/a.sh" }],
    ]);
    expect([...readAccounts("12_1|COMPLETED\n12_1.batch|COMPLETED\n12_2|CANCELLED by 0\n")]).toEqual([
      ["12_1", "COMPLETED"],
      ["12_2", "CANCELLED by 0"],
    ]);
  });

  it.each([
    ["PREEMPTED", "lost", "its job ended early (Slurm: PREEMPTED)"],
    ["CANCELLED by 0", "lost", "its job ended early (Slurm: CANCELLED)"],
    ["OUT_OF_ME+", "failed", "it ran out of memory (Slurm: OUT_OF_ME); raise executor.memory"],
    ["TIMEOUT", "failed", "it reached its time limit (Slurm: TIMEOUT); raise executor.time"],
    ["COMPLETED", undefined, "its job ended without an exit code (Slurm: COMPLETED)"],
  ])("say that a job in the state %s is %s", (state, outcome, reason) => {
    expect(isOpen(state)).toBe(false);
    expect(endOf(state)).toEqual({ outcome, reason });
  });

  it("say that a job that waits to run again is open", () => {
    expect(isOpen("REQUEUED")).toBe(true);
  });
});

it("the last line of a log is the last that is not empty", () => {
  expect(lastLine("one\ntwo  \n\n")).toBe("two");
  expect(lastLine("\n")).toBeUndefined();
});
