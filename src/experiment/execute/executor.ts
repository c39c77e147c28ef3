// What runs steps somewhere: processes of this machine, or jobs of a cluster.
import type { StepKind } from "../steps/step.js";
import type { StepRunnerId } from "../steps/step-state.js";

/** A step that is ready: what it does stands in its folder. */
export interface ReadyStep {
  readonly key: string;
  readonly kind: StepKind;
  readonly label: string;
  /** Absolute. */
  readonly folder: string;
}

/** What became of a step. */
export type Outcome =
  | { readonly outcome: "done"; readonly seconds: number }
  /** Its own error: it would fail again. */
  | { readonly outcome: "failed"; readonly reason: string; readonly seconds: number }
  /** What ran it went away, or was stopped: it may be tried again. */
  | { readonly outcome: "lost"; readonly reason: string };

export type Finished = Outcome & { readonly key: string };

export interface ExecutorEvents {
  /** A step has begun; it is noted before anything else happens. */
  readonly onStarted: (key: string, runner: StepRunnerId) => Promise<void>;
  readonly onFinished: (finished: Finished) => void;
  /** How far a step is, from 0 to 1, where it tells. */
  readonly onProgress?: ((key: string, share: number, what: string) => void) | undefined;
}

export interface Executor {
  /** How many more steps can be given now. */
  readonly free: number;
  /** Starts steps; each is told of once by `onFinished`. */
  start(steps: readonly ReadyStep[]): Promise<void>;
  /**
   * Takes over steps that an earlier runner began, where they still run.
   * @returns those that it took
   */
  adopt(steps: readonly { readonly step: ReadyStep; readonly runner: StepRunnerId }[]): Promise<ReadonlySet<string>>;
  /** Stops everything that runs; those steps are lost. */
  stop(): Promise<void>;
  /** Gives back what it holds. Nothing must be running. */
  close(): Promise<void>;
}
