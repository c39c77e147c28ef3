// What is said to Slurm and what is read of its answers, as text; the script of a job is run by a shell here.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { lastWords } from "./slurm-outcome.js";
import { jobScript, jobState, readAccounts, readJobs, readQueue, readScripts, shellQuote } from "./slurm-text.js";

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
  it("are read, tasks that stand together one by one", () => {
    const queue = readQueue("12_[3-5,8%2]|PENDING|Priority\n 12_1|RUNNING|None\n13|COMPLETING|None\nnonsense\n");
    expect([...queue.keys()]).toEqual(["12_3", "12_4", "12_5", "12_8", "12_1", "13"]);
    expect(queue.get("12_4")).toEqual({ state: "waiting", reason: "Priority" });
    expect(queue.get("13")).toEqual({ state: "running" });
    expect([...readAccounts("12_1|COMPLETED\n12_1.batch|COMPLETED\n12_2|CANCELLED by 0\n")]).toEqual([
      ["12_1", { state: "ended", outcome: "unknown", reason: "Slurm says COMPLETED" }],
      ["12_2", { state: "ended", outcome: "lost", reason: "it was cancelled (Slurm says CANCELLED)" }],
    ]);
    const jobs = readJobs(
      "JobId=5 ArrayJobId=5 ArrayTaskId=2-3 JobState=PENDING Reason=Resources\nJobId=9 JobState=FAILED Reason=x\n",
    );
    expect([...jobs.keys()]).toEqual(["5_2", "5_3", "9"]);
  });

  it("have states that mean one of few things", () => {
    expect(jobState("PREEMPTED")).toMatchObject({ outcome: "lost" });
    expect(jobState("OUT_OF_ME+")).toMatchObject({ outcome: "failed" });
    expect(jobState("REQUEUED")).toMatchObject({ state: "waiting" });
    expect(jobState("")).toEqual({ state: "ended", outcome: "unknown", reason: "Slurm no longer knows it" });
  });

  it("tell jobs by their scripts, whatever these are called", () => {
    const table = "12_[3-4]|PENDING|/a b/1|2.sh\n12_1|COMPLETING|/a b/1|2.sh\n13|RUNNING|(null)\nnonsense\n";
    expect([...readScripts(table)]).toEqual([
      ["12_3", "/a b/1|2.sh"],
      ["12_4", "/a b/1|2.sh"],
      ["13", "(null)"],
    ]);
  });

  it("are bounded", () => {
    expect(readQueue("12_[0-999999999]|PENDING|None").size).toBe(100_000);
  });

  it("leave the last words of a log", () => {
    expect(lastWords("one\ntwo  \n\n")).toBe("two");
    expect(lastWords("\n")).toBeUndefined();
  });
});
