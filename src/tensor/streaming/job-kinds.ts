// The kinds of jobs: each has its loop over a piece, and says how the reports of its pieces add up.
import {
  bytesPerValue,
  Converter,
  encodedBytes,
  type KernelDType,
  keptSums,
  type SplitEncoding,
  splitBlocks,
  splitBytes,
} from "../../kernels/index.js";
import { bytesOf } from "../../kit/files/index.js";
import { bytesPerElement, isFloatDType } from "../../kit/index.js";
import type { Evaluator } from "./evaluate-block.js";
import type { Inputs, OutputFiles, Traffic } from "./files.js";
import { analyze, delta, gram, joint, lowRank, maxima, ties } from "./measure-jobs.js";
import { COPY_BLOCK_BYTES, cutIntoPieces, eachBlock, type Piece } from "./pieces.js";
import {
  type CompareCopyJob,
  type CompareJob,
  type CopyJob,
  type EncodeJob,
  type FilePosition,
  type Job,
  type Payload,
  type Program,
  requireRounded,
  type WriteJob,
} from "./program.js";

/** What a thread has for its jobs. */
export interface Tools {
  readonly program: Program;
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

/** Bytes that a job makes of a block. */
interface Made {
  /** Valid until the next block is made. */
  readonly parts: readonly { readonly bytes: Uint8Array; readonly to: FilePosition; readonly at: number }[];
  /** What the piece reports of a block that is written, and adds up. */
  readonly counts: () => readonly number[];
}

/** Begins a thread's work on blocks. What it returns makes the elements or bytes [from, to) of a job. */
type Maker<J> = (tools: Tools) => (job: J, from: number, to: number) => Made;

/** Takes the blocks of a piece in their order; the result is what the piece reports. */
interface Sink {
  readonly take: (made: Made) => void;
  readonly result: () => readonly number[];
}

/** The loop over the blocks of a piece: each is made, and written or compared. */
function blocks<J extends Job>(maker: Maker<J>, sinkOf: (tools: Tools, job: J) => Sink): NumberKind<J> {
  return {
    begin: (tools) => {
      const make = maker(tools);
      return (job, begin, end) => {
        const sink = sinkOf(tools, job);
        eachBlock(job, begin, end, (from, to) => sink.take(make(job, from, to)));
        return sink.result();
      };
    },
  };
}

function written({ outputs }: Tools): Sink {
  const sums: number[] = [];
  return {
    take({ parts, counts }) {
      for (const { bytes, to, at } of parts) outputs.write(to.file, to.offset + at, bytes);
      for (const [i, count] of counts().entries()) sums[i] = (sums[i] ?? 0) + count;
    },
    result: () => sums,
  };
}

function compared({ inputs }: Tools, { against }: CompareJob | CompareCopyJob): Sink {
  const tally = new Tally(Math.ceil(bytesPerValue(against.dtype)));
  let read = new Uint8Array();
  return {
    take({ parts }) {
      for (const { bytes, to, at } of parts) {
        if (read.length < bytes.length) read = new Uint8Array(bytes.length);
        const found = read.subarray(0, bytes.length);
        inputs.read(to.file, to.offset + at, found);
        tally.add(bytes, found, at);
      }
    },
    result: () => tally.result(),
  };
}

const copied: Maker<CopyJob | CompareCopyJob> = ({ inputs, evaluator: { kernels } }) => {
  const copy = kernels.allocate(COPY_BLOCK_BYTES);
  return (job, from, end) => {
    const to = job.kind === "copy" ? job.to : job.against;
    const bytes = kernels.bytes(copy, end - from);
    inputs.read(job.from.file, job.from.offset + from, bytes);
    const counts = () => {
      if (job.kind !== "copy" || !isFloatDType(job.to.dtype)) return [0];
      kernels.clearPadding(copy, bytes.byteLength);
      return [kernels.countNonFinite(job.to.dtype, copy, bytes.byteLength / bytesPerElement(job.to.dtype))];
    };
    return { parts: [{ bytes, to, at: from }], counts };
  };
};

let ownConverter: Converter | undefined;
/** Of this thread, with memory of its own; few merges need it. */
function converter(): Converter {
  ownConverter ??= new Converter();
  return ownConverter;
}

/** Counts: values that are not finite, those that the merge made, and with a base the sums of `keptSums`. */
const rounded: Maker<WriteJob | CompareJob> =
  ({ evaluator }) =>
  (job, from, end) => {
    const { value } = job;
    const to = job.kind === "write" ? job.to : job.against;
    const [as, base] = job.kind === "write" ? [job.rounded, job.base] : [];
    const dtype = requireRounded(as ?? to.dtype);
    const pair = base && evaluator.pair(value, base, from, end);
    const { bytes, nonFinite, made } = evaluator.round(value, from, end, dtype);
    const counts = () => {
      if (!pair) return [nonFinite, made];
      const type = dtype as KernelDType;
      const kept = converter().decode(type, bytes.slice());
      const roundedBase = converter().decode(type, converter().encode(type, pair.base).bytes);
      return [nonFinite, made, ...keptSums({ ...pair, rounded: kept, roundedBase })];
    };
    const stored = as ? bytesOf(converter().decode(as, bytes)) : bytes;
    const place = job.kind === "write" ? placeInSample(job, from) : from;
    return { parts: [{ bytes: stored, to, at: place * bytesPerElement(requireRounded(to.dtype)) }], counts };
  };

/** Which of the elements that are read an element is, from 0. */
function placeInSample({ sampled }: WriteJob, at: number): number {
  const before = sampled?.filter(({ end }) => end <= at) ?? [];
  const begin = sampled?.[before.length]?.begin ?? 0;
  return before.reduce((sum, one) => sum + one.end - one.begin, at - begin);
}

/** Counts values or scales that are not finite. */
const encoded: Maker<EncodeJob> =
  ({ evaluator }) =>
  (job, from, end) => {
    const { to, encoding, scales, within, turn } = job;
    const { bytes, broken } = evaluator.encode(job, from, end);
    const counts = () => [broken];
    if (!scales) {
      const before = (from - (within?.begin ?? 0)) / (turn?.every ?? 1);
      return { parts: [{ bytes, to, at: encodedBytes(encoding, before) }], counts };
    }
    const split = encoding as SplitEncoding;
    const [parts, before] = [splitBlocks(split, bytes), splitBytes(split, from)];
    return {
      parts: [
        { bytes: parts.codes, to, at: before.codes },
        { bytes: parts.scales, to: scales, at: before.scales },
      ],
      counts,
    };
  };

const KINDS = {
  copy: blocks<CopyJob>(copied, written),
  write: blocks<WriteJob>(rounded, written),
  encode: blocks<EncodeJob>(encoded, written),
  "compare-copy": blocks<CompareCopyJob>(copied, compared),
  compare: blocks<CompareJob>(rounded, compared),
  delta,
  joint,
  ties,
  analyze,
  gram,
  maxima,
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

/** Whether the pieces of a job report a payload. */
export function isReporting({ kind }: Job): boolean {
  return "join" in KINDS[kind];
}

/**
 * Combines the payloads of each job's pieces in the order of the pieces, independent of arrival.
 *
 * A job's total is passed on and dropped when its last piece arrives.
 */
export class Collector<P extends Payload> {
  readonly #jobs: readonly Job[];
  readonly #onJob: (job: number, total: P) => void;
  readonly #pieces: readonly Piece[];
  readonly #waiting = new Map<number, P>();
  /** By job: the piece that comes next, the total of those before, and how many are left. */
  readonly #next: number[] = [];
  readonly #left: number[] = [];
  readonly #totals = new Map<number, P>();

  constructor(jobs: readonly Job[], onJob: (job: number, total: P) => void) {
    this.#jobs = jobs;
    this.#onJob = onJob;
    this.#pieces = cutIntoPieces(jobs);
    this.#pieces.forEach(({ job }, index) => {
      this.#next[job] ??= index;
      this.#left[job] = (this.#left[job] ?? 0) + 1;
    });
  }

  add(index: number, payload: P): void {
    const job = this.#pieces[index]?.job ?? 0;
    this.#waiting.set(index, payload);
    for (let next = this.#next[job] ?? 0; ; next++) {
      const ready = this.#waiting.get(next);
      if (!ready || this.#pieces[next]?.job !== job) break;
      this.#waiting.delete(next);
      const total = this.#totals.get(job);
      this.#totals.set(job, total ? this.#join(total, ready, this.#jobs[job] as Job) : ready);
      this.#next[job] = next + 1;
      this.#left[job] = (this.#left[job] ?? 0) - 1;
    }
    const total = this.#totals.get(job);
    if (this.#left[job] !== 0 || !total) return;
    this.#totals.delete(job);
    this.#onJob(job, total);
  }

  #join(total: P, piece: P, job: Job): P {
    return (KINDS[job.kind] as PayloadKind<Job, Payload>).join(total, piece, job) as P;
  }
}

/** Counts differing elements and remembers the first, over byte ranges given in order. */
export class Tally {
  readonly #width: number;
  #differing = 0;
  #first = -1;

  constructor(width: number) {
    this.#width = width;
  }

  add(a: Uint8Array, b: Uint8Array, byteOffset: number): void {
    if (Buffer.compare(a, b) === 0) return;
    for (let at = 0; at < a.byteLength; at += this.#width) {
      let same = true;
      for (let i = at; i < at + this.#width; i++) same &&= a[i] === b[i];
      if (same) continue;
      if (this.#first < 0) this.#first = (byteOffset + at) / this.#width;
      this.#differing++;
    }
  }

  result(): readonly number[] {
    return [this.#differing, this.#first];
  }
}
