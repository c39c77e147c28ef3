// The kinds of jobs: each has its loop over a piece, and says how the reports of its pieces add up.
import { compare, compareCopy, copy } from "./copy-jobs.js";
import type { Evaluator } from "./evaluate-block.js";
import type { Inputs, OutputFiles, Traffic } from "./files.js";
import { analyze, count, delta, gram, lowRank, signs, ties } from "./measure-jobs.js";
import type { Job, Payload } from "./program.js";
import { encode, write } from "./write-jobs.js";

/** What a thread has for its jobs. */
export interface Tools {
  readonly inputs: Inputs;
  readonly outputs: OutputFiles;
  /** Made when it is first used. */
  readonly evaluator: Evaluator;
  /** Bytes that are not published yet. */
  readonly traffic: Traffic;
  readonly publish: () => void;
  /** Throws if the pass is stopped. */
  readonly check: () => void;
}

/** Begins the work of a thread, with memory of its own. What it returns does the elements or bytes [begin, end) of a job. */
type Begin<J, Report> = (tools: Tools) => (job: J, begin: number, end: number) => Report;

/** A kind whose pieces report numbers, which stay apart. */
export interface NumberKind<J> {
  readonly begin: Begin<J, readonly number[]>;
}

/** A kind whose pieces report payloads. */
export interface PayloadKind<J, P extends Payload> {
  readonly begin: Begin<J, P>;
  /** Adds the payload of the next piece to the total of those before. */
  readonly join: (total: P, piece: P, job: J) => P;
}

type Kind = NumberKind<Job> | PayloadKind<Job, Payload>;

const KINDS = {
  copy,
  write,
  encode,
  "compare-copy": compareCopy,
  compare,
  delta,
  signs,
  ties,
  analyze,
  count,
  gram,
  "low-rank": lowRank,
} as const satisfies { readonly [Name in Job["kind"]]: unknown };

/** Does pieces of jobs in a thread; each kind begins with the first of its jobs. */
export function beginJobs(tools: Tools): (job: Job, begin: number, end: number) => readonly number[] | Payload {
  const begun = new Map<Job["kind"], ReturnType<Kind["begin"]>>();
  return (job, begin, end) => {
    const run = begun.get(job.kind) ?? (KINDS[job.kind] as Kind).begin(tools);
    begun.set(job.kind, run);
    return run(job, begin, end);
  };
}

/** Adds the payload of a piece to the total of those before. */
export function joinPieces<P extends Payload>(total: P, piece: P, job: Job): P {
  return (KINDS[job.kind] as PayloadKind<Job, Payload>).join(total, piece, job) as P;
}

/** Whether the pieces of a job report a payload. */
export function isReporting({ kind }: Job): boolean {
  return "join" in KINDS[kind];
}
