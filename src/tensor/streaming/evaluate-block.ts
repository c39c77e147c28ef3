// Computes blocks of evaluations: reads terms, sums them, rounds once. Each thread has one evaluator, with buffers for
// the program's largest block.

import { bytesPerValue, Kernels, turnValues } from "../../kernels/index.js";
import { bytesPerElement, type FloatDType, isDType } from "../../kit/index.js";
import { type Buffers, bytesOfBuffers, reserveBuffers } from "./buffers.js";
import { type Coded, codedSizes, largerSizes, NO_CODES } from "./coded-rows.js";
import type { Inputs } from "./files.js";
import { lowRankBytes } from "./low-rank.js";
import { BLOCK_ELEMENTS, blockElements, pursuitOf, rowsMatter } from "./pieces.js";
import {
  type BoundOperation,
  type Combination,
  type EncodeJob,
  type Evaluation,
  evaluationsOf,
  identify,
  isStored,
  type LowRankJob,
  type LowRankTerm,
  operationsOf,
  type Program,
  productsOf,
  type RoundedDType,
  rangeOf,
  remembered,
  type StoredTerm,
  storedTerms,
  type Term,
} from "./program.js";
import { pursuitBytes } from "./pursuit.js";
import { type StoredSizes, StoredValues, storedBytes } from "./stored-values.js";
import { type Block, declarationOf, type Workspace } from "./value-operation.js";
import { elementsOfValues, mergeMatrix, wholeBytes } from "./whole-matrix.js";

interface Sizes extends StoredSizes {
  /** Elements of a block. */
  readonly block: number;
  /** Numbers of buffers. */
  readonly slots: number;
  readonly shared: number;
  readonly pool: number;
  /** Values of one operation at most. */
  readonly inputs: number;
  /** Bytes that one operation needs beside its values. */
  readonly operation: number;
  /** Bytes that the merge of a whole matrix needs. */
  readonly whole: number;
}

const buffersOf = ({ block, step, slots, shared, pool, inputs, operation }: Sizes) => ({
  /** float32 sums of a block, one per evaluation of a job. */
  sums: [slots, block * 4] as const,
  /** float32 values of a step: what occurs more than once in a job, and a stack for operations. */
  shared: [shared, step * 4] as const,
  pool: [pool, step * 4] as const,
  /** Values with a low-rank product. */
  adapted: step * 4,
  /** Rounded elements of a block, which may be float64. */
  rounded: block * 8,
  /** Sums of `delta`. */
  scratch: 64,
  /** Of an operation: addresses and weights of its values, and what it needs besides. */
  table: inputs * 4,
  weights: inputs * 8,
  operation,
});

function largestBlock(program: Program): Sizes {
  const largest = {
    block: 0,
    step: 0,
    slots: 1,
    window: 0,
    windows: 0,
    left: 0,
    right: 0,
    coded: NO_CODES,
    shared: 0,
    pool: 0,
    inputs: 0,
    operation: 0,
    whole: 0,
  };
  for (const job of program.jobs) {
    const block = blockElements(job);
    const evaluations = evaluationsOf(job);
    const step = stepOf(evaluations);
    // One more than there are values: sums of one value are differences from a slot of zeros.
    largest.slots = Math.max(largest.slots, evaluations.length + 1);
    largest.windows = Math.max(largest.windows, new Set(evaluations.flatMap(storedTerms).map(rangeOf)).size);
    largest.shared = Math.max(largest.shared, repeatedIn(evaluations).length);
    for (const evaluation of evaluations) {
      const length = Math.min(block, Math.max(evaluation.elements, evaluation.columns));
      largest.block = Math.max(largest.block, length);
      largest.step = Math.max(largest.step, Math.min(length, step));
      largest.pool = Math.max(largest.pool, poolNeeded(evaluation, 0));
      for (const operation of operationsOf(evaluation)) {
        const scratch = declarationOf(operation).scratch?.(evaluation.columns, operation.of.length) ?? 0;
        largest.inputs = Math.max(largest.inputs, operation.of.length);
        largest.operation = Math.max(largest.operation, scratch);
        if (operation.op === "whole-matrix") {
          largest.whole = Math.max(largest.whole, wholeBytes(operation, evaluation.columns));
        }
      }
      for (const term of storedTerms(evaluation)) {
        const { dtype, lowRank, coded } = term;
        if (coded) {
          const sizes = codedSizes(term as Coded, Math.ceil(length / evaluation.columns));
          largest.coded = largerSizes(largest.coded, sizes);
        } else largest.window = Math.max(largest.window, Math.ceil(length * bytesPerValue(dtype)));
        if (!lowRank) continue;
        const rows = Math.ceil(block / evaluation.columns);
        for (const { rank, lengths, experts = { count: 1 } } of productsOf(lowRank)) {
          largest.left = Math.max(largest.left, rows * (lengths ? rank + 1 : rank), rank * experts.count);
          largest.right = Math.max(largest.right, rank * evaluation.columns);
        }
      }
    }
  }
  return largest;
}

// A step of this many elements keeps the values of operations in the fastest caches.
const STEP_ELEMENTS = 2 ** 13;

/** Elements of a block that are computed at once: whole rows where rows matter, all where factors are read. */
function stepOf(evaluations: readonly Evaluation[]): number {
  const columns = evaluations[0]?.columns ?? 1;
  if (evaluations.some((evaluation) => storedTerms(evaluation).some(({ lowRank }) => lowRank))) return Infinity;
  return rowsMatter(evaluations) ? Math.max(1, Math.floor(STEP_ELEMENTS / columns)) * columns : STEP_ELEMENTS;
}

/** Names what a term computes, whatever its weight. */
const keyOf = remembered((term: Term): string =>
  JSON.stringify({ ...term, weight: 0 }, (_, part) => {
    if (typeof part === "number" && !Number.isFinite(part)) return String(part);
    return ArrayBuffer.isView(part) ? identify(part) : part;
  }),
);

/**
 * Terms that a job computes more than once and that are worth a buffer: adapted weights and operations, except
 * differences, which cost as much as their copy.
 */
function repeatedIn(evaluations: readonly Combination[]): string[] {
  const counts = new Map<string, number>();
  const visit = ({ terms }: Combination) => {
    for (const term of terms) {
      const isCheap = isStored(term) ? !term.lowRank : term.operation.op === "subtract";
      const key = isCheap ? "" : keyOf(term);
      const count = (counts.get(key) ?? 0) + 1;
      if (!isCheap) counts.set(key, count);
      if (!isStored(term) && (isCheap || count === 1)) term.operation.of.forEach(visit);
    }
  };
  evaluations.forEach(visit);
  return [...counts].filter(([, count]) => count > 1).map(([key]) => key);
}

/** Maximum pool buffers in use while a combination is computed, with `depth` already in use. */
function poolNeeded({ terms }: Combination, depth: number): number {
  const needs = terms.map((term, index) => {
    if (isStored(term)) return depth;
    const own = term.operation.op === "whole-matrix" ? 1 : Math.max(0, term.operation.of.length - 1);
    const inner = depth + (sharesBuffer(index, term.weight) ? 0 : 1) + own;
    return Math.max(inner, ...term.operation.of.map((input) => poolNeeded(input, inner)));
  });
  return Math.max(depth, ...needs);
}

/** Whether an operation can write into its sum's buffer: it is the first term and has weight 1. */
function sharesBuffer(index: number, weight: number): boolean {
  return index === 0 && weight === 1;
}

/** Bytes of buffers that one thread needs for this program. */
export function workspaceBytes(program: Program): number {
  const sizes = largestBlock(program);
  const buffers = bytesOfBuffers(buffersOf(sizes)) + storedBytes(sizes) + sizes.whole;
  const approximations = program.jobs.map((job) => (job.kind === "low-rank" ? approximationBytes(job) : 0));
  const pursuits = program.jobs.flatMap((job) => pursuitOf(job) ?? []).map(pursuitBytes);
  return buffers + [...approximations, ...pursuits].reduce((most, bytes) => Math.max(most, bytes), 0);
}

function approximationBytes({ value: { elements, columns }, rank }: LowRankJob): number {
  return lowRankBytes({ rows: elements / columns, columns }, rank);
}

type WholeOperation = BoundOperation & { readonly op: "whole-matrix" };

function blockOf({ columns, first = 0 }: Evaluation, begin: number, end: number): Block {
  return { begin, index: first + begin, length: end - begin, columns };
}

/** Computes a part of a block into an address. */
type Compute = (part: Block, target: number) => void;

export class Evaluator {
  readonly kernels = new Kernels();
  readonly #stored: StoredValues;
  readonly #at: Buffers<ReturnType<typeof buffersOf>>;
  readonly #workspace: Workspace;
  /** What the last block computed, how, and where its repeated terms are. */
  #evaluations: readonly Evaluation[] = [];
  #computes: readonly Compute[] = [];
  #step = 0;
  #block: Block = { begin: 0, index: 0, length: 0, columns: 1 };
  /** The last matrix that an operation on whole matrices made. */
  #whole: { readonly operation: BoundOperation; readonly number: number; readonly result: Float32Array } | undefined;
  readonly #shared = new Map<string, number>();
  /** First element of the part that each shared buffer holds, by address. */
  readonly #held = new Map<number, number>();

  /** @param onStep called now and then in long computations, to stop by throwing */
  constructor(program: Program, files: Inputs, onStep: () => void = () => undefined) {
    const sizes = largestBlock(program);
    this.#at = reserveBuffers(this.kernels, buffersOf(sizes));
    const { table, weights, operation: scratch } = this.#at;
    this.#workspace = { kernels: this.kernels, table, weights, scratch };
    this.#stored = new StoredValues(this.kernels, files, sizes, onStep);
  }

  /**
   * Elements [begin, end) of an evaluation, rounded to `dtype`.
   * @returns their bytes, valid until the next call; how many are infinite or NaN; and how many of these although the
   *   stored elements in their place are finite
   */
  round(evaluation: Evaluation, begin: number, end: number, dtype: RoundedDType) {
    const n = end - begin;
    const { rounded } = this.#at;
    const sum = this.sum(evaluation, begin, end);
    if (dtype === "F8_E4M3" || dtype === "F8_E8M0") {
      this.kernels.encodeF8(dtype, sum, rounded, n);
      return { bytes: this.kernels.bytes(rounded, n), nonFinite: 0, made: 0 };
    }
    let nonFinite: number;
    // Writing the literal leaves no NaN with a payload.
    if (dtype === "F64") {
      this.kernels.doubles(rounded, n).set(this.kernels.floats(sum, n).map((x) => (Number.isNaN(x) ? Number.NaN : x)));
      nonFinite = this.kernels.countNonFinite(dtype, rounded, n);
    } else nonFinite = this.kernels.encode(dtype, sum, rounded, n);
    const made = nonFinite === 0 ? 0 : this.#countMade(evaluation, begin, end, dtype, sum);
    return { bytes: this.kernels.bytes(rounded, n * bytesPerElement(dtype)), nonFinite, made };
  }

  /** How many rounded elements of the last block are infinite or NaN while all stored elements in their place are finite. */
  #countMade(evaluation: Evaluation, begin: number, end: number, dtype: FloatDType, sum: number): number {
    const { wasm } = this.kernels;
    const { adapted, rounded } = this.#at;
    let made = 0;
    for (const part of this.#parts(evaluation, begin, end)) {
      const at = part.begin - begin;
      const result = sum + at * 4;
      // Zero times what is not finite is NaN.
      if (dtype === "F64") wasm.scaleF32(result, result, part.length, 0);
      else wasm[`scale${dtype}`](rounded + at * bytesPerElement(dtype), result, part.length, 0);
      this.kernels.floats(adapted, part.length).fill(0);
      for (const term of storedTerms(evaluation)) {
        wasm[`addScaled${this.#stored.dtypeOf(term)}`](this.#stored.locate(term, part), adapted, part.length, 0);
      }
      const stored = this.kernels.floats(adapted, part.length);
      const written = this.kernels.floats(result, part.length);
      for (let i = 0; i < part.length; i++) if (Number.isNaN(written[i]) && stored[i] === 0) made++;
    }
    return made;
  }

  /**
   * Elements [begin, end) of a job's value, encoded.
   * @returns their bytes, valid until the next call, and how many values or scales are not finite
   */
  encode({ value, encoding, plus = 0, negativeExp, turn }: EncodeJob, begin: number, end: number) {
    const { rounded } = this.#at;
    const sum = this.sum(value, begin, end);
    const n = end - begin;
    const values = this.kernels.floats(sum, n);
    if (plus !== 0) values.set(values.map((one) => one + plus));
    if (negativeExp) values.set(values.map((one) => -Math.exp(one)));
    const count = turn ? turnValues(values, this.kernels.floats(rounded, n / (turn.every ?? 1)), turn) : n;
    this.kernels.clearPadding(sum, count * 4);
    const { bytes, broken } = this.kernels.quantize(encoding, sum, rounded, count);
    return { bytes: this.kernels.bytes(rounded, bytes), broken };
  }

  /** Elements [begin, end) in float32; returns the address, valid until the next call. */
  sum(evaluation: Evaluation, begin: number, end: number): number {
    return this.sums([evaluation], begin, end)[0] as number;
  }

  /** Copies of elements [begin, end) of a value and of its base, in float32. */
  pair(value: Evaluation, base: Evaluation, begin: number, end: number) {
    const [exact = 0, before = 0] = this.sums([value, base], begin, end);
    const copy = (address: number) => this.kernels.floats(address, end - begin).slice();
    return { exact: copy(exact), base: copy(before) };
  }

  /** Elements [begin, end) of several evaluations in float32; returns an address for each. */
  sums(evaluations: readonly Evaluation[], begin: number, end: number): number[] {
    this.#compile(evaluations);
    const [first] = evaluations as [Evaluation, ...Evaluation[]];
    const sums = this.#at.sums.slice(0, evaluations.length);
    this.#block = blockOf(first, begin, end);
    this.#open(this.#block);
    for (const part of this.#parts(first, begin, end)) {
      for (let i = 0; i < sums.length; i++) this.#computes[i]?.(part, (sums[i] as number) + (part.begin - begin) * 4);
    }
    for (const sum of sums) this.kernels.clearPadding(sum, (end - begin) * 4);
    return sums;
  }

  /** Elements that are computed at once, in order. */
  *#parts(evaluation: Evaluation, begin: number, end: number): Generator<Block> {
    const step = Math.min(this.#step, end - begin);
    for (let from = begin; from < end; from += step) yield blockOf(evaluation, from, Math.min(from + step, end));
  }

  #open(block: Block): void {
    this.#stored.open(block);
    this.#held.clear();
  }

  zeros(n: number, slot: number): number {
    const address = this.#at.sums[slot] ?? 0;
    this.kernels.floats(address, n).fill(0);
    this.kernels.clearPadding(address, n * 4);
    return address;
  }

  /** Statistics of the difference of two evaluations, or of one alone, over [begin, end). */
  delta(value: Evaluation, minus: Evaluation | undefined, begin: number, end: number): Float64Array {
    const [a = 0, b = this.zeros(end - begin, 1)] = this.sums(minus ? [value, minus] : [value], begin, end);
    return this.kernels.deltaStatistics(a, b, end - begin, this.#at.scratch);
  }

  #compile(evaluations: readonly Evaluation[]): void {
    const known = this.#evaluations;
    if (evaluations.length === known.length && evaluations.every((one, i) => one === known[i])) return;
    this.#evaluations = evaluations;
    this.#step = stepOf(evaluations);
    this.#stored.clear(evaluations.flatMap(storedTerms));
    this.#shared.clear();
    for (const key of repeatedIn(evaluations)) this.#shared.set(key, this.#at.shared[this.#shared.size] as number);
    this.#computes = evaluations.map((evaluation) => this.#combination(evaluation, 0));
  }

  /** sum(weight * term) / divisor; `depth` buffers of the pool are in use. */
  #combination({ terms, divisor }: Combination, depth: number): Compute {
    const { wasm } = this.kernels;
    const adds = terms.map((term, index) => this.#term(term, index, depth));
    return (part, target) => {
      for (const add of adds) add(part, target);
      if (divisor !== 1) wasm.divide(target, part.length, divisor);
    };
  }

  /** Adds a term times its weight; the first one sets the target. */
  #term(term: Term, index: number, depth: number): Compute {
    const { wasm } = this.kernels;
    const { weight } = term;
    const isCheap = isStored(term) && !term.lowRank;
    const shared = isCheap || this.#shared.size === 0 ? undefined : this.#shared.get(keyOf(term));
    if (isCheap) {
      const dtype = this.#stored.dtypeOf(term);
      const add = index === 0 ? wasm[`scale${dtype}`] : wasm[`addScaled${dtype}`];
      return (part, target) => add(this.#stored.locate(term, part), target, part.length, weight);
    }
    if (shared === undefined && !isStored(term) && sharesBuffer(index, weight)) {
      return this.#operation(term.operation, depth);
    }
    const buffer = shared ?? (isStored(term) ? this.#at.adapted : (this.#at.pool[depth] as number));
    const compute = isStored(term)
      ? (part: Block) => this.#stored.adapt(term, term.lowRank as LowRankTerm, part, buffer)
      : this.#operation(term.operation, depth + 1);
    const add = index === 0 ? wasm.scaleF32 : wasm.addScaledF32;
    return (part, target) => {
      if (shared === undefined || this.#held.get(shared) !== part.begin) compute(part, buffer);
      if (shared !== undefined) this.#held.set(shared, part.begin);
      add(buffer, target, part.length, weight);
    };
  }

  #operation(operation: BoundOperation, depth: number): Compute {
    if (operation.op === "whole-matrix") return this.#wholeMatrix(operation, depth);
    const { wasm } = this.kernels;
    const [a, b] = operation.of.map(plainTerm);
    const dtype = a && b && this.#stored.dtypeOf(a);
    if (operation.op === "subtract" && a && b && dtype && isDirect(a) && isDirect(b) && a.dtype === b.dtype) {
      const subtract = wasm[`difference${dtype}`];
      return (part, target) =>
        subtract(this.#stored.locate(a, part), this.#stored.locate(b, part), target, part.length);
    }
    const others = this.#at.pool.slice(depth, depth + Math.max(0, operation.of.length - 1));
    const inputs = operation.of.map((input) => this.#combination(input, depth + others.length));
    const { apply } = declarationOf(operation);
    const buffers = [0, ...others];
    return (part, target) => {
      buffers[0] = target;
      for (let i = 0; i < inputs.length; i++) inputs[i]?.(part, buffers[i] as number);
      apply(buffers, operation as never, part, this.#workspace);
    };
  }

  /** The part of an operation on whole matrices: each matrix is computed once. */
  #wholeMatrix(operation: WholeOperation, depth: number): Compute {
    const { matrix, rule } = operation;
    const scratch = this.#at.pool[depth] as number;
    const inputs = operation.of.map((input) => this.#combination(input, depth + 1));
    return ({ begin, index, length, columns }, target) => {
      for (let at = 0; at < length; ) {
        const number = Math.floor((begin + at) / matrix);
        const first = number * matrix;
        if (this.#whole?.operation !== operation || this.#whole.number !== number) {
          const step = Math.min(this.#step, Math.max(1, Math.floor(BLOCK_ELEMENTS / columns)) * columns);
          const values = elementsOfValues(operation, columns).map((count) => new Float32Array(count));
          const lengths = values.map(({ length }) => length);
          for (let from = 0, n = 0; from < Math.max(...lengths); from += n) {
            n = Math.min(step, matrix, ...lengths.map((length) => length - from).filter((rest) => rest > 0));
            const part = { begin: first + from, index: index - begin + first + from, length: n, columns };
            this.#open(part);
            for (const [i, compute] of inputs.entries()) {
              if (from >= (lengths[i] as number)) continue;
              compute(part, scratch);
              values[i]?.set(this.kernels.floats(scratch, n), from);
            }
          }
          this.#open(this.#block);
          this.#whole = undefined;
          const result = mergeMatrix(this.kernels, rule, values, columns, operation.number);
          this.#whole = { operation, number, result };
        }
        const count = Math.min(length - at, first + matrix - begin - at);
        const from = begin + at - first;
        this.kernels.floats(target + 4 * at, count).set(this.#whole.result.subarray(from, from + count));
        at += count;
      }
    };
  }
}

/** The stored tensor that a combination is; undefined if it is computed. */
function plainTerm({ terms: [term, ...more], divisor }: Combination): StoredTerm | undefined {
  const isPlain = term && more.length === 0 && isStored(term) && !term.lowRank && term.weight === 1 && divisor === 1;
  return isPlain ? term : undefined;
}

/** Whether kernels can read a term's elements where they are stored. */
function isDirect({ dtype, undo }: StoredTerm): boolean {
  return isDType(dtype) && dtype !== "F64" && !undo;
}
