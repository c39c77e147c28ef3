import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { endOf, isOpen, jobScript, readAccounts, readQueue } from "./slurm-text.js";

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

  it("requests the plan's resources", () => {
    const lines = script("/shared/a.list", ["node", "job.js"]).split("\n");
    expect(lines.filter((line) => line.startsWith("#SBATCH")).map((line) => line.slice(8))).toEqual([
      ...["--job-name=mgsm", "--array=0-2", "--cpus-per-task=4", "--mem=15259M", "--gres=gpu:1", "--time=04:00:00"],
      ...["--partition=gpu", "--requeue", "--open-mode=append", "--output=/dev/null", "--account=me"],
    ]);
  });

  it("runs the step of its task, and saves exit code and output", () => {
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
});

describe("Slurm's tables", () => {
  it("are read by task id, with any script name", () => {
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

  it("count requeued jobs as waiting", () => {
    expect(isOpen("REQUEUED")).toBe(true);
  });
});
