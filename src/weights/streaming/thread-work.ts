// The work of one thread: take the next piece, do it, mark it done, until none is left or the pass is stopped. Small
// passes run it on the main thread.
import { bytesPerElement, isFloatDType, Random } from "../../core/index.js";
import { encodedBytes } from "../kernels/encodings.js";
import { type SplitEncoding, splitBlocks, splitBytes } from "../kernels/split-blocks.js";
import { Evaluator } from "./evaluate-block.js";
import { InputFiles, type Inputs, OutputFiles, type Traffic } from "./files.js";
import { type LowRankFactors, lowRank } from "./low-rank.js";
import {
  bytesPerValue,
  COPY_BLOCK_BYTES,
  type CompareJob,
  type CopyJob,
  type CountJob,
  countBytes,
  cutIntoPieces,
  type DeltaJob,
  type EncodeJob,
  eachBlock,
  type GramJob,
  isReporting,
  type Job,
  type LowRankJob,
  type Payload,
  type Piece,
  type Program,
  RESULTS_PER_PIECE,
  type ReportingJob,
  requireFloat,
  SAMPLE_RUN,
  type SignsJob,
  type TiesJob,
} from "./program.js";
import { addDelta } from "./results.js";
import { Analyzer } from "./row-statistics.js";
import { NEXT, type Shared, STOP } from "./shared.js";
import { StreamedFiles } from "./streamed-files.js";

/** Counters that are taken at once. */
const TAKEN = 2 ** 14;

/** Addresses of counters and of pairs that are taken from them. */
interface Counters {
  readonly length: number;
  readonly counts: number;
  readonly pairs: number;
}

/** Leaves a piece that takes long when the pass is stopped. */
class Stopped extends Error {}

/** Called when a piece is done, with its payload if it has one. */
export type Emit = (piece: number, payload: Payload | undefined) => void;

/** One thread's state: open files and buffers. */
export class Worker {
  readonly #program: Program;
  readonly #pieces: readonly Piece[];
  readonly #shared: Shared;
  readonly #traffic: Traffic = { read: 0, written: 0 };
  readonly #inputs: Inputs;
  readonly #outputs: OutputFiles;
  readonly #emit: Emit;
  #evaluator: Evaluator | undefined;
  #analyzer: Analyzer | undefined;
  #counters: Counters | undefined;
  /** Address of accumulators. */
  #products: number | undefined;
  #copyBuffers: readonly [Uint8Array, Uint8Array] | undefined;
  /** Address of what is copied. */
  #copied: number | undefined;

  constructor(program: Program, shared: Shared, emit: Emit = () => undefined) {
    this.#emit = emit;
    this.#program = program;
    this.#shared = shared;
    this.#pieces = cutIntoPieces(program.jobs);
    const { control, window } = shared;
    this.#inputs = window
      ? new StreamedFiles(program, control, window, this.#traffic)
      : new InputFiles(program.inputs, this.#traffic);
    this.#outputs = new OutputFiles(program.outputs, this.#traffic);
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
    const payload = isReporting(job) ? this.#report(job, piece) : undefined;
    if (!isReporting(job)) results.set(this.#do(job, piece), index * RESULTS_PER_PIECE);
    Atomics.store(done, index, 1);
    this.#emit(index, payload);
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

  #report(job: ReportingJob, { begin, end }: Piece): Payload {
    switch (job.kind) {
      case "analyze":
        return this.#analyze().analyze(job, begin, end);
      case "count":
        return this.#count(job, begin, end);
      case "gram":
        return job.axis ? this.#linesGram(job, job.axis, begin, end) : this.#gram(job, begin, end);
      case "low-rank":
        return this.#lowRank(job);
    }
  }

  #do(job: Exclude<Job, ReportingJob>, { begin, end }: Piece): readonly number[] {
    switch (job.kind) {
      case "copy":
        return this.#copy(job, begin, end);
      case "compare-copy":
        return this.#compareCopy(job.from, job.against, begin, end);
      case "write": {
        const counts: [number, number] = [0, 0];
        eachBlock(job, begin, end, (from, to) => {
          const { bytes, nonFinite, made } = this.#evaluate().round(job.value, from, to, requireFloat(job.to.dtype));
          this.#outputs.write(job.to.file, job.to.offset + from * bytesPerElement(job.to.dtype), bytes);
          counts[0] += nonFinite;
          counts[1] += made;
        });
        return counts;
      }
      case "encode":
        return this.#encode(job, begin, end);
      case "compare":
        return this.#compare(job, begin, end);
      case "delta":
        return this.#delta(job, begin, end);
      case "signs":
        return this.#signs(job, begin, end);
      case "ties":
        return this.#ties(job, begin, end);
    }
  }

  #evaluate(): Evaluator {
    this.#evaluator ??= new Evaluator(this.#program, this.#inputs, () => {
      if (Atomics.load(this.#shared.control, STOP) !== 0) throw new Stopped();
    });
    return this.#evaluator;
  }

  #analyze(): Analyzer {
    this.#analyzer ??= new Analyzer(this.#evaluate());
    return this.#analyzer;
  }

  #buffers(): readonly [Uint8Array, Uint8Array] {
    this.#copyBuffers ??= [new Uint8Array(COPY_BLOCK_BYTES), new Uint8Array(COPY_BLOCK_BYTES)];
    return this.#copyBuffers;
  }

  #copy(job: CopyJob, begin: number, end: number): readonly number[] {
    const { kernels } = this.#evaluate();
    const { dtype } = job.to;
    this.#copied ??= kernels.allocate(COPY_BLOCK_BYTES);
    let nonFinite = 0;
    for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
      const bytes = kernels.bytes(this.#copied, Math.min(COPY_BLOCK_BYTES, end - at));
      this.#inputs.read(job.from.file, job.from.offset + at, bytes);
      this.#outputs.write(job.to.file, job.to.offset + at, bytes);
      if (!isFloatDType(dtype)) continue;
      kernels.clearPadding(this.#copied, bytes.byteLength);
      nonFinite += kernels.countNonFinite(dtype, this.#copied, bytes.byteLength / bytesPerElement(dtype));
    }
    return [nonFinite];
  }

  #encode(job: EncodeJob, begin: number, end: number): readonly number[] {
    const { value, to, encoding, scales, plus, interleave } = job;
    const columns = value.columns === value.elements ? 1 : value.columns;
    let broken = 0;
    eachBlock(job, begin, end, (from, until) => {
      const encoded = this.#evaluate().encode(value, from, until, encoding, plus);
      broken += encoded.broken;
      if (scales) {
        const split = encoding as SplitEncoding;
        const parts = splitBlocks(split, encoded.bytes);
        const before = splitBytes(split, from);
        this.#outputs.write(to.file, to.offset + before.codes, parts.codes);
        this.#outputs.write(scales.file, scales.offset + before.scales, parts.scales);
        return;
      }
      if (interleave === undefined) {
        this.#outputs.write(to.file, to.offset + encodedBytes(encoding, from), encoded.bytes);
        return;
      }
      const rowBytes = encodedBytes(encoding, columns);
      for (let row = from / columns, at = 0; at < encoded.bytes.byteLength; row++, at += rowBytes) {
        const offset = to.offset + interleaved(row, interleave) * rowBytes;
        this.#outputs.write(to.file, offset, encoded.bytes.subarray(at, at + rowBytes));
      }
    });
    return [broken];
  }

  #compareCopy(from: CopyJob["from"], against: CopyJob["from"], begin: number, end: number): readonly number[] {
    const tally = new Tally(Math.ceil(bytesPerValue(from.dtype)));
    for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
      const length = Math.min(COPY_BLOCK_BYTES, end - at);
      const [a, b] = this.#buffers();
      this.#inputs.read(from.file, from.offset + at, a.subarray(0, length));
      this.#inputs.read(against.file, against.offset + at, b.subarray(0, length));
      tally.add(a.subarray(0, length), b.subarray(0, length), at);
    }
    return tally.result();
  }

  #compare(job: CompareJob, begin: number, end: number): readonly number[] {
    const dtype = requireFloat(job.against.dtype);
    const width = bytesPerElement(dtype);
    const tally = new Tally(width);
    eachBlock(job, begin, end, (from, to) => {
      const wanted = this.#evaluate().round(job.value, from, to, dtype).bytes;
      const found = new Uint8Array((to - from) * width);
      this.#inputs.read(job.against.file, job.against.offset + from * width, found);
      tally.add(wanted, found, from * width);
    });
    return tally.result();
  }

  #delta(job: DeltaJob, begin: number, end: number): readonly number[] {
    const total = new Float64Array(RESULTS_PER_PIECE);
    eachBlock(job, begin, end, (from, to) => {
      addDelta(total, this.#evaluate().delta(job.value, job.minus, from, to));
    });
    return [...total];
  }

  #signs(job: SignsJob, begin: number, end: number): readonly number[] {
    const evaluator = this.#evaluate();
    const { kernels } = evaluator;
    this.#products ??= kernels.allocate(16);
    kernels.doubles(this.#products, 2).fill(0);
    eachBlock(job, begin, end, (from, to) => {
      kernels.wasm.countSigns(evaluator.sum(job.value, from, to), to - from, this.#products ?? 0);
    });
    return [...kernels.doubles(this.#products, 2)];
  }

  #ties(job: TiesJob, begin: number, end: number): readonly number[] {
    const evaluator = this.#evaluate();
    let [count, at] = [0, -1];
    eachBlock(job, begin, end, (from, to) => {
      const values = evaluator.kernels.floats(evaluator.sum(job.value, from, to), to - from);
      for (let i = 0; i < values.length; i++) {
        if (Math.abs(values[i] as number) === job.magnitude && count++ === job.nth) at = from + i;
      }
    });
    return [count, at];
  }

  #count(job: CountJob, begin: number, end: number): Uint32Array {
    const { value, ranges, every } = job;
    const evaluator = this.#evaluate();
    const { kernels } = evaluator;
    const length = ranges.reduce((sum, { bins }) => sum + 1 + bins, 0);
    if (length > (this.#counters?.length ?? 0)) {
      this.#counters = { length, counts: kernels.allocate(length * 4), pairs: kernels.allocate(TAKEN * 8) };
    }
    const { counts, pairs } = this.#counters as Counters;
    const add = (from: number, to: number) => {
      const values = evaluator.sum(value, from, to);
      let at = counts;
      for (const range of ranges) {
        kernels.wasm.countKeys(values, to - from, range.from, range.shift, range.bins, at);
        at += (1 + range.bins) * 4;
      }
    };
    if (every === undefined) eachBlock(job, begin, end, add);
    else {
      for (let turn = Math.floor(begin / every); turn * every < end; turn++) {
        // Not always at the same place of a row, but at the start of stored blocks.
        const within = turn * every + ((Math.imul(turn, 0x9e3779b1) >>> 0) % (every - SAMPLE_RUN));
        const from = within - (within % SAMPLE_RUN);
        if (from >= begin && from + SAMPLE_RUN <= end) add(from, from + SAMPLE_RUN);
      }
    }
    const taken: number[] = [];
    for (let from = 0; from < length; from += TAKEN) {
      const count = kernels.wasm.takeCounts(counts + from * 4, Math.min(TAKEN, length - from), pairs);
      const found = kernels.counters(pairs, count * 2);
      for (let i = 0; i < found.length; i += 2) taken.push(from + (found[i] as number), found[i + 1] as number);
    }
    return Uint32Array.from(taken);
  }

  #lowRank(job: LowRankJob): LowRankFactors {
    const { value, squares, rank, energy, seed, name } = job;
    const { columns, elements } = value;
    const evaluator = this.#evaluate();
    // The number of passes is not known before. Progress counts bytes up to the largest number, and the rest at the end.
    let uncounted = countBytes([job]).read;
    const count = (bytes: number) => {
      this.#traffic.read = Math.min(uncounted, bytes);
      uncounted -= this.#traffic.read;
      this.#publishTraffic();
    };
    const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
      if (Atomics.load(this.#shared.control, STOP) !== 0) throw new Stopped();
      eachBlock(job, from * columns, to * columns, (begin, end) => {
        each(begin / columns, end / columns, evaluator.sum(value, begin, end));
      });
      count(this.#traffic.read);
    };
    const matrix = { rows: elements / columns, columns, squares, read };
    const random = Random.of(seed, `extract ${name}`);
    const factors = lowRank(evaluator.kernels, matrix, { rank, energy, random });
    count(uncounted);
    return factors;
  }

  #gram(job: GramJob, begin: number, end: number): Float64Array {
    const evaluator = this.#evaluate();
    const { kernels } = evaluator;
    const count = job.values.length;
    this.#products ??= kernels.allocate(16);
    const sums = this.#products;
    const products = new Float64Array((count * (count + 1)) / 2);
    eachBlock(job, begin, end, (from, to) => {
      const values = evaluator.sums(job.values, from, to);
      let at = 0;
      for (let i = 0; i < count; i++) {
        for (let j = i; j < count; j++, at++) {
          if (job.diagonal && i !== j) continue;
          kernels.doubles(sums, 1).fill(0);
          kernels.wasm.addProducts(values[i] ?? 0, values[j] ?? 0, to - from, sums);
          products[at] = (products[at] ?? 0) + (kernels.doubles(sums, 1)[0] ?? 0);
        }
      }
    });
    return products;
  }

  /** Products within each row or column, [lines, pairs]. */
  #linesGram(job: GramJob, axis: "rows" | "columns", begin: number, end: number): Float64Array {
    const evaluator = this.#evaluate();
    const columns = job.values[0]?.columns ?? 1;
    const pairs = job.values.flatMap((_, i) => job.values.slice(i).map((_, k) => [i, i + k] as const));
    const products = new Float64Array((axis === "columns" ? columns : (end - begin) / columns) * pairs.length);
    eachBlock(job, begin, end, (from, to) => {
      const addresses = evaluator.sums(job.values, from, to);
      const values = addresses.map((address) => evaluator.kernels.floats(address, to - from));
      for (const [pair, [i, k]] of pairs.entries()) {
        const [a, b] = [values[i] as Float32Array, values[k] as Float32Array];
        for (let row = 0; row < to - from; row += columns) {
          const first = axis === "columns" ? 0 : (from - begin + row) / columns;
          for (let c = 0; c < columns; c++) {
            const at = (axis === "columns" ? c : first) * pairs.length + pair;
            products[at] = (products[at] as number) + (a[row + c] as number) * (b[row + c] as number);
          }
        }
      }
    });
    return products;
  }
}

/** Where a row goes if the halves of its group alternate. */
export function interleaved(row: number, group: number): number {
  const within = row % group;
  const half = group / 2;
  return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}

/** Counts differing elements and remembers the first, over byte ranges given in order. */
class Tally {
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
