import type { StepKind } from "../steps/step.js";
import type { StepRunnerId } from "../steps/step-state.js";

/** A step that can run. Its folder has what it does. */
export interface ReadyStep {
  readonly key: string;
  readonly kind: StepKind;
  readonly label: string;
  /** Absolute. */
  readonly folder: string;
}

export type Outcome =
  | { readonly outcome: "done"; readonly seconds: number }
  /** It would fail again. */
  | { readonly outcome: "failed"; readonly reason: string; readonly seconds: number }
  /** Its process died or was stopped. It can be retried. */
  | { readonly outcome: "lost"; readonly reason: string };

export type Finished = Outcome & { readonly key: string };

export interface ExecutorEvents {
  /** Called when a step starts; awaited before the next one. */
  readonly onStarted: (key: string, runner: StepRunnerId) => Promise<void>;
  readonly onFinished: (finished: Finished) => void;
  /** Called with the share of a step that is done, from 0 to 1, and a detail. */
  readonly onProgress?: ((key: string, share: number, what: string) => void) | undefined;
}

export interface Executor {
  /** How many of further steps, the first of a list, can start now. @param kinds of the list */
  fitting(kinds: readonly StepKind[]): number;
  start(steps: readonly ReadyStep[]): Promise<void>;
  /** Takes over steps of an earlier runner that still run. @returns their keys */
  adopt(steps: readonly { readonly step: ReadyStep; readonly runner: StepRunnerId }[]): Promise<ReadonlySet<string>>;
  /** Stops all running steps, which are lost. */
  stop(): Promise<void>;
  /** Releases processes and timers. No step may be running. */
  close(): Promise<void>;
}
