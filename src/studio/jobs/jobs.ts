// Long operations, each in a thread of its own. A job's folder has what it is and how it went (job.json), and what it made
// (result.json, and files of its kind), so that a page that is loaded again, or another server, finds it.
import { randomBytes } from "node:crypto";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isFile, readBounded, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { type LayergraftError, messageOf, usageError } from "../../kit/index.js";
import {
  type Job,
  type JobInput,
  type JobKind,
  job as jobSchema,
  made as madeSchema,
  type StudioEvent,
} from "../protocol/index.js";
import { openThread, type Thread, type ThreadEvent } from "../threads/thread.js";
import type { JobOrder } from "./kinds.js";

const FILE = "job.json";
const RESULT = "result.json";
const MAX_RESULT_BYTES = 500_000_000;

interface Running {
  readonly thread: Thread;
  readonly ended: Promise<void>;
}

export interface JobsOptions {
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
    for (const found of await readJobs(options.folder)) {
      if (found.state === "running") await jobs.#keep({ ...found, state: "interrupted", ended: Date.now() });
      else jobs.#jobs.set(found.id, found);
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

  folderOf(id: string): string {
    return join(this.#options.folder, this.get(id).id);
  }

  async start<K extends JobKind>(
    kind: K,
    title: string,
    input: JobInput<K>,
    fingerprints?: Promise<Job["fingerprints"]>,
  ): Promise<Job> {
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
    const order: JobOrder = { kind, input, place: { project: this.#options.project, folder } };
    const thread = openThread();
    this.#running.set(id, { thread, ended: this.#follow(id, order, thread, fingerprints) });
    return job;
  }

  /** Cancels a job that runs. It ends by itself, or is ended after a while. */
  async cancel(id: string): Promise<Job> {
    const running = this.#running.get(this.get(id).id);
    if (!running) return this.get(id);
    await running.thread.stop();
    await running.ended;
    return this.get(id);
  }

  /** What a job made. @throws LayergraftError code `usage` if it is not done */
  async result(id: string): Promise<unknown> {
    const { state, title } = this.get(id);
    if (state !== "done") throw usageError(`${title} is not done. Wait for it, or start it again.`);
    return readResult(this.folderOf(id));
  }

  /** Cancels all jobs; another server shows them as cancelled. */
  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((id) => this.cancel(id)));
  }

  /** @param looked digests of its models, which may take a while to read; the work begins with what they are then */
  async #follow(id: string, order: JobOrder, thread: Thread, looked?: Promise<Job["fingerprints"]>): Promise<void> {
    const onEvent = (event: ThreadEvent) => {
      if (event.type === "progress") this.#announce({ ...this.get(id), progress: event.progress });
      else this.#options.onEvent({ ...event, job: id });
    };
    const end = (how: Partial<Job>): Job => ({ ...this.get(id), ended: Date.now(), progress: null, ...how });
    try {
      const fingerprints = looked && (await looked.catch(() => ({})));
      if (fingerprints) await this.#keep({ ...this.get(id), fingerprints });
      const how = await thread.ask("job", order, { onEvent }).then(async (result): Promise<Partial<Job>> => {
        await writeFileAtomically(join(this.folderOf(id), RESULT), JSON.stringify(result ?? null));
        const { data: made } = madeSchema.safeParse(result);
        return { state: "done", ...(made ? { made } : {}) };
      }, failureOf);
      await this.#keep(end(how));
    } catch (error) {
      this.#announce(end({ state: "failed", error: messageOf(error) }));
    }
    this.#running.delete(id);
    thread.end();
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

/** Jobs as their folders have them, the earliest first; none where there is no folder. */
export async function readJobs(folder: string): Promise<Job[]> {
  const ids = (await readdir(folder).catch(() => [])).sort();
  const kept = await Promise.all(ids.map((id) => readJsonObject(join(folder, id, FILE)).catch(() => null)));
  const found = kept.map((one) => jobSchema.safeParse(one).data);
  return found.filter((one, i) => one?.id === ids[i]) as Job[];
}

/** What a job made, from its folder. @throws LayergraftError code `usage` if its file is not one that the studio writes */
export async function readResult(folder: string): Promise<unknown> {
  const file = join(folder, RESULT);
  const wrong = () => usageError(`${file} is not the result of a job. Start the job again.`, { file });
  if (!(await isFile(file))) throw wrong();
  const bytes = await readBounded(file, MAX_RESULT_BYTES, wrong);
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw wrong();
  }
}

function failureOf(error: Error): Partial<Job> {
  const { code, where } = error as Partial<LayergraftError>;
  if (code === "cancelled") return { state: "cancelled" };
  return { state: "failed", error: error.message, ...(where?.option ? { option: where.option } : {}) };
}
