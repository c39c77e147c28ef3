// What runs steps somewhere: processes of this machine (local.ts) or jobs of a cluster (slurm.ts). Which steps, and when,
// is run/runner.ts's; what became of them is the ledger's.
import { RecipeError } from "../../core/errors.js";
import { MOST_THREADS } from "../../core/threads.js";
import type { StepRunnerId } from "../ledger.js";
import type { StepKind } from "../steps/step.js";

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

/**
 * @param what the number is, such as `executor.cores`
 * @throws {RecipeError} if it is not a whole number from 1 to 256
 */
export function checkCores(cores: number, what: string): void {
  if (Number.isSafeInteger(cores) && cores >= 1 && cores <= MOST_THREADS) return;
  throw new RecipeError(`${what}: ${cores} is not a whole number from 1 to ${MOST_THREADS}`, [], { field: what });
}
