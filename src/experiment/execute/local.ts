// Runs steps in worker processes on this machine. A worker runs one step after another, so models stay loaded.
import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { availableParallelism, hostname, totalmem } from "node:os";
import { Answerer } from "../../kit/index.js";
import { freeMemory } from "../../kit/memory/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { StepKind } from "../steps/step.js";
import type { Executor, ExecutorEvents, Outcome, ReadyStep } from "./executor.js";
import type { WorkerAnswers } from "./worker.js";

type Limits = Pick<ExperimentPlan["executor"], "total_cores" | "total_memory">;
type Needs = Pick<ExperimentPlan["executor"], "cores" | "memory">;

/** Cores and bytes of all steps together, by default all cores and three quarters of the memory. */
export type LocalOptions = Limits & {
  /** Of one step; default one core. */
  readonly resources?: (kind: StepKind) => Needs;
  /** Program of a worker. For tests. */
  readonly program?: string;
};

/** How far a step is, from 0 to 1, and a detail. */
export interface WorkerProgress {
  readonly share: number;
  readonly what: string;
}

/** How many steps run in parallel; at least one, even if a step may need more than there is. */
export function workersOf(options: Limits & Needs): number {
  const { cores, bytes } = totals(options);
  const byMemory = options.memory === undefined ? Number.POSITIVE_INFINITY : Math.floor(bytes / options.memory);
  return Math.max(1, Math.min(Math.floor(cores / (options.cores ?? 1)), byMemory));
}

function totals({ total_cores: cores, total_memory: bytes }: Limits) {
  return { cores: cores ?? availableParallelism(), bytes: bytes ?? usableMemory() };
}

/** What programs of the machine take now may be free later; a container's limit stays. */
function usableMemory(): number {
  const { bytes, limit } = freeMemory();
  return limit === "machine" ? Math.max(bytes, 0.75 * totalmem()) : bytes;
}

interface WorkerProcess {
  readonly process: ChildProcess;
  readonly answerer: Answerer<WorkerAnswers, WorkerProgress>;
  step: ReadyStep | undefined;
}

/** Milliseconds until a stopping worker is killed; enough to finish writing a checkpoint. */
const STOP_TIMEOUT = 15_000;

export class LocalExecutor implements Executor {
  readonly #totals: ReturnType<typeof totals>;
  readonly #resources: (kind: StepKind) => Needs;
  readonly #program: string;
  readonly #events: ExecutorEvents;
  readonly #workers = new Set<WorkerProcess>();
  #isStopping = false;

  constructor(options: LocalOptions, events: ExecutorEvents) {
    this.#totals = totals(options);
    this.#resources = options.resources ?? (() => ({}));
    this.#program = options.program ?? createRequire(import.meta.url).resolve("#experiment-worker");
    this.#events = events;
  }

  fitting(kinds: readonly StepKind[]): number {
    let { cores, bytes } = this.#totals;
    const take = (kind: StepKind) => {
      const needs = this.#resources(kind);
      cores -= needs.cores ?? 1;
      bytes -= needs.memory ?? 0;
      return cores >= 0 && bytes >= 0;
    };
    const running = [...this.#workers].flatMap(({ step }) => step?.kind ?? []);
    running.forEach(take);
    const rest = kinds.findIndex((kind) => !take(kind));
    // A step that needs more than there is runs alone.
    return rest < 0 ? kinds.length : Math.max(rest, running.length === 0 ? 1 : 0);
  }

  async start(steps: readonly ReadyStep[]): Promise<void> {
    for (const step of steps) {
      const worker = [...this.#workers].find((one) => one.step === undefined) ?? this.#fork();
      worker.step = step;
      await this.#events.onStarted(step.key, { kind: "local", host: hostname(), pid: worker.process.pid ?? 0 });
      const onEvent = ({ share, what }: WorkerProgress) => this.#events.onProgress?.(step.key, share, what);
      worker.answerer.ask("run", step.folder, { onEvent }).then(
        (outcome) => this.#finish(worker, outcome),
        ({ message }: Error) => this.#finish(worker, { outcome: "lost", reason: message }),
      );
    }
  }

  /** Workers end with their runner. */
  async adopt(): Promise<ReadonlySet<string>> {
    return new Set();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => stopWorker(worker.process)));
  }

  #fork(): WorkerProcess {
    // In its own process group: Ctrl-C reaches only the runner, which stops its workers.
    const process = fork(this.#program, [], { detached: true, stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const worker: WorkerProcess = { process, answerer: new Answerer(process), step: undefined };
    this.#workers.add(worker);
    process.on("exit", (code, signal) => this.#exited(worker, code, signal));
    return worker;
  }

  #exited(worker: WorkerProcess, code: number | null, signal: NodeJS.Signals | null): void {
    this.#workers.delete(worker);
    const how = signal
      ? `was ended by ${signal}${signal === "SIGKILL" ? ", perhaps for lack of memory" : ""}`
      : `exited with code ${code}`;
    this.#finish(worker, { outcome: "lost", reason: this.#isStopping ? "stopped" : `its process ${how}` });
  }

  #finish(worker: WorkerProcess, outcome: Outcome): void {
    const { step } = worker;
    if (!step) return;
    worker.step = undefined;
    this.#events.onFinished({ ...outcome, key: step.key });
  }
}

async function stopWorker(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => process.once("exit", () => resolve()));
  process.kill("SIGTERM");
  const timer = setTimeout(() => process.kill("SIGKILL"), STOP_TIMEOUT);
  await exited;
  clearTimeout(timer);
}
