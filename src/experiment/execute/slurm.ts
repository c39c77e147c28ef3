// Steps as jobs of a Slurm cluster: arrays through sbatch, looked after through squeue, and, for what it no longer knows,
// through the files that jobs leave, sacct where it answers, and scontrol. Needs a file system that the nodes share.
import { execFile } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { isSystemError, LayergraftError } from "../../core/errors.js";
import { writeFileAtomically } from "../../core/files.js";
import { groupBy } from "../../core/group.js";
import type { StepRunnerId } from "../ledger.js";
import { STEP_FILES } from "../run/store.js";
import { readResult } from "../steps/result.js";
import type { StepKind } from "../steps/step.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";
import { type JobState, jobScript, readAccounts, readJobs, readQueue, type SlurmResources } from "./slurm-text.js";

export interface SlurmOptions {
  /** Folder for scripts and lists; on the shared file system, as the steps' folders are. */
  readonly folder: string;
  readonly name: string;
  readonly resources: (kind: StepKind) => SlurmResources;
  readonly setup?: string | undefined;
  /** The program that runs the step of a folder, on a node. */
  readonly command: readonly string[];
  /** Jobs that wait or run at once. */
  readonly mostJobs: number;
  /** Seconds between two looks at the queue; default 5. */
  readonly pollSeconds?: number;
  /** Looks for which a job may be gone without having left a word, as shared file systems lag; default 4. */
  readonly patience?: number;
  /** Runs a command and gives what it prints; for tests. */
  readonly run?: (program: string, args: readonly string[]) => Promise<string>;
}

const runCommand = async (program: string, args: readonly string[]): Promise<string> => {
  try {
    return (await promisify(execFile)(program, [...args], { maxBuffer: 2 ** 26 })).stdout;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) {
      throw new LayergraftError(
        "slurm",
        `there is no ${program} here; run on a login node of the cluster, or use executor kind: local`,
        {},
        error,
      );
    }
    throw error;
  }
};

interface Job {
  readonly step: ReadyStep;
  /** Looks at the queue since it is gone from there. */
  missed: number;
}

export class SlurmExecutor implements Executor {
  readonly #options: SlurmOptions;
  readonly #events: ExecutorEvents;
  readonly #run: NonNullable<SlurmOptions["run"]>;
  /** By the id of the task, such as `12_3`. */
  readonly #jobs = new Map<string, Job>();
  #timer: NodeJS.Timeout | undefined;
  #submitted = 0;
  #isClosed = false;

  constructor(options: SlurmOptions, events: ExecutorEvents) {
    this.#options = options;
    this.#events = events;
    this.#run = options.run ?? runCommand;
  }

  get free(): number {
    return Math.max(0, this.#options.mostJobs - this.#jobs.size);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    // What asks for the same is one array.
    for (const alike of groupBy(steps, ({ kind }) => JSON.stringify(this.#options.resources(kind))).values()) {
      await this.#submit(alike);
    }
    this.#lookLater();
  }

  async #submit(steps: readonly ReadyStep[]): Promise<void> {
    const { folder, name, resources, setup, command } = this.#options;
    await mkdir(folder, { recursive: true });
    const stem = join(folder, `${Date.now()}-${++this.#submitted}`);
    const [first] = steps;
    if (!first) return;
    await writeFileAtomically(`${stem}.list`, `${steps.map((step) => step.folder).join("\n")}\n`);
    const script = jobScript({
      name,
      list: `${stem}.list`,
      count: steps.length,
      resources: resources(first.kind),
      setup,
      command,
    });
    await writeFileAtomically(`${stem}.sh`, script);
    let answer: string;
    try {
      answer = await this.#run("sbatch", ["--parsable", `${stem}.sh`]);
    } catch (error) {
      if (error instanceof LayergraftError) throw error;
      throw new LayergraftError(
        "slurm",
        `sbatch refused ${stem}.sh: ${outputOf(error)}`,
        { file: `${stem}.sh` },
        error,
      );
    }
    // `12`, or `12;cluster`.
    const id = /^\s*(\d+)(;|\s|$)/.exec(answer)?.[1];
    if (id === undefined)
      throw new LayergraftError("slurm", `sbatch answered ${JSON.stringify(answer)}, and not a job's number`);
    for (const [task, step] of steps.entries()) {
      this.#jobs.set(`${id}_${task}`, { step, missed: 0 });
      await this.#events.onStarted(step.key, { kind: "slurm", job: `${id}_${task}` });
    }
  }

  async adopt(
    steps: readonly { readonly step: ReadyStep; readonly runner: StepRunnerId }[],
  ): Promise<ReadonlySet<string>> {
    const taken = new Set<string>();
    for (const { step, runner } of steps) {
      if (runner.kind !== "slurm") continue;
      this.#jobs.set(runner.job, { step, missed: 0 });
      taken.add(step.key);
    }
    if (taken.size > 0) this.#lookLater(0);
    return taken;
  }

  async stop(): Promise<void> {
    const jobs = [...this.#jobs];
    this.#jobs.clear();
    clearTimeout(this.#timer);
    if (jobs.length === 0) return;
    await this.#run(
      "scancel",
      jobs.map(([id]) => id),
    ).catch(() => undefined); // those that ended meanwhile are an error to it
    for (const [, { step }] of jobs) this.#events.onFinished({ key: step.key, outcome: "lost", reason: "stopped" });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #lookLater(seconds = this.#options.pollSeconds ?? 5): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#jobs.size === 0) return;
    this.#timer = setTimeout(() => void this.#look(), seconds * 1000);
  }

  async #look(): Promise<void> {
    const queue = await this.#queue();
    const gone: string[] = [];
    for (const id of this.#jobs.keys()) {
      const state = queue?.get(id);
      if (queue && state?.state !== "waiting" && state?.state !== "running") gone.push(id);
    }
    await this.#resolve(gone);
    this.#lookLater();
  }

  /** Undefined when Slurm does not answer now: it is asked again. */
  async #queue(): Promise<Map<string, JobState> | undefined> {
    const ids = [...new Set([...this.#jobs.keys()].map((id) => id.split("_")[0] ?? id))];
    try {
      return readQueue(
        await this.#run("squeue", ["--noheader", "--array", "--format=%i|%T|%r", `--jobs=${ids.join(",")}`]),
      );
    } catch (error) {
      // What it says when none of these jobs is left.
      return /invalid job id/i.test(outputOf(error)) ? new Map() : undefined;
    }
  }

  /** Finds out what became of jobs that are gone from the queue. */
  async #resolve(ids: readonly string[]): Promise<void> {
    const silent: string[] = [];
    for (const id of ids) {
      const job = this.#jobs.get(id);
      const outcome = job && (await outcomeOf(job.step, id));
      if (outcome) this.#finish(id, outcome);
      else silent.push(id);
    }
    if (silent.length === 0) return;
    const accounts = await this.#accounts(silent);
    for (const id of silent) {
      const job = this.#jobs.get(id);
      const state = accounts.get(id);
      if (!job || state?.state === "waiting" || state?.state === "running") continue;
      job.missed++;
      // A job that Slurm says is over may have left its word where we do not see it yet.
      if (job.missed < (this.#options.patience ?? 4) && !(state?.state === "ended" && state.outcome !== "unknown"))
        continue;
      const reason = state?.state === "ended" ? state.reason : "Slurm no longer knows it, and it left no word";
      const failed = state?.state === "ended" && state.outcome === "failed";
      this.#finish(id, failed ? { outcome: "failed", reason, seconds: 0 } : { outcome: "lost", reason });
    }
  }

  async #accounts(ids: readonly string[]): Promise<Map<string, JobState>> {
    const arrays = [...new Set(ids.map((id) => id.split("_")[0] ?? id))];
    const sacct = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State", `--jobs=${arrays.join(",")}`];
    const found = readAccounts(await this.#run("sacct", sacct).catch(() => ""));
    if (found.size > 0) return found;
    const answers = await Promise.all(
      arrays.map((array) => this.#run("scontrol", ["show", "job", "--oneliner", array]).catch(() => "")),
    );
    return readJobs(answers.join("\n"));
  }

  #finish(id: string, outcome: Outcome): void {
    const job = this.#jobs.get(id);
    this.#jobs.delete(id);
    if (job) this.#events.onFinished({ ...outcome, key: job.step.key });
  }
}

/** What the files of a step say of the job that ran it; undefined if that has left nothing. */
async function outcomeOf({ folder, kind }: ReadyStep, id: string): Promise<Outcome | undefined> {
  const exit = await readExit(folder);
  // The word of an earlier try says nothing of this one.
  if (!exit || exit.job !== id) return undefined;
  const seconds = exit.ended - exit.began;
  if (exit.code === 0 && (await readResult(folder, kind))) return { outcome: "done", seconds };
  const log = await readFile(join(folder, STEP_FILES.log), "utf8").catch(() => "");
  return { outcome: "failed", reason: lastWords(log) ?? `it ended with code ${exit.code} on ${exit.host}`, seconds };
}

async function readExit(folder: string) {
  try {
    const exit = JSON.parse(await readFile(join(folder, STEP_FILES.exit), "utf8")) as Record<string, unknown>;
    const { code, host, job, began, ended } = exit;
    if (typeof code !== "number" || typeof job !== "string" || typeof began !== "number" || typeof ended !== "number")
      return undefined;
    return { code, host: String(host), job, began, ended };
  } catch {
    return undefined; // not there yet
  }
}

/** The last line that says something. */
export function lastWords(log: string): string | undefined {
  const line = log.trimEnd().split("\n").at(-1)?.trim();
  return line === undefined || line === "" ? undefined : line.slice(0, 500);
}

function outputOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { stderr, message } = error as { stderr?: unknown; message?: unknown };
  return String(typeof stderr === "string" && stderr.trim() !== "" ? stderr.trim() : message);
}
