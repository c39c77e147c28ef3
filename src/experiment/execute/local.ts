// Steps in processes of this machine: as many workers as cores and memory allow, each taking one step after another, so
// that what a process has loaded serves the next step, too. A worker that dies loses its step and is replaced.
import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { availableParallelism, freemem, hostname, totalmem } from "node:os";
import { z } from "zod";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";

export interface LocalOptions {
  /** Cores of all steps together; default those of the machine. */
  readonly totalCores?: number | undefined;
  /** Cores of one step; default 1. */
  readonly cores?: number | undefined;
  /** Bytes of all steps together; default three quarters of the machine's. */
  readonly totalMemory?: number | undefined;
  /** Bytes of one step; default unknown, so that cores alone decide. */
  readonly memory?: number | undefined;
  /** The program of a worker; for tests. */
  readonly program?: string;
}

/** What a worker says. */
export const workerMessage = z.discriminatedUnion("say", [
  z.object({ say: z.literal("progress"), share: z.number(), what: z.string() }),
  z.object({ say: z.literal("done"), seconds: z.number() }),
  z.object({ say: z.literal("failed"), reason: z.string(), seconds: z.number() }),
]);
export type WorkerMessage = z.output<typeof workerMessage>;

/** What a worker is told. */
export interface WorkerOrder {
  readonly folder: string;
}

/** How many steps run at once. */
export function workersOf({ totalCores, cores = 1, totalMemory, memory }: LocalOptions): number {
  const byCores = Math.floor((totalCores ?? availableParallelism()) / cores);
  const bytes = totalMemory ?? Math.max(freemem(), 0.75 * totalmem());
  const byMemory = memory === undefined ? Number.POSITIVE_INFINITY : Math.floor(bytes / memory);
  // One step at least: an estimate that is too large must not keep an experiment from ever beginning.
  return Math.max(1, Math.min(byCores, byMemory));
}

interface Worker {
  readonly process: ChildProcess;
  step: ReadyStep | undefined;
}

/** How long a worker that was asked to stop may take, in milliseconds; a checkpoint being written should end. */
const PATIENCE = 15_000;

export class LocalExecutor implements Executor {
  readonly #most: number;
  readonly #program: string;
  readonly #events: ExecutorEvents;
  readonly #workers = new Set<Worker>();
  #isStopping = false;

  constructor(options: LocalOptions, events: ExecutorEvents) {
    this.#most = workersOf(options);
    this.#program = options.program ?? createRequire(import.meta.url).resolve("#experiment-worker");
    this.#events = events;
  }

  get free(): number {
    return this.#most - this.#busy().length;
  }

  #busy(): Worker[] {
    return [...this.#workers].filter(({ step }) => step !== undefined);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    for (const step of steps) {
      const worker = [...this.#workers].find((one) => one.step === undefined) ?? this.#hire();
      worker.step = step;
      await this.#events.onStarted(step.key, { kind: "local", host: hostname(), pid: worker.process.pid ?? 0 });
      const order: WorkerOrder = { folder: step.folder };
      worker.process.send(order);
    }
  }

  /** Processes of a runner that is gone went with it. */
  async adopt(): Promise<ReadonlySet<string>> {
    return new Set();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#workers].map((worker) => dismiss(worker.process)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => dismiss(worker.process)));
  }

  #hire(): Worker {
    // Its own process group, so that Ctrl-C reaches the runner alone, which then stops its workers in order.
    const process = fork(this.#program, [], { detached: true, stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const worker: Worker = { process, step: undefined };
    this.#workers.add(worker);
    process.on("message", (message) => this.#hear(worker, message));
    process.on("exit", (code, signal) => this.#left(worker, code, signal));
    process.on("error", (error) => this.#finish(worker, { outcome: "lost", reason: error.message }));
    return worker;
  }

  #hear(worker: Worker, message: unknown): void {
    const { step } = worker;
    const said = workerMessage.safeParse(message);
    if (!step || !said.success) return;
    const { data } = said;
    if (data.say === "progress") this.#events.onProgress?.(step.key, data.share, data.what);
    else if (data.say === "done") this.#finish(worker, { outcome: "done", seconds: data.seconds });
    else this.#finish(worker, { outcome: "failed", reason: data.reason, seconds: data.seconds });
  }

  #left(worker: Worker, code: number | null, signal: NodeJS.Signals | null): void {
    this.#workers.delete(worker);
    const how = signal
      ? `was ended by ${signal}${signal === "SIGKILL" ? ", perhaps for lack of memory" : ""}`
      : `left with code ${code}`;
    this.#finish(worker, { outcome: "lost", reason: this.#isStopping ? "stopped" : `its process ${how}` });
  }

  #finish(worker: Worker, outcome: Outcome): void {
    const { step } = worker;
    if (!step) return;
    worker.step = undefined;
    this.#events.onFinished({ ...outcome, key: step.key });
  }
}

/** Lets a process end by itself, or ends it. */
async function dismiss(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const left = new Promise<void>((resolve) => process.once("exit", () => resolve()));
  process.kill("SIGTERM");
  const timer = setTimeout(() => process.kill("SIGKILL"), PATIENCE);
  await left;
  clearTimeout(timer);
}
