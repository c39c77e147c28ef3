// Steps as jobs of a Slurm cluster: arrays through sbatch, looked after through squeue, and, for what it no longer knows,
// through the files that jobs leave, sacct where it answers, and scontrol. Needs a file system that the nodes share.

import { mkdir, readdir, readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { groupBy, isLocked, LayergraftError, writeFileAtomically } from "../../core/index.js";
import { KINDS, type StepKind } from "../steps/step.js";
import { STEP_LOCK } from "../steps/step-lock.js";
import { checkCores } from "../steps/step-order.js";
import type { StepRunnerId } from "../steps/step-state.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";
import { commandRunner, outputOf, type RunCommand } from "./slurm-commands.js";
import { outcomeOf } from "./slurm-outcome.js";
import {
  type JobState,
  jobScript,
  readAccounts,
  readJobs,
  readQueue,
  readScripts,
  type SlurmResources,
} from "./slurm-text.js";

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
  /** Looks for which a job may be gone without having left a word, as shared file systems lag; default 12. */
  readonly patience?: number;
  /** Runs a command and gives what it prints; for tests. */
  readonly run?: RunCommand;
}

interface Job {
  readonly step: ReadyStep;
  /** Looks at the queue since it is gone from there. */
  missed: number;
}

export class SlurmExecutor implements Executor {
  readonly #options: SlurmOptions;
  readonly #events: ExecutorEvents;
  readonly #run: RunCommand;
  /** By the id of the task, such as `12_3`. */
  readonly #jobs = new Map<string, Job>();
  /** Ends looks at the queue that hang. */
  readonly #looking = new AbortController();
  readonly #look: RunCommand;
  /** Jobs that nobody has noted, by the folder of their step; undefined: to be looked for. */
  #orphans: Map<string, string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #submitted = 0;
  #isClosed = false;

  /** @throws {RecipeError} if a step would ask for a number of cores that no machine has */
  constructor(options: SlurmOptions, events: ExecutorEvents) {
    this.#options = options;
    this.#events = events;
    this.#run = options.run ?? commandRunner();
    this.#look = options.run ?? commandRunner({ signal: this.#looking.signal });
    for (const kind of KINDS) {
      const { cores } = options.resources(kind);
      if (cores !== undefined) checkCores(cores, "executor.cores");
    }
  }

  get free(): number {
    return Math.max(0, this.#options.mostJobs - this.#jobs.size);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    const others = await this.#takeOrphans(steps);
    // What asks for the same is one array.
    for (const alike of groupBy(others, ({ kind }) => JSON.stringify(this.#options.resources(kind))).values()) {
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
    // Script and list stay: a job is known by its script, whoever submitted it and did not live to note it.
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
    for (const [task, step] of steps.entries()) await this.#note(`${id}_${task}`, step);
  }

  async #note(id: string, step: ReadyStep): Promise<void> {
    this.#jobs.set(id, { step, missed: 0 });
    await this.#events.onStarted(step.key, { kind: "slurm", job: id });
  }

  /** Takes over jobs that were submitted for steps and not noted. @returns steps that have none */
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

  /** Jobs that wait or run by a script of this experiment. */
  async #findOrphans(): Promise<Map<string, string>> {
    const { folder } = this.#options;
    const names = await readdir(folder).catch((): string[] => []);
    const scripts = new Set(names.filter((name) => name.endsWith(".sh")).map((name) => join(folder, name)));
    const found = new Map<string, string>();
    if (scripts.size === 0) return found;
    let table: string;
    try {
      table = await this.#look("squeue", [
        "--noheader",
        "--array",
        "--format=%i|%T|%o",
        `--user=${userInfo().username}`,
      ]);
    } catch {
      return found; // a second job of a step waits for the first, and finds its result
    }
    const lists = new Map<string, readonly string[]>();
    for (const [id, script] of readScripts(table)) {
      if (!scripts.has(script)) continue;
      const list = script.replace(/\.sh$/, ".list");
      const folders = lists.get(list) ?? (await readFile(list, "utf8").catch(() => "")).split("\n");
      lists.set(list, folders);
      const of = folders[Number(id.split("_")[1])];
      if (of) found.set(of, id);
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
    if (taken.size > 0) this.#lookLater(0);
    return taken;
  }

  async stop(): Promise<void> {
    const jobs = [...this.#jobs];
    this.#jobs.clear();
    clearTimeout(this.#timer);
    this.#looking.abort();
    if (jobs.length === 0) return;
    const ids = jobs.map(([id]) => id);
    const problem = await this.#run("scancel", ids).then(
      () => undefined,
      // Those that ended meanwhile are an error to it.
      (error: unknown) => (/invalid job id/i.test(outputOf(error)) ? undefined : outputOf(error)),
    );
    for (const [id, { step }] of jobs) {
      const reason = problem === undefined ? "stopped" : `stopped, but job ${id} may still run: ${problem}`;
      this.#events.onFinished({ key: step.key, outcome: "lost", reason });
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#looking.abort();
  }

  #lookLater(seconds = this.#options.pollSeconds ?? 5): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#jobs.size === 0) return;
    this.#timer = setTimeout(() => void this.#lookOnce(), seconds * 1000);
  }

  /** Never rejects: what one look meets, the next one may not, and an experiment must not end by it. */
  async #lookOnce(): Promise<void> {
    try {
      const queue = await this.#queue();
      const gone = [...this.#jobs.keys()].filter((id) => {
        const state = queue.get(id)?.state;
        return state !== "waiting" && state !== "running";
      });
      await this.#resolve(gone);
    } catch (error) {
      const [first] = this.#jobs.values();
      if (first) this.#events.onProgress?.(first.step.key, 0, `asking Slurm again: ${outputOf(error)}`);
    }
    this.#lookLater();
  }

  async #queue(): Promise<Map<string, JobState>> {
    const ids = [...new Set([...this.#jobs.keys()].map((id) => id.split("_")[0] ?? id))];
    try {
      return readQueue(
        await this.#look("squeue", ["--noheader", "--array", "--format=%i|%T|%r", `--jobs=${ids.join(",")}`]),
      );
    } catch (error) {
      // What it says when none of these jobs is left.
      if (/invalid job id/i.test(outputOf(error))) return new Map();
      throw error;
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
      const isTold = state?.state === "ended" && state.outcome !== "unknown";
      // Slurm may forget a job, or be asked in a bad moment; a process that works on the step is no lost one.
      if (!isTold && (await isLocked(job.step.folder, { name: STEP_LOCK }))) continue;
      job.missed++;
      // A job that Slurm says is over may have left its word where we do not see it yet.
      if (job.missed < (this.#options.patience ?? 12) && !isTold) continue;
      const reason = state?.state === "ended" ? state.reason : "Slurm no longer knows it, and it left no word";
      const failed = state?.state === "ended" && state.outcome === "failed";
      // If it is there after all, it is found before its step is submitted again.
      this.#orphans = undefined;
      this.#finish(id, failed ? { outcome: "failed", reason, seconds: 0 } : { outcome: "lost", reason });
    }
  }

  async #accounts(ids: readonly string[]): Promise<Map<string, JobState>> {
    const arrays = [...new Set(ids.map((id) => id.split("_")[0] ?? id))];
    const sacct = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State", `--jobs=${arrays.join(",")}`];
    const found = readAccounts(await this.#look("sacct", sacct).catch(() => ""));
    if (found.size > 0) return found;
    const answers = await Promise.all(
      arrays.map((array) => this.#look("scontrol", ["show", "job", "--oneliner", array]).catch(() => "")),
    );
    return readJobs(answers.join("\n"));
  }

  #finish(id: string, outcome: Outcome): void {
    const job = this.#jobs.get(id);
    this.#jobs.delete(id);
    if (job) this.#events.onFinished({ ...outcome, key: job.step.key });
  }
}
