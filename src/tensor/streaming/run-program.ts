// Runs a program on threads: distributes pieces, reports progress, stops on request. Results do not depend on threads:
// each piece has its own place, and sums are formed in the order of the pieces.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { exists } from "../../kit/files/index.js";
import {
  type CallOptions,
  CancelledError,
  errorOf,
  LayergraftError,
  OutputError,
  plainError,
} from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { workspaceBytes } from "./evaluate-block.js";
import { Feed } from "./feed.js";
import { requireKernelMemory } from "./kernel-memory.js";
import { counterBytes } from "./measure-jobs.js";
import { COPY_BLOCK_BYTES, countBytes, cutIntoPieces, lengthOf, type Piece, RESULTS_PER_PIECE } from "./pieces.js";
import { codeOf, type Payload, type Program } from "./program.js";
import { isStreamed } from "./remote-ranges.js";
import type { PieceResults } from "./results.js";
import { NEXT, type Shared, stop, wake } from "./shared.js";
import { type Emit, PieceWorker, type ThreadReport } from "./thread.js";

/** Options of calls that stream weights from the disk. */
export interface StreamOptions extends CallOptions {
  /** Threads to use. Default: the machine's physical cores, fewer if `memory` is small. Results do not depend on it. */
  readonly threads?: number | undefined;
  /** Maximum bytes of all buffers together. Default: 256 MB, up to 1 GB if one thread needs it. Node.js itself needs about 60 MB more. */
  readonly memory?: number | undefined;
}

/** Progress is in bytes read and written together. */
export interface RunOptions extends StreamOptions {
  /** Name of the phase for progress. */
  readonly phase: string;
  /** Pieces done by an earlier run: one byte each, 1 for done. */
  readonly done?: Uint8Array | undefined;
  /** Called with the payloads of pieces, in any order; `index` is the piece's place in `RunResult.pieces`. */
  readonly onPiece?: ((index: number, payload: Payload) => void) | undefined;
  /**
   * Called every `checkpointMs` with the pieces done so far, except those with numbers to report, which a later run would
   * not know; awaited before the next call.
   */
  readonly onCheckpoint?: ((done: Uint8Array) => Promise<void>) | undefined;
  /** Milliseconds between checkpoints; 1000 by default. */
  readonly checkpointMs?: number | undefined;
}

export interface RunResult extends PieceResults {
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

const DEFAULT_MEMORY = 256_000_000;
/** Wide tensors of which an operation takes several at once need more for one thread; what needs more than this is asked for. */
const MOST_DEFAULT_MEMORY = 1_000_000_000;

// A thread with less to do costs more than it saves.
const WORTH_THREADS_BYTES = 64e6;
// Interval of progress reports: ten a second.
const PROGRESS_MS = 100;

/**
 * Runs all jobs of a program.
 * @throws CancelledError if the signal fires; what was done so far stays done
 * @throws OutputError if a write fails, such as on a full disk
 * @throws FormatError if an input changes during the pass
 */
export async function runProgram(program: Program, options: RunOptions): Promise<RunResult> {
  const { signal } = options;
  const pieces = cutIntoPieces(program.jobs);
  const unfed = share(pieces.length, options.done);
  const memory = options.memory ?? defaultMemory(program);
  // The threads have the other half.
  const feed = isStreamed(program) ? new Feed(program, pieces, unfed.done, memory / 2) : undefined;
  const shared: Shared = feed ? { ...unfed, window: feed.window } : unfed;
  const bytes = countBytes(program.jobs);
  const total = bytes.read + bytes.written;
  const doneBefore = bytesOfPieces(program, pieces, shared.done);
  const threads = chooseThreads(program, options, memory - (feed?.window.bytes.byteLength ?? 0), total);

  const traffic = () => [Number(Atomics.load(shared.traffic, 0)), Number(Atomics.load(shared.traffic, 1))] as const;
  const report = () => {
    if (total === 0) return;
    const [read, written] = traffic();
    // Factors of adapters are read once per thread, which the total does not count.
    const done = Math.min(total, doneBefore + read + written);
    options.onProgress?.({ phase: options.phase, done, total, unit: "bytes" });
  };
  const halt = () => {
    stop(shared.control);
    feed?.end();
  };
  report();
  signal?.addEventListener("abort", halt, { once: true });
  if (signal?.aborted) halt();
  let failure: { readonly error: unknown } | undefined;
  const timer = setInterval(() => {
    try {
      report();
    } catch (error) {
      // Thrown from a timer, an error of the caller's onProgress would end the process.
      failure ??= { error };
      halt();
    }
  }, PROGRESS_MS);
  const checkpoints = new Checkpoints(shared, options.onCheckpoint, options.checkpointMs);
  try {
    const onPiece: Emit = (index, payload) => {
      feed?.finish(index);
      if (payload !== undefined) options.onPiece?.(index, payload);
    };
    const work = threads === 0 ? runHere(program, shared, onPiece) : runThreads(program, shared, threads, onPiece);
    const fetching = feed
      ?.run(() => wake(shared.control))
      .catch((error: unknown) => {
        halt();
        throw error;
      });
    const ended = work
      .catch((error: unknown) => {
        halt();
        throw error;
      })
      .finally(() => checkpoints.end());
    // Wait for all even if one fails: nothing may still be writing when the error is thrown.
    const outcomes = await Promise.allSettled([ended, fetching, checkpoints.run(halt)]);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  } finally {
    clearInterval(timer);
    signal?.removeEventListener("abort", halt);
  }
  if (failure) throw failure.error;
  if (shared.done.some((done) => done === 0)) throw new CancelledError("stopped before the end");
  // A file that was deleted while it is open still takes bytes.
  for (const path of program.outputs) if (!(await exists(path))) throw OutputError.deleted(path);
  report();
  const [bytesRead, bytesWritten] = traffic();
  return { pieces, results: shared.results, bytesRead, bytesWritten };
}

function share(pieces: number, done: Uint8Array | undefined): Shared {
  const shared: Shared = {
    control: new Int32Array(new SharedArrayBuffer(12)),
    done: new Uint8Array(new SharedArrayBuffer(pieces)),
    traffic: new BigInt64Array(new SharedArrayBuffer(16)),
    results: new Float64Array(new SharedArrayBuffer(pieces * RESULTS_PER_PIECE * 8)),
  };
  if (done) shared.done.set(done.subarray(0, pieces));
  Atomics.store(shared.control, NEXT, 0);
  return shared;
}

/** Bytes of buffers that each thread needs for a program. */
export function memoryPerThread(program: Program): number {
  return workspaceBytes(program) + 2 * COPY_BLOCK_BYTES;
}

/** Twice what a thread needs where half of it holds fetched bytes. */
function defaultMemory(program: Program): number {
  const needed = memoryPerThread(program) * (isStreamed(program) ? 2 : 1);
  return Math.max(DEFAULT_MEMORY, Math.min(needed, MOST_DEFAULT_MEMORY));
}

/**
 * Checks that a thread of a program fits its memory.
 * @param memory most bytes of all buffers; default 256 MB, up to 1 GB if one thread needs it
 * @returns bytes of buffers that each thread needs
 * @throws LayergraftError code `memory` if not
 */
export function requireThreadMemory(program: Program, memory = defaultMemory(program)): number {
  requireKernelMemory(program);
  const each = memoryPerThread(program);
  if (memory < each) {
    throw new LayergraftError(
      "memory",
      `a memory budget of ${formatBytes(memory)} is too small for these tensors; give at least ${formatBytes(each)}`,
      { field: "memory", expected: `at least ${each} bytes`, actual: `${memory} bytes` },
    );
  }
  return each;
}

/** Threads to start; 0 runs a small pass on the main thread. */
function chooseThreads(program: Program, options: RunOptions, memory: number, totalBytes: number): number {
  const each = requireThreadMemory(program, memory);
  // The main thread cannot wait for bytes that it fetches.
  const least = isStreamed(program) ? 1 : 0;
  if (options.threads === undefined && totalBytes < WORTH_THREADS_BYTES) return least;
  const fitting = Math.floor(memory / (each + counterBytes(program)));
  const worth = Math.min(physicalCores(), Math.ceil(totalBytes / WORTH_THREADS_BYTES));
  return Math.max(1, Math.min(options.threads ?? worth, fitting));
}

/** Cores of the machine, where Linux says that two threads share one; all its threads elsewhere. */
function physicalCores(): number {
  const threads = availableParallelism();
  try {
    return readFileSync("/sys/devices/system/cpu/smt/active", "utf8").trim() === "1" ? Math.ceil(threads / 2) : threads;
  } catch {
    return threads;
  }
}

async function runHere(program: Program, shared: Shared, onPiece: Emit): Promise<void> {
  const worker = new PieceWorker(program, shared, onPiece);
  try {
    while (worker.step()) await nextTurn();
  } catch (error) {
    stop(shared.control);
    throw error instanceof LayergraftError ? error : errorOf(plainError(error));
  } finally {
    worker.close();
  }
}

async function runThreads(program: Program, shared: Shared, count: number, onPiece: Emit): Promise<void> {
  const entry = createRequire(import.meta.url).resolve("#streaming-worker");
  const outcomes = await Promise.allSettled(
    Array.from({ length: count }, () => runThread(entry, program, shared, onPiece)),
  );
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (failure) throw failure.reason;
}

function runThread(entry: string, program: Program, shared: Shared, onPiece: Emit): Promise<void> {
  // Messages cannot have functions.
  const inputs = program.inputs.map(({ remote, ...file }) => (remote ? { ...file, remote: {} } : file));
  return new Promise((resolve, reject) => {
    const thread = new Worker(entry, {
      workerData: { program: { ...program, inputs }, shared, code: codeOf(program) },
    });
    let failure: Error | undefined;
    thread.on("message", ({ error, piece }: ThreadReport) => {
      if (piece) onPiece(piece.index, piece.payload);
      if (error) failure = errorOf(error);
    });
    thread.on("error", (error) => {
      failure = error;
    });
    thread.on("exit", (code) => {
      if (!failure && code !== 0) failure = new Error(`a worker thread ended with code ${code}`);
      if (!failure) return resolve();
      stop(shared.control);
      reject(failure);
    });
  });
}

/** Bytes of the pieces done by an earlier run, where a resumed progress bar starts. */
function bytesOfPieces(program: Program, pieces: readonly Piece[], done: Uint8Array): number {
  let sum = 0;
  pieces.forEach((piece, index) => {
    const job = program.jobs[piece.job];
    if (!job || done[index] === 0) return;
    const { read, written } = countBytes([job]);
    const length = lengthOf(job);
    sum += ((read + written) * (piece.end - piece.begin)) / length;
  });
  return Math.round(sum);
}

// Short enough that a kill loses little, long enough that flushing does not slow writing.
const CHECKPOINT_MS = 1000;

/** Calls `onCheckpoint` repeatedly, never concurrently, until the work ends. */
class Checkpoints {
  readonly #shared: Shared;
  readonly #save: RunOptions["onCheckpoint"];
  readonly #every: number;
  readonly #end = new AbortController();

  constructor(shared: Shared, save: RunOptions["onCheckpoint"], every = CHECKPOINT_MS) {
    this.#shared = shared;
    this.#save = save;
    this.#every = every;
  }

  end(): void {
    this.#end.abort();
  }

  async run(stop: () => void): Promise<void> {
    if (!this.#save) return;
    const ended = this.#end.signal;
    try {
      for (let isLast = false; !isLast; ) {
        await sleep(this.#every, undefined, { signal: ended }).catch(() => undefined); // woken by the end
        // The work may end during a flush that began before its last pieces; then one more is needed.
        isLast = ended.aborted;
        // A copy is taken before the flush: pieces done during it may not be on the disk yet.
        const { done, results } = this.#shared;
        await this.#save(done.map((one, i) => (results[i * RESULTS_PER_PIECE] === 0 ? one : 0)));
      }
    } catch (error) {
      stop();
      throw error;
    }
  }
}
