// The state is in the steps' folders, so an experiment can be stopped and resumed at any time.
import { LockedFolder } from "../../kit/files/index.js";
import { CancelledError } from "../../kit/index.js";
import type { Executor, ExecutorEvents, Finished, ReadyStep } from "../execute/executor.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { ModelName, Step, StepKind } from "../steps/step.js";
import { type Attempt, readAttempt, type StepRunnerId, type StepSettings, saveAttempt } from "../steps/step-state.js";
import { waitingSteps } from "./estimate.js";
import type { Store } from "./store.js";
import type { StoredSteps } from "./stored-steps.js";

export type RunEvent = RunEventStep & RunEventDetail;

interface RunEventStep {
  readonly label: string;
  readonly kind: StepKind;
  readonly key: string;
  /** Of an evaluation: the model as the plan calls it, and the task. */
  readonly model?: ModelName;
  readonly task?: string;
}

type RunEventDetail =
  | { readonly event: "started" }
  | { readonly event: "progress"; readonly share: number; readonly what: string }
  | {
      readonly event: "done";
      readonly seconds: number;
      /** Of an evaluation, from 0 to 1; a hundredth of a score in points. */
      readonly score?: number;
      /** What it is printed as. */
      readonly scale?: "share" | "points";
      /** Number of items, if the step has all of its task; the label of another says how many. */
      readonly items?: number;
      /** What a person should know of it. */
      readonly notes?: readonly string[];
    }
  | { readonly event: "failed" | "lost"; readonly reason: string };

export interface Counts {
  readonly done: number;
  readonly running: number;
  readonly failed: number;
  /** Known steps that are not done, running or failed. */
  readonly left: number;
  /** About how many more depend on results. */
  readonly waiting: number;
}

export interface RunOptions {
  readonly known: StoredSteps;
  readonly settings: (step: Step) => StepSettings;
  readonly executor: (events: ExecutorEvents) => Executor;
  /** Attempts at a step whose machine fails. */
  readonly attempts: number;
  readonly signal?: AbortSignal | undefined;
  readonly onEvent?: ((event: RunEvent, counts: Counts) => void) | undefined;
}

export interface RunSummary {
  readonly counts: Counts;
  readonly expansion: Expansion;
  readonly failures: readonly { readonly label: string; readonly reason: string }[];
}

/**
 * Runs what is left of an experiment. A failed step is not retried; steps that do not depend on it still run.
 * @throws LayergraftError code `locked` if another process runs it
 * @throws CancelledError if the signal fires; finished steps are kept
 */
export async function runExperiment(options: RunOptions): Promise<RunSummary> {
  return new LockedFolder(options.known.store.folder).locked(() => new Run(options).run());
}

class Run {
  readonly #options: RunOptions;
  readonly #store: Store;
  readonly #executor: Executor;
  readonly #running = new Map<string, Step>();
  readonly #failed = new Map<string, string>();
  readonly #lost = new Map<string, number>();
  readonly #finished: Finished[] = [];
  #wake: () => void = () => undefined;
  #expansion: Expansion;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#store = options.known.store;
    this.#executor = options.executor({
      onStarted: (key, runner) => this.#save(key, { state: "running", since: new Date().toISOString(), runner }),
      onFinished: (finished) => {
        this.#finished.push(finished);
        this.#wake();
      },
      onProgress: (key, share, what) => {
        const step = this.#running.get(key);
        if (step) this.#emit(step, { event: "progress", share, what });
      },
    });
    const none = { models: [], searches: [], overlaps: [], changes: [], selections: [], waiting: [], warnings: [] };
    this.#expansion = { steps: [], runs: new Map(), ...none };
  }

  async run(): Promise<RunSummary> {
    const { signal } = this.#options;
    const onAbort = () => this.#wake();
    signal?.addEventListener("abort", onAbort);
    try {
      await this.#expand();
      await this.#adopt();
      for (;;) {
        if (signal?.aborted) await this.#cancel();
        await this.#startReady();
        if (signal?.aborted) continue;
        if (this.#running.size === 0 && this.#finished.length === 0) break;
        await this.#waitForEnd();
        await this.#settle();
      }
    } catch (error) {
      if (!(error instanceof CancelledError)) {
        await this.#executor.stop();
        await this.#settle().catch(() => undefined); // the first error is thrown
      }
      throw error;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      await this.#executor.close();
    }
    const failures = this.#expansion.steps.flatMap(({ key, label }) => {
      const reason = this.#failed.get(key);
      return reason === undefined ? [] : [{ label, reason }];
    });
    return { counts: this.#counts(), expansion: this.#expansion, failures };
  }

  async #expand(): Promise<void> {
    const before = this.#expansion.steps.length;
    this.#expansion = (await this.#options.known.read(this.#running)).expansion;
    const { steps } = this.#expansion;
    if (steps.length !== before) await this.#store.index(steps);
  }

  #save(key: string, attempt: Attempt | undefined): Promise<void> {
    return saveAttempt(this.#store.stepFolder(key), attempt);
  }

  /** Takes over steps that an earlier runner started and that still run. */
  async #adopt(): Promise<void> {
    const begun: { readonly step: Step; readonly runner: StepRunnerId }[] = [];
    for (const step of this.#expansion.steps) {
      if (this.#store.result(step.key)) continue;
      const attempt = await readAttempt(this.#store.stepFolder(step.key));
      if (attempt?.state === "running") begun.push({ step, runner: attempt.runner });
    }
    for (const { step } of begun) this.#running.set(step.key, step);
    const taken = await this.#executor.adopt(begun.map(({ step, runner }) => ({ step: this.#ready(step), runner })));
    for (const { step } of begun) {
      if (taken.has(step.key)) continue;
      this.#running.delete(step.key);
      await this.#save(step.key, { state: "stopped", reason: "its process is gone" });
    }
  }

  async #startReady(): Promise<void> {
    const fitting = (steps: readonly Step[]) => this.#executor.fitting(steps.map(({ kind }) => kind));
    let ready = this.#readySteps();
    // A large plan takes a second to expand, so expand it only if all that is ready can start.
    if (!this.#options.known.isCurrent && fitting(ready) === ready.length) {
      await this.#expand();
      ready = this.#readySteps();
    }
    const chosen = ready.slice(0, fitting(ready));
    for (const step of chosen) {
      // To submit a thousand jobs takes minutes.
      if (this.#options.signal?.aborted) return;
      await this.#store.prepare(step, { ...this.#options.settings(step), started: await this.#store.started() });
      this.#running.set(step.key, step);
      this.#emit(step, { event: "started" });
      await this.#executor.start([this.#ready(step)]);
    }
  }

  #readySteps(): Step[] {
    const isDone = (key: string) => this.#store.result(key) !== undefined;
    return this.#expansion.steps.filter(({ key, needs }) => {
      if (isDone(key) || this.#running.has(key) || this.#failed.has(key)) return false;
      return needs.every(isDone);
    });
  }

  #ready({ key, kind, label }: Step): ReadyStep {
    return { key, kind, label, folder: this.#store.stepFolder(key) };
  }

  async #waitForEnd(): Promise<void> {
    if (this.#finished.length > 0 || this.#options.signal?.aborted) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  async #settle(): Promise<void> {
    for (let finished = this.#finished.shift(); finished; finished = this.#finished.shift()) {
      const { key } = finished;
      const step = this.#running.get(key);
      this.#running.delete(key);
      if (!step) continue;
      if (finished.outcome === "lost") {
        await this.#lose(step, finished.reason);
      } else if (finished.outcome === "failed") {
        await this.#fail(step, finished.reason);
      } else if (await this.#store.load(key)) {
        await this.#save(key, undefined);
        const { score, items } = this.#store.evaluated(key) ?? {};
        const { seconds } = finished;
        const scale = step.kind === "evaluate" ? this.#options.known.facts.task(step.request).scale : "share";
        const count = step.kind === "evaluate" && step.items === null && items ? { items: items.length } : {};
        const { notes } = this.#store.result(key) ?? {};
        const scored = score === undefined ? {} : { score, scale, ...count };
        this.#emit(step, { event: "done", seconds, ...scored, ...(notes ? { notes } : {}) });
      } else {
        await this.#fail(step, "it ended without a result");
      }
    }
  }

  async #lose(step: Step, reason: string): Promise<void> {
    const { key } = step;
    const times = (this.#lost.get(key) ?? 0) + 1;
    this.#lost.set(key, times);
    if (times >= this.#options.attempts && !this.#options.signal?.aborted) {
      await this.#fail(step, `${reason}; tried ${times} times`);
      return;
    }
    await this.#save(key, { state: "stopped", reason });
    this.#emit(step, { event: "lost", reason });
  }

  async #fail(step: Step, reason: string): Promise<void> {
    this.#failed.set(step.key, reason);
    await this.#save(step.key, { state: "failed", reason });
    this.#emit(step, { event: "failed", reason });
  }

  async #cancel(): Promise<never> {
    await this.#executor.stop();
    await this.#settle();
    const { done, running, left: notBegun, waiting } = this.#counts();
    const left = notBegun + running; // what ran was stopped
    const are = done === 1 ? "step is" : "steps are";
    const rest = waiting > 0 ? `about ${left + waiting}` : `${left}`;
    throw new CancelledError(`stopped; ${done} ${are} done and ${rest} left. Run it again to resume.`);
  }

  #emit(step: Step, detail: RunEventDetail): void {
    const { label, kind, key } = step;
    const asked = step.kind === "evaluate" ? { model: step.of, task: step.request.task } : {};
    this.#options.onEvent?.({ label, kind, key, ...asked, ...detail }, this.#counts());
  }

  #counts(): Counts {
    return countSteps(this.#expansion, (key) =>
      this.#store.result(key) ? "done" : this.#failed.has(key) ? "failed" : this.#running.has(key) ? "running" : "left",
    );
  }
}

export function countSteps(
  expansion: Expansion,
  stateOf: (key: string) => "done" | "failed" | "running" | "left",
): Counts {
  const counts = { done: 0, failed: 0, running: 0, left: 0 };
  for (const { key } of expansion.steps) counts[stateOf(key)]++;
  return { ...counts, waiting: waitingSteps(expansion) };
}
