import type { Finish } from "../../engine/index.js";
import type { BackendIdentity } from "../backends/backend.js";
import type { SandboxIdentity } from "../sandbox/sandbox.js";
import type { Score } from "../scoring/scores.js";
import type { AnswerSettings, Benchmark, Message, Metric, Reading, Verdict } from "../tasks/open-tasks.js";

/** Raised when a reader of today's files could not read the new ones. */
export const FORMAT = 1;

/** Counts of answers with problems; the samples name them. */
export interface ProblemCounts {
  /** Items that the backend refused or could not answer. */
  readonly refused: number;
  /** Items with a choice that is missing from the server's list of likely next tokens. */
  readonly missing: number;
  /** Items whose highest log-likelihood several choices have. */
  readonly tied: number;
  /** Items without a verdict; they are not in the scores. */
  readonly unscored: number;
  /** Answers that reached the limit of new tokens. */
  readonly cut: number;
  /** Programs by how they ended, `passed` and `failed` left out; of tasks that execute. */
  readonly executions?: Readonly<Record<string, number>>;
}

export interface TaskResult {
  readonly task: string;
  readonly title: string;
  /** Where the hub shows scores of it; absent: nowhere. */
  readonly benchmark?: Benchmark | undefined;
  /** Full name and version: scores of different ones are not comparable. */
  readonly protocol: string;
  readonly shots: number;
  /** How answers in text were drawn; absent: greedily, once. */
  readonly answers?: AnswerSettings | undefined;
  /** SHA-256 of everything that was asked and expected. */
  readonly promptsDigest: string;
  /** SHA-256 of how answers are read and scored; absent from results of earlier versions. */
  readonly judgingDigest?: string | undefined;
  readonly items: number;
  /** Notes on the data, such as missing rows. */
  readonly notes: readonly string[];
  /** How many items were answered how: generation, log-likelihood, next token (a choice among the likeliest ones). */
  readonly answeredBy: Readonly<Record<string, number>>;
  readonly problems: ProblemCounts;
  /** first: the first of tied choices was the answer. Absent: a tie of k choices was worth 1/k. */
  readonly ties?: "first" | undefined;
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
  /** What was evaluated: a path or a name. */
  readonly source: string;
  readonly backend: BackendIdentity;
  /** What programs were executed in; null where none were. */
  readonly sandbox: SandboxIdentity | null;
  readonly settings: EvaluationSettings;
  readonly tasks: readonly TaskResult[];
}

export interface EvaluationSettings {
  /** Most items of each task; null: all. */
  readonly limit: number | null;
  /** Random seed of the bootstrap. */
  readonly seed: number;
  readonly resamples: number;
  /** Whether items without an answer are in no score. Absent: they count as wrong. */
  readonly skipUnanswered?: boolean | undefined;
}

/** One answer to an item, from its prompt to its verdict. */
export interface Sample {
  readonly id: string;
  readonly group?: string;
  /** Which of several answers to the item, from 1. */
  readonly repeat?: number | undefined;
  readonly prompt: SamplePrompt;
  readonly gold: string;
  /** The text, or the log-probability of each choice (null if not known). Null without an answer. */
  readonly output: string | readonly (number | null)[] | null;
  readonly finish?: Finish;
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

/** What differs between runs, stored apart from the results. */
export interface RunRecord {
  /** When the first attempt began, as a wall clock showed it: `2026-01-31T12:00:00`. Chat templates that write the date write this one. */
  readonly started: string;
  /** Of the last attempt. */
  readonly seconds: number;
  readonly node: string;
  readonly platform: string;
  /** Address of the server, where there is one. */
  readonly url: string | null;
  /** Answers from an interrupted run. */
  readonly kept: number;
  readonly tasks: Readonly<Record<string, { readonly seconds: number; readonly itemsPerSecond: number | null }>>;
}
