// What an evaluation leaves behind, as data: scores with everything they depend on, and every sample.
import type { BackendIdentity } from "../backends/backend.js";
import type { SandboxIdentity } from "../sandbox/sandbox.js";
import type { Score } from "../scoring/scores.js";
import type { Message, Metric, Reading, Verdict } from "../tasks/index.js";

/** Raised when a reader of today's files could not read the new ones. */
export const FORMAT = 1;

/** What went otherwise than one would wish, counted; every one of these is named in the samples too. */
export interface FaultCounts {
  /** Requests that the backend refused or could not answer rightly. */
  readonly refused: number;
  /** Items of which the server's list of likely next tokens lacked a choice. */
  readonly missing: number;
  /** Items without a verdict, for these reasons or others; no score counts them. */
  readonly unscored: number;
  /** Answers that reached the bound of new tokens before they ended. */
  readonly cut: number;
  /** Programs by how they ended, `passed` and `failed` left out; of tasks that execute. */
  readonly executions?: Readonly<Record<string, number>>;
}

export interface TaskResult {
  readonly task: string;
  readonly title: string;
  /** Full name and version: scores of different ones are not comparable. */
  readonly protocol: string;
  readonly shots: number;
  /** SHA-256 of everything that was asked and expected. */
  readonly promptsDigest: string;
  /** SHA-256 of how answers are read and scored; absent from results of earlier versions. */
  readonly judgingDigest?: string | undefined;
  readonly items: number;
  /** What a reader of the scores must know of the data. */
  readonly notes: readonly string[];
  /** How many items were answered how: generation, log-likelihood, next token (a choice among the likeliest ones). */
  readonly answeredBy: Readonly<Record<string, number>>;
  readonly problems: FaultCounts;
  readonly metrics: readonly StoredMetric[];
  readonly scores: readonly Score[];
}

/** A metric without its function. */
export type StoredMetric = Omit<Metric, "score">;

/** Results of an evaluation, as in results.json: scores, and all that they depend on. */
export interface Results {
  readonly format: number;
  /** Version of layergraft. */
  readonly layergraft: string;
  /** What was evaluated, as it was named. */
  readonly source: string;
  readonly backend: BackendIdentity;
  /** What programs were executed in; null where none were. */
  readonly sandbox: SandboxIdentity | null;
  readonly settings: EvaluationSettings;
  readonly tasks: readonly TaskResult[];
}

export interface EvaluationSettings {
  /** At most so many items of each task; null: all. */
  readonly limit: number | null;
  /** Of the bootstrap. */
  readonly seed: number;
  readonly resamples: number;
}

/** One item's way from the prompt to the verdict. */
export interface Sample {
  readonly id: string;
  readonly group?: string;
  readonly prompt: SamplePrompt;
  readonly gold: string;
  /** The text, or the log-probability of each choice, null where it is not known; null where there is no answer. */
  readonly output: string | readonly (number | null)[] | null;
  /** `length`: the answer reached the bound of new tokens. */
  readonly finish?: "stop" | "length";
  /** Why there is no answer. */
  readonly fault?: string;
  readonly reading: Reading | null;
  /** How the program fared, where one was executed. */
  readonly execution?: { readonly outcome: string; readonly detail: string };
  readonly verdict: Verdict | null;
}

/** A prompt's own part; what it shares with others is in shared-prompts.json under this digest. */
export type SamplePrompt =
  | { readonly shared: string; readonly own: string }
  | { readonly shared: string; readonly messages: readonly Message[] };

/** What differs from run to run, and so stands in a file of its own. */
export interface RunRecord {
  readonly started: string;
  readonly seconds: number;
  readonly node: string;
  readonly platform: string;
  /** Address of the server, where there is one. */
  readonly url: string | null;
  /** Answers that an earlier, stopped run had left. */
  readonly kept: number;
  readonly tasks: Readonly<Record<string, { readonly seconds: number; readonly itemsPerSecond: number | null }>>;
}
