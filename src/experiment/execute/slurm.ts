// Runs steps as jobs of a Slurm cluster, in arrays. Needs a file system that all nodes share.

import { mkdir, readdir, readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { groupBy, isLocked, LayergraftError, writeFileAtomically } from "../../core/index.js";
import type { StepKind } from "../steps/step.js";
import type { StepRunnerId } from "../steps/step-state.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";
import { commandRunner, outputOf, type RunCommand } from "./slurm-commands.js";
import { outcomeOf } from "./slurm-outcome.js";
import {
  endOf,
  isOpen,
  jobScript,
  type QueuedTask,
  readAccounts,
  readQueue,
  type SlurmResources,
  type TaskEnd,
} from "./slurm-text.js";

export interface SlurmOptions {
  /** Folder for scripts and lists, on the shared file system. */
  readonly folder: string;
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

export class SlurmExecutor implements Executor {
  readonly #options: SlurmOptions;
  readonly #events: ExecutorEvents;
  readonly #run: RunCommand;
  /** By task id, such as `12_3`. */
  readonly #jobs = new Map<string, Job>();
  /** Aborts queries that hang. */
  readonly #polling = new AbortController();
  readonly #query: RunCommand;
  /** Submitted jobs that no attempt names, by the folder of their step; undefined: not searched for yet. */
  #orphans: Map<string, string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #submitted = 0;
  #isClosed = false;

  constructor(options: SlurmOptions, events: ExecutorEvents) {
    this.#options = options;
    this.#events = events;
    this.#run = options.run ?? commandRunner();
    this.#query = options.run ?? commandRunner({ signal: this.#polling.signal });
  }

  get free(): number {
    return Math.max(0, this.#options.maxJobs - this.#jobs.size);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    const others = await this.#takeOrphans(steps);
    const byResources = groupBy(others, ({ kind }) => JSON.stringify(this.#options.resources(kind)));
    for (const alike of byResources.values()) await this.#submit(alike);
    this.#schedule();
  }

  async #submit(steps: readonly ReadyStep[]): Promise<void> {
    const { folder, name, resources, setup, command } = this.#options;
    const [first] = steps;
    if (!first) return;
    await mkdir(folder, { recursive: true });
    const stem = join(folder, `${Date.now()}-${++this.#submitted}`);
    // Script and list stay: they identify a job whose runner was killed before it noted the job.
    const [list, file] = [`${stem}.list`, `${stem}.sh`];
    await writeFileAtomically(list, `${steps.map((step) => step.folder).join("\n")}\n`);
    const job = { name, list, count: steps.length, resources: resources(first.kind), setup, command };
    await writeFileAtomically(file, jobScript(job));
    let answer: string;
    try {
      answer = await this.#run("sbatch", ["--parsable", file]);
    } catch (error) {
      if (error instanceof LayergraftError) throw error;
      throw new LayergraftError("slurm", `sbatch refused ${file}: ${outputOf(error)}`, { file }, error);
    }
    // `12`, or `12;cluster`.
    const id = /^\s*(\d+)(;|\s|$)/.exec(answer)?.[1];
    if (id === undefined) {
      throw new LayergraftError("slurm", `sbatch printed ${JSON.stringify(answer)}; expected the number of a job`);
    }
    for (const [task, step] of steps.entries()) await this.#note(`${id}_${task}`, step);
  }

  async #note(id: string, step: ReadyStep): Promise<void> {
    this.#jobs.set(id, { step, missed: 0 });
    await this.#events.onStarted(step.key, { kind: "slurm", job: id });
  }

  /** Takes over jobs of these steps that were submitted and not noted. @returns the other steps */
  async #takeOrphans(steps: readonly ReadyStep[]): Promise<ReadyStep[]> {
    this.#orphans ??= await this.#findOrphans();
    const others: ReadyStep[] = [];
    for (const step of steps) {
      const id = this.#orphans.get(step.folder);
      if (id === undefined || this.#jobs.has(id)) others.push(step);
      else await this.#note(id, step);
      this.#orphans.delete(step.folder);
    }
    return others;
  }

  /** Jobs that wait or run with a script of this experiment. */
  async #findOrphans(): Promise<Map<string, string>> {
    const { folder } = this.#options;
    const names = await readdir(folder).catch((): string[] => []);
    const scripts = new Set(names.filter((name) => name.endsWith(".sh")).map((name) => join(folder, name)));
    const found = new Map<string, string>();
    if (scripts.size === 0) return found;
    // Without an answer, a second job of a step waits for the first and finds its result.
    const queue = await this.#queue().catch(() => new Map<string, QueuedTask>());
    const lists = new Map<string, readonly string[]>();
    for (const [id, { state, script }] of queue) {
      // COMPLETING follows scancel.
      if (!scripts.has(script) || !isOpen(state) || state === "COMPLETING") continue;
      const list = script.replace(/\.sh$/, ".list");
      const folders = lists.get(list) ?? (await readFile(list, "utf8").catch(() => "")).split("\n");
      lists.set(list, folders);
      const step = folders[Number(id.split("_")[1])];
      if (step) found.set(step, id);
    }
    return found;
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
      const queue = await this.#queue();
      const gone = [...this.#jobs.keys()].filter((id) => !isOpen(queue.get(id)?.state ?? ""));
      await this.#settle(gone, queue);
    } catch (error) {
      const [first] = this.#jobs.values();
      if (first) this.#events.onProgress?.(first.step.key, 0, `asking Slurm again: ${outputOf(error)}`);
    }
    this.#schedule();
  }

  /**
   * All tasks of the user that Slurm remembers; ended ones for MinJobAge, usually 300 s. With `--user` a job that is
   * forgotten is absent from the output; with `--jobs` it would be an error.
   */
  async #queue(): Promise<Map<string, QueuedTask>> {
    const user = `--user=${userInfo().username}`;
    return readQueue(await this.#query("squeue", ["--noheader", "--array", "--states=all", "--format=%i|%T|%o", user]));
  }

  /** Finds out how jobs ended that no longer wait or run. */
  async #settle(ids: readonly string[], queue: ReadonlyMap<string, QueuedTask>): Promise<void> {
    const silent = new Map<string, Job>();
    for (const id of ids) {
      const job = this.#jobs.get(id);
      if (!job) continue;
      const outcome = await outcomeOf(job.step, id);
      if (outcome) this.#finish(id, outcome);
      else silent.set(id, job);
    }
    const forgotten = [...silent.keys()].filter((id) => !queue.has(id));
    const accounts = forgotten.length > 0 ? await this.#accounts(forgotten) : new Map<string, string>();
    for (const [id, job] of silent) {
      const state = queue.get(id)?.state ?? accounts.get(id);
      if (state !== undefined && isOpen(state)) continue;
      const { outcome, reason }: TaskEnd =
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

  /** States of tasks that squeue has forgotten; none where accounting is off. */
  async #accounts(ids: readonly string[]): Promise<Map<string, string>> {
    const jobs = `--jobs=${[...new Set(ids.map((id) => id.split("_")[0]))].join(",")}`;
    const args = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State", jobs];
    return readAccounts(await this.#query("sacct", args).catch(() => ""));
  }

  #finish(id: string, outcome: Outcome): void {
    const job = this.#jobs.get(id);
    this.#jobs.delete(id);
    if (job) this.#events.onFinished({ ...outcome, key: job.step.key });
  }
}
