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

const copy: NumberKind<CopyJob> = {
  begin: ({ inputs, outputs, evaluator: { kernels } }) => {
    const copied = kernels.allocate(COPY_BLOCK_BYTES);
    return (job, begin, end) => {
      const { dtype } = job.to;
      let nonFinite = 0;
      for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
        const bytes = kernels.bytes(copied, Math.min(COPY_BLOCK_BYTES, end - at));
        inputs.read(job.from.file, job.from.offset + at, bytes);
        outputs.write(job.to.file, job.to.offset + at, bytes);
        if (!isFloatDType(dtype)) continue;
        kernels.clearPadding(copied, bytes.byteLength);
        nonFinite += kernels.countNonFinite(dtype, copied, bytes.byteLength / bytesPerElement(dtype));
      }
      return [nonFinite];
    };
  },
};

const compareCopy: NumberKind<CompareCopyJob> = {
  begin: ({ inputs }) => {
    const [a, b] = [new Uint8Array(COPY_BLOCK_BYTES), new Uint8Array(COPY_BLOCK_BYTES)];
    return (job, begin, end) => {
      const tally = new Tally(Math.ceil(bytesPerValue(job.from.dtype)));
      for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
        const length = Math.min(COPY_BLOCK_BYTES, end - at);
        inputs.read(job.from.file, job.from.offset + at, a.subarray(0, length));
        inputs.read(job.against.file, job.against.offset + at, b.subarray(0, length));
        tally.add(a.subarray(0, length), b.subarray(0, length), at);
      }
      return tally.result();
    };
  },
};

const compare: NumberKind<CompareJob> = {
  begin:
    ({ inputs, evaluator }) =>
    (job, begin, end) => {
      const dtype = requireRounded(job.against.dtype);
      const width = bytesPerElement(dtype);
      const tally = new Tally(width);
      eachBlock(job, begin, end, (from, to) => {
        const wanted = evaluator.round(job.value, from, to, dtype).bytes;
        const found = new Uint8Array((to - from) * width);
        inputs.read(job.against.file, job.against.offset + from * width, found);
        tally.add(wanted, found, from * width);
      });
      return tally.result();
    },
};

let ownConverter: Converter | undefined;
/** Of this thread, with memory of its own; few merges need it. */
function converter(): Converter {
  ownConverter ??= new Converter();
  return ownConverter;
}

/** Result per piece: values that are not finite, those that the merge made, and with a base the sums of `keptSums`. */
const write: NumberKind<WriteJob> = {
  begin:
    ({ outputs, evaluator }) =>
    (job, begin, end) => {
      const { value, to: target, rounded } = job;
      const counts = [0, 0, 0, 0, 0, 0];
      const add = (at: number, numbers: readonly number[]) => {
        for (const [i, one] of numbers.entries()) counts[at + i] = (counts[at + i] ?? 0) + one;
      };
      const dtype = requireRounded(rounded ?? target.dtype);
      eachBlock(job, begin, end, (from, to) => {
        const pair = job.base && evaluator.pair(value, job.base, from, to);
        const { bytes, nonFinite, made } = evaluator.round(value, from, to, dtype);
        const written = rounded ? bytesOf(converter().decode(rounded, bytes)) : bytes;
        outputs.write(target.file, target.offset + placeInSample(job, from) * bytesPerElement(target.dtype), written);
        add(0, [nonFinite, made]);
        if (!pair) return;
        const type = dtype as KernelDType;
        const kept = converter().decode(type, bytes.slice());
        const roundedBase = converter().decode(type, converter().encode(type, pair.base).bytes);
        add(2, keptSums({ ...pair, rounded: kept, roundedBase }));
      });
      return counts;
    },
};

/** Which of the elements that are read an element is, from 0. */
function placeInSample({ sampled }: WriteJob, at: number): number {
  const before = sampled?.filter(({ end }) => end <= at) ?? [];
  const begin = sampled?.[before.length]?.begin ?? 0;
  return before.reduce((sum, one) => sum + one.end - one.begin, at - begin);
}

const encode: NumberKind<EncodeJob> = {
  begin:
    ({ outputs, evaluator }) =>
    (job, begin, end) => {
      const { to, encoding, scales, within, turn } = job;
      let broken = 0;
      eachBlock(job, begin, end, (from, until) => {
        const encoded = evaluator.encode(job, from, until);
        broken += encoded.broken;
        if (scales) {
          const split = encoding as SplitEncoding;
          const parts = splitBlocks(split, encoded.bytes);
          const before = splitBytes(split, from);
          outputs.write(to.file, to.offset + before.codes, parts.codes);
          outputs.write(scales.file, scales.offset + before.scales, parts.scales);
          return;
        }
        const before = (from - (within?.begin ?? 0)) / (turn?.every ?? 1);
        outputs.write(to.file, to.offset + encodedBytes(encoding, before), encoded.bytes);
      });
      return [broken];
    },
};

const KINDS = {
  copy,
  write,
  encode,
  "compare-copy": compareCopy,
  compare,
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
