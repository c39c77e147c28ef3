// A thread of a pass: take the next piece, do it, mark it done, until none is left or the pass is stopped. Small passes run it on
// the main thread. It is not asked, as other threads are (`kit/ask.ts`): it shares memory, and waits in it synchronously.
import { parentPort, workerData } from "node:worker_threads";
import { type PlainError, plainError } from "../../kit/index.js";
import { Evaluator } from "./evaluate-block.js";
import { InputFiles, type Inputs, OutputFiles, StreamedFiles, type Traffic } from "./files.js";
import { beginJobs, isReporting } from "./job-kinds.js";
import { runCode } from "./own-code.js";
import { cutIntoPieces, type Piece, RESULTS_PER_PIECE } from "./pieces.js";
import type { Job, Payload, Program } from "./program.js";
import { NEXT, type Shared, STOP } from "./shared.js";
import { type Arithmetic, addArithmetic } from "./value-operation.js";

/** Leaves a piece that takes long when the pass is stopped. */
class Stopped extends Error {}

/** Called when a piece is done, with its payload if it has one. */
export type Emit = (piece: number, payload: Payload | undefined) => void;

/** One thread's state: open files and buffers. */
export class PieceWorker {
  readonly #program: Program;
  readonly #pieces: readonly Piece[];
  readonly #shared: Shared;
  readonly #traffic: Traffic = { read: 0, written: 0 };
  readonly #inputs: Inputs;
  readonly #outputs: OutputFiles;
  readonly #emit: Emit;
  readonly #do: ReturnType<typeof beginJobs>;

  constructor(program: Program, shared: Shared, emit: Emit = () => undefined) {
    this.#emit = emit;
    this.#program = program;
    this.#shared = shared;
    this.#pieces = cutIntoPieces(program.jobs);
    const { control, window } = shared;
    const [traffic, outputs] = [this.#traffic, new OutputFiles(program, this.#traffic)];
    const inputs = window
      ? new StreamedFiles(program, control, window, traffic)
      : new InputFiles(program.inputs, traffic);
    const check = () => {
      if (Atomics.load(control, STOP) !== 0) throw new Stopped();
    };
    let evaluator: Evaluator | undefined;
    this.#inputs = inputs;
    this.#outputs = outputs;
    this.#do = beginJobs({
      ...{ program, inputs, outputs, traffic, check },
      publish: () => this.#publishTraffic(),
      get evaluator() {
        evaluator ??= new Evaluator(program, inputs, check);
        return evaluator;
      },
    });
  }

  /** Does the next open piece; returns false if there is none or the pass is stopped. */
  step(): boolean {
    try {
      return this.#step();
    } catch (error) {
      if (error instanceof Stopped) return false;
      throw error;
    }
  }

  #step(): boolean {
    const { control, done, results } = this.#shared;
    if (Atomics.load(control, STOP) !== 0) return false;
    const index = Atomics.add(control, NEXT, 1);
    const piece = this.#pieces[index];
    if (!piece) return false;
    if (Atomics.load(done, index) !== 0) return true;
    if (this.#inputs.open?.(index, piece) === false) return false;
    const job = this.#program.jobs[piece.job] as Job;
    const report = this.#do(job, piece.begin, piece.end);
    if (!isReporting(job)) results.set(report as readonly number[], index * RESULTS_PER_PIECE);
    Atomics.store(done, index, 1);
    this.#emit(index, isReporting(job) ? (report as Payload) : undefined);
    this.#publishTraffic();
    return true;
  }

  #publishTraffic(): void {
    const { traffic } = this.#shared;
    Atomics.add(traffic, 0, BigInt(this.#traffic.read));
    Atomics.add(traffic, 1, BigInt(this.#traffic.written));
    this.#traffic.read = 0;
    this.#traffic.written = 0;
  }

  close(): void {
    this.#inputs.close();
    this.#outputs.close();
  }
}

/** Message of a thread: pieces that are done, and finally whether it failed. */
export interface ThreadReport {
  readonly piece?: { readonly index: number; readonly payload: Payload | undefined };
  readonly error?: PlainError;
}

/** The arrays of a payload, which are moved and not copied. */
function arraysOf(payload: Payload): readonly (Float32Array | Float64Array | Uint32Array)[] {
  if ("experts" in payload) return payload.experts.map(({ rows }) => rows);
  if ("reports" in payload) return payload.reports;
  return "rank" in payload ? [payload.left, payload.right, payload.gains] : [payload];
}

/** Does the work of this thread, with the arithmetic of methods. */
export async function runThread(arithmetic: readonly Arithmetic[]): Promise<void> {
  addArithmetic(arithmetic);
  const { program, shared, code } = workerData as { program: Program; shared: Shared; code: readonly string[] };
  for (const text of code) await runCode(text);
  const worker = new PieceWorker(program, shared, (index, payload) => {
    const report: ThreadReport = { piece: { index, payload } };
    if (payload === undefined) {
      // Only memory that waits for the piece needs to know.
      if (shared.window) parentPort?.postMessage(report);
      return;
    }
    parentPort?.postMessage(
      report,
      arraysOf(payload).map(({ buffer }) => buffer as ArrayBuffer),
    );
  });
  let report: ThreadReport = {};
  try {
    while (worker.step());
  } catch (error) {
    report = { error: plainError(error) };
  } finally {
    worker.close();
  }
  parentPort?.postMessage(report);
}
