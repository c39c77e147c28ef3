// Runs steps as jobs of a Slurm cluster, one each. Needs a file system that all nodes share.
import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { isLocked, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";
import { readResult, setResultAside } from "../steps/result.js";
import type { StepKind } from "../steps/step.js";
import { STEP_FILES, type StepRunnerId } from "../steps/step-state.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";
import { commandRunner, outputOf, type RunCommand } from "./slurm-commands.js";
import {
  EXIT_AGAIN,
  endOf,
  isOpen,
  type JobEnd,
  jobScript,
  type QueuedJob,
  readAccounts,
  readQueue,
  type SlurmResources,
} from "./slurm-text.js";

export interface SlurmOptions {
  readonly name: string;
  readonly resources: (kind: StepKind) => SlurmResources;
  readonly setup?: string | undefined;
  /** Program that runs a step; its last argument is the step's folder. */
  readonly command: readonly string[];
  /** Maximum number of queued and running jobs. */
  readonly maxJobs: number;
  /** Seconds between two queries of the queue. Default: 5. */
  readonly pollSeconds?: number;
  /** Queries after which a job without an exit code is lost; shared file systems lag. Default: 12. */
  readonly maxMissed?: number;
  /** For tests. */
  readonly run?: RunCommand;
}

interface Job {
  readonly step: ReadyStep;
  /** Queries of the queue since the job left it. */
  missed: number;
}

/** The script of a step's job. It stays, as it identifies a job whose runner was killed before it noted the job. */
const scriptOf = ({ folder }: ReadyStep) => join(folder, "job.sh");

export class SlurmExecutor implements Executor {
  readonly #options: SlurmOptions;
  readonly #events: ExecutorEvents;
  readonly #run: RunCommand;
  readonly #jobs = new Map<string, Job>();
  readonly #polling = new AbortController();
  readonly #query: RunCommand;
  /** Submitted jobs, which no attempt may name, by their script; undefined: not searched for yet. */
  #orphans: Map<string, string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: SlurmOptions, events: ExecutorEvents) {
    this.#options = options;
    this.#events = events;
    this.#run = options.run ?? commandRunner();
    this.#query = options.run ?? commandRunner({ signal: this.#polling.signal });
  }

  fitting({ length }: readonly StepKind[]): number {
    return Math.min(length, Math.max(0, this.#options.maxJobs - this.#jobs.size));
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    this.#orphans ??= await this.#findOrphans();
    for (const step of steps) {
      const id = this.#orphans.get(scriptOf(step));
      const isOrphan = id !== undefined && !this.#jobs.has(id);
      await this.#note(isOrphan ? id : await this.#submit(step), step);
    }
    this.#schedule();
  }

  /** @returns the id of the job */
  async #submit(step: ReadyStep): Promise<string> {
    const { resources, ...job } = this.#options;
    const file = scriptOf(step);
    await writeFileAtomically(file, jobScript({ ...job, folder: step.folder, resources: resources(step.kind) }));
    let answer: string;
    try {
      answer = await this.#run("sbatch", ["--parsable", file]);
    } catch (error) {
      if (error instanceof LayergraftError) throw error;
      throw new LayergraftError("slurm", `sbatch refused ${file}: ${outputOf(error)}`, { file }, error);
    }
    // `12`, or `12;cluster`.
    const id = /^\s*(\d+)(;|\s|$)/.exec(answer)?.[1];
    if (id !== undefined) return id;
    throw new LayergraftError("slurm", `sbatch printed ${JSON.stringify(answer)}; expected the number of a job`);
  }

  async #note(id: string, step: ReadyStep): Promise<void> {
    this.#jobs.set(id, { step, missed: 0 });
    await this.#events.onStarted(step.key, { kind: "slurm", job: id });
  }

  /** Ids of jobs that wait or run, by their script. */
  async #findOrphans(): Promise<Map<string, string>> {
    // Without an answer, a second job of a step waits for the first and finds its result.
    const queue = await this.#queue().catch(() => new Map<string, QueuedJob>());
    // COMPLETING follows scancel.
    const open = [...queue].filter(([, { state }]) => isOpen(state) && state !== "COMPLETING");
    return new Map(open.map(([id, { script }]) => [script, id]));
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
    if (taken.size > 0) this.#schedule(0);
    return taken;
  }

  async stop(): Promise<void> {
    const jobs = [...this.#jobs];
    this.#jobs.clear();
    await this.close();
    if (jobs.length === 0) return;
    const ids = jobs.map(([id]) => id);
    // Quiet: a job that has ended is not an error.
    const problem = await this.#run("scancel", ["--quiet", ...ids]).then(() => undefined, outputOf);
    for (const [id, { step }] of jobs) {
      const reason = problem === undefined ? "stopped" : `stopped, but job ${id} may still run: ${problem}`;
      this.#events.onFinished({ key: step.key, outcome: "lost", reason });
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#polling.abort();
  }

  #schedule(seconds = this.#options.pollSeconds ?? 5): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#jobs.size === 0) return;
    this.#timer = setTimeout(() => void this.#poll(), seconds * 1000);
  }

  /** Never rejects: the next query may succeed, and an experiment must not end because one failed. */
  async #poll(): Promise<void> {
    try {
      await this.#settle(await this.#queue());
    } catch (error) {
      const [first] = this.#jobs.values();
      if (first) this.#events.onProgress?.(first.step.key, 0, `asking Slurm again: ${outputOf(error)}`);
    }
    this.#schedule();
  }

  /**
   * All jobs of the user that Slurm remembers; ended ones for MinJobAge, usually 300 s. With `--user` a job that is forgotten
   * is absent from the output; with `--jobs` it would be an error.
   */
  async #queue(): Promise<Map<string, QueuedJob>> {
    const user = `--user=${userInfo().username}`;
    return readQueue(await this.#query("squeue", ["--noheader", "--states=all", "--format=%i|%T|%o", user]));
  }

  async #settle(queue: ReadonlyMap<string, QueuedJob>): Promise<void> {
    const silent = new Map<string, Job>();
    for (const [id, job] of this.#jobs) {
      if (isOpen(queue.get(id)?.state ?? "")) continue;
      const outcome = await outcomeOf(job.step, id);
      if (outcome) this.#finish(id, outcome);
      else silent.set(id, job);
    }
    const forgotten = [...silent.keys()].filter((id) => !queue.has(id));
    const accounts = forgotten.length > 0 ? await this.#accounts(forgotten) : new Map<string, string>();
    for (const [id, job] of silent) {
      const state = queue.get(id)?.state ?? accounts.get(id);
      if (state !== undefined && isOpen(state)) continue;
      const { outcome, reason }: JobEnd =
        state === undefined
          ? { outcome: undefined, reason: "Slurm no longer knows its job, and it left no exit code" }
          : endOf(state);
      // Slurm forgets jobs that still run, and files of a job that ended may arrive late.
      if (outcome === undefined) {
        if (await isLocked(job.step.folder)) continue;
        job.missed++;
        if (job.missed < (this.#options.maxMissed ?? 12)) continue;
      }
      // Its step is searched for among the submitted jobs before it is submitted again.
      this.#orphans = undefined;
      this.#finish(id, outcome === "failed" ? { outcome, reason, seconds: 0 } : { outcome: "lost", reason });
    }
  }

  /** States of jobs that squeue has forgotten; none where accounting is off. */
  async #accounts(ids: readonly string[]): Promise<Map<string, string>> {
    const args = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State", `--jobs=${ids.join(",")}`];
    return readAccounts(await this.#query("sacct", args).catch(() => ""));
  }

  #finish(id: string, outcome: Outcome): void {
    const job = this.#jobs.get(id);
    this.#jobs.delete(id);
    if (job) this.#events.onFinished({ ...outcome, key: job.step.key });
  }
}

/** What the job script writes at its end; times in seconds since 1970. */
const exitSchema = z.object({
  code: z.number(),
  host: z.string(),
  job: z.string(),
  began: z.number(),
  ended: z.number(),
});

/** How the job of a step ended, from the files in its folder; undefined if it wrote no exit code. */
async function outcomeOf({ folder, kind }: ReadyStep, id: string): Promise<Outcome | undefined> {
  const written = await readJsonObject(join(folder, STEP_FILES.exit)).catch(() => undefined);
  const { data: exit } = exitSchema.safeParse(written);
  // It may be that of an earlier attempt.
  if (exit?.job !== id) return undefined;
  const seconds = exit.ended - exit.began;
  if (exit.code === 0) {
    try {
      if (await readResult(folder, kind)) return { outcome: "done", seconds };
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      const moved = await setResultAside(folder);
      const reason = `its result was damaged. It is now ${moved}; run the experiment again to compute it`;
      return { outcome: "failed", reason, seconds };
    }
  }
  const log = await readFile(join(folder, STEP_FILES.log), "utf8").catch(() => "");
  const lastLine = log.trimEnd().split("\n").at(-1)?.trim().slice(0, 500);
  const reason = lastLine || `it exited with code ${exit.code} on ${exit.host}`;
  return exit.code === EXIT_AGAIN ? { outcome: "lost", reason } : { outcome: "failed", reason, seconds };
}
