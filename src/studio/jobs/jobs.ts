// Long operations, each in a thread of its own. A job's folder has what it is and how it went (job.json), and what it made
// (result.json, and files of its kind), so that a page that is loaded again, or another server, finds it.
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { isAnySystemError, systemMessage, usageError, writeFileAtomically } from "../../core/index.js";
import { type Job, type JobInput, type JobKind, job as jobSchema, type StudioEvent } from "../protocol.js";
import type { JobData, JobMessage } from "./worker.js";

const FILE = "job.json";
const RESULT = "result.json";
/** Milliseconds a cancelled job has to end by itself: more than the steps of an experiment have. */
const GRACE = 20_000;

interface Running {
  readonly worker: Worker;
  readonly ended: Promise<void>;
}

export interface JobsOptions {
  /** Folder of all jobs. */
  readonly folder: string;
  /** The project, from which relative paths start. */
  readonly project: string;
  readonly onEvent: (event: StudioEvent) => void;
}

export class Jobs {
  readonly #options: JobsOptions;
  readonly #jobs = new Map<string, Job>();
  readonly #running = new Map<string, Running>();

  private constructor(options: JobsOptions) {
    this.#options = options;
  }

  /** Reads earlier jobs; those that a server left running are interrupted. */
  static async open(options: JobsOptions): Promise<Jobs> {
    await mkdir(options.folder, { recursive: true });
    const jobs = new Jobs(options);
    for (const id of (await readdir(options.folder)).sort()) {
      const text = await readFile(join(options.folder, id, FILE), "utf8").catch(() => "null");
      const { data: found } = jobSchema.safeParse(parsed(text));
      if (found?.id !== id) continue;
      if (found.state === "running") await jobs.#keep({ ...found, state: "interrupted", ended: Date.now() });
      else jobs.#jobs.set(id, found);
    }
    return jobs;
  }

  /** All jobs, the latest first. */
  list(): Job[] {
    return [...this.#jobs.values()].sort((a, b) => b.started - a.started || (a.id < b.id ? 1 : -1));
  }

  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /** @throws LayergraftError code `usage` if there is no such job */
  get(id: string): Job {
    const found = this.#jobs.get(id);
    if (!found) throw usageError(`There is no job ${id}. It may have been removed in another tab.`);
    return found;
  }

  /** The folder of a job's files. */
  folderOf(id: string): string {
    return join(this.#options.folder, this.get(id).id);
  }

  async start<K extends JobKind>(kind: K, title: string, input: JobInput<K>): Promise<Job> {
    // Names sort by time.
    const id = `${Date.now().toString(36).padStart(9, "0")}-${kind}-${randomBytes(3).toString("hex")}`;
    const folder = join(this.#options.folder, id);
    // Not recursive: a project that was moved away is not made again.
    await mkdir(folder);
    const job: Job = {
      id,
      kind,
      title,
      input: input as Job["input"],
      state: "running",
      started: Date.now(),
      ended: null,
      progress: null,
      error: null,
    };
    await this.#keep(job);
    const data: JobData = { kind, input, place: { project: this.#options.project, folder } };
    const worker = new Worker(createRequire(import.meta.url).resolve("#studio-job"), { workerData: data });
    this.#running.set(id, { worker, ended: this.#follow(id, worker) });
    return job;
  }

  /** Cancels a job that runs. It ends by itself, or is ended after a while. */
  async cancel(id: string): Promise<Job> {
    const running = this.#running.get(this.get(id).id);
    if (!running) return this.get(id);
    running.worker.postMessage("cancel");
    const timer = setTimeout(() => void running.worker.terminate(), GRACE);
    await running.ended;
    clearTimeout(timer);
    return this.get(id);
  }

  /** Forgets a job and deletes its folder; what it wrote elsewhere stays. */
  async remove(id: string): Promise<void> {
    await this.cancel(id);
    await rm(this.folderOf(id), { recursive: true, force: true });
    this.#jobs.delete(id);
  }

  /** What a job made. @throws LayergraftError code `usage` if it is not done */
  async result(id: string): Promise<unknown> {
    const { state, title } = this.get(id);
    if (state !== "done") throw usageError(`${title} is not done. Wait for it, or start it again.`);
    return JSON.parse(await readFile(join(this.folderOf(id), RESULT), "utf8"));
  }

  /** Cancels all jobs; another server shows them as cancelled. */
  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((id) => this.cancel(id)));
  }

  async #follow(id: string, worker: Worker): Promise<void> {
    const end = await new Promise<Exclude<JobMessage, { type: "progress" | "text" }>>((resolve) => {
      worker.on("message", (message: JobMessage) => {
        if (message.type === "progress") this.#announce({ ...this.get(id), progress: message.progress });
        else if (message.type === "text") this.#options.onEvent({ ...message, job: id });
        else resolve(message);
      });
      worker.on("error", ({ message }) => resolve({ type: "failed", message, isBug: true }));
      worker.on("exit", () => resolve({ type: "cancelled" }));
    });
    const ended = { ...this.get(id), ended: Date.now(), progress: null };
    try {
      if (end.type === "done") {
        await writeFileAtomically(join(this.folderOf(id), RESULT), JSON.stringify(end.result ?? null));
        await this.#keep({ ...ended, state: "done" });
      } else if (end.type === "cancelled") await this.#keep({ ...ended, state: "cancelled" });
      else
        await this.#keep({
          ...ended,
          state: "failed",
          error: end.message,
          ...(end.option ? { option: end.option } : {}),
        });
    } catch (error) {
      const message = isAnySystemError(error) ? systemMessage(error) : String(error);
      this.#announce({ ...ended, state: "failed", error: message });
    }
    this.#running.delete(id);
    await worker.terminate();
  }

  async #keep(job: Job): Promise<void> {
    await writeFileAtomically(join(this.#options.folder, job.id, FILE), JSON.stringify(job));
    this.#announce(job);
  }

  #announce(job: Job): void {
    this.#jobs.set(job.id, job);
    this.#options.onEvent({ type: "job", job });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
