import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { endOf, isOpen, jobScript, readAccounts, readQueue } from "./slurm-text.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-slurm-text-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("the script of a job", () => {
  const script = (folder: string, command: readonly string[], setup?: string) =>
    jobScript({
      ...{ name: "mgsm", folder, command, setup },
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
    const lines = script("/shared/step", ["node", "job.js"]).split("\n");
    expect(lines.filter((line) => line.startsWith("#SBATCH")).map((line) => line.slice(8))).toEqual([
      ...["--job-name=mgsm", "--cpus-per-task=4", "--mem=15259M", "--gres=gpu:1", "--time=04:00:00"],
      ...["--partition=gpu", "--requeue", "--open-mode=append", "--output=/dev/null", "--account=me"],
    ]);
  });

  it("runs its step, and saves exit code and output", () => {
    const folder = join(root, "it's a step");
    mkdirSync(folder);
    const file = join(root, "job.sh");
    const program = 'console.log("in", process.argv[1], process.env.MARK); process.exit(3)';
    writeFileSync(file, script(folder, [process.execPath, "-e", program], "export MARK='set up'"));
    const env = { ...process.env, SLURM_JOB_ID: "12" };
    expect(() => execFileSync("bash", [file], { env, stdio: "ignore" })).toThrow();
    expect(JSON.parse(readFileSync(join(folder, "exit.json"), "utf8"))).toMatchObject({ code: 3, job: "12" });
    expect(readFileSync(join(folder, "log.txt"), "utf8")).toBe(`in ${folder} set up\n`);
  });
});

describe("Slurm's tables", () => {
  it("are read by job id, with any script name", () => {
    const table = "12|PENDING|/a b/1|2.sh\n  13|COMPLETING|/a.sh\n12_3|RUNNING|(null)\nnonsense\n";
    expect([...readQueue(table)]).toEqual([
      ["12", { state: "PENDING", script: "/a b/1|2.sh" }],
      ["13", { state: "COMPLETING", script: "/a.sh" }],
    ]);
    expect([...readAccounts("12|COMPLETED\n12.batch|COMPLETED\n13|CANCELLED by 0\n")]).toEqual([
      ["12", "COMPLETED"],
      ["13", "CANCELLED by 0"],
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
