// Compares what a recipe gives with published weights: bits first, then how far those are off that differ.
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { Converter, type KernelDType } from "../../kernels/index.js";
import { type DType, elementCount, formatShape, isFloatDType, sameShape } from "../../kit/index.js";
import { leavesOf, type Measured, measurementsOf, Resolver, type Value } from "../../tensor/expressions/index.js";
import {
  type Measurement,
  measureAll,
  measurementsFor,
  measuringPrograms,
  placeholders,
} from "../../tensor/measurements/index.js";
import {
  countFetched,
  type ElementRange,
  type Evaluation,
  type Job,
  type Program,
  resultsByJob,
  runProgram,
  type StreamOptions,
  totalDifferences,
} from "../../tensor/streaming/index.js";
import type { Step } from "../model-plan.js";
import { copied } from "../output/compile.js";
import { type OpenedPlan, toWrite } from "../plan/planner.js";
import { nearCuts } from "./near-cuts.js";
import { type Certainty, certaintyOf, drawn, type SampleSettings, sampledJob } from "./sample.js";

/** How a tensor is off what the recipe gives. */
export interface TensorCheck {
  readonly tensor: string;
  readonly layer: number | null;
  /**
   * identical: its bits; rounding: within a few roundings of `dtype`; ties: but for elements at a cut among equal values; differs:
   * otherwise; form: it has another shape, or a dtype that cannot be compared.
   */
  readonly verdict: "identical" | "rounding" | "ties" | "differs" | "form";
  /** Elements compared. */
  readonly elements: number;
  /** Of these, how many differ. */
  readonly differing: number;
  /** What it was rounded to on the way; of a rounding. */
  readonly dtype?: DType;
  /** Roundings of that dtype by which it is off at most; null if it is not a matter of rounding. */
  readonly roundings?: number | null;
  /** Norm of what it is off, as a share of what the merge changed in the tensor; null if nothing. */
  readonly left?: number | null;
  readonly published?: string;
  readonly planned?: string;
}

export interface RecipeCheck {
  readonly tensors: readonly TensorCheck[];
  /** Planned tensors that are not published. */
  readonly missing: readonly string[];
  /** Published tensors that are not planned. */
  readonly extra: readonly string[];
  readonly certainty: Certainty;
  /** Bytes that the comparison read, what it measured before left out. */
  readonly bytesRead: number;
}

export interface Comparison extends SampleSettings {
  /** Tensors to compare at most, by few of their rows: a trial. Default: all. */
  readonly most?: number;
}

interface Pair {
  readonly step: Step;
  readonly against: CheckpointTensor;
}

interface Differing extends Pair {
  readonly found: TensorCheck;
  /** Elements that differ, one of each piece. */
  readonly firsts: readonly number[];
}

export const PUBLISHED = "\0published";
/** Methods that measure whole tensors are compared on at least so many, with so many elements. */
const LEAST_TENSORS = 4;
const LEAST_ELEMENTS = 2 ** 17;

/** What is to be compared, and what it takes. */
export class PlannedComparison {
  readonly opened: OpenedPlan;
  readonly certainty: Certainty;
  readonly #published: Checkpoint;
  readonly #pairs: readonly Pair[] = [];
  readonly #forms: readonly TensorCheck[];
  readonly #settings: Comparison;
  readonly #missing: readonly string[];
  readonly #extra: readonly string[];

  constructor(planned: OpenedPlan, published: Checkpoint, settings: Comparison) {
    const opened = toWrite(planned);
    this.opened = opened;
    this.#published = opened === planned ? published : (published.asStored ?? published);
    this.#settings = settings;
    const { tensors } = this.#published;
    const { steps } = opened.plan;
    const found = steps.flatMap((step): Pair[] => {
      const against = tensors.get(step.tensor);
      return against ? [{ step, against }] : [];
    });
    this.#missing = steps.flatMap(({ tensor }) => (tensors.has(tensor) ? [] : [tensor]));
    const names = new Set(steps.map(({ tensor }) => tensor));
    this.#extra = [...tensors.keys()].filter((name) => !names.has(name));
    const isComparable = ({ step: { dtype, shape }, against }: Pair) =>
      sameShape(shape, against.shape) &&
      !against.lowRank &&
      !against.gathered &&
      (dtype === against.dtype || (isFloatDType(dtype) && isFloatDType(against.dtype)));
    this.#forms = found
      .filter((pair) => !isComparable(pair))
      .map(({ step, against }) => ({
        ...{ tensor: step.tensor, layer: step.layer, verdict: "form" as const, elements: 0, differing: 0 },
        published: `${against.dtype} ${formatShape(against.shape)}`,
        planned: `${step.dtype} ${formatShape(step.shape)}`,
      }));
    this.#pairs = this.#chosen(found.filter(isComparable));
    this.certainty = this.#certainty(found.filter(isComparable));
  }

  /** What is measured is compared in whole tensors, so only in some of them. */
  #chosen(pairs: readonly Pair[]): Pair[] {
    const { share, seed, most } = this.#settings;
    const order = (some: readonly Pair[]) =>
      some
        .map((pair) => ({ pair, at: drawn(seed, pair.step.tensor) }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ pair }) => pair);
    const measured = pairs.filter(isMeasured);
    const wanted = Math.max(LEAST_TENSORS, most === undefined ? Math.ceil(share * measured.length) : 0);
    const kept = new Set<Pair>();
    let elements = 0;
    for (const pair of order(measured)) {
      if (share < 1 && kept.size >= wanted && elements >= LEAST_ELEMENTS) break;
      kept.add(pair);
      elements += elementCount(pair.step.shape);
    }
    const all = pairs.filter((pair) => !isMeasured(pair) || kept.has(pair));
    if (most === undefined || all.length <= most) return all;
    const tried = new Set(order(all).slice(0, most));
    return all.filter((pair) => tried.has(pair));
  }

  #certainty(pairs: readonly Pair[]): Certainty {
    const measured = pairs.filter(isMeasured);
    if (measured.length > 0) {
      const sampled = this.#pairs.filter(isMeasured).length;
      return certaintyOf("tensors", [{ all: measured.length, sampled }]);
    }
    const { jobs, evaluations } = this.#program(placeholders(this.opened.plan.measurements));
    const matrices = jobs.map((job, i) => {
      const { elements, columns } = evaluations[i] as Evaluation;
      const all = columns > 0 ? elements / columns : 0;
      return { all, sampled: all * shareOf(job, elements) };
    });
    return certaintyOf("rows", matrices);
  }

  #program(measured: Measured): Program & { readonly evaluations: readonly Evaluation[] } {
    const resolver = new Resolver(this.opened.sources, measured);
    const evaluations: Evaluation[] = [];
    const jobs = this.#pairs.map(({ step, against: tensor }): Job => {
      const against = resolver.place(tensor);
      const evaluation = resolver.evaluation(step.value);
      evaluations.push(evaluation);
      const stored = copied(step, resolver);
      const name = step.tensor;
      const job: Job =
        stored && stored.dtype === tensor.dtype
          ? { kind: "compare-copy", name, bytes: stored.bytes, from: resolver.place(stored), against }
          : { kind: "compare", name, value: evaluation, against };
      const { share, seed, most } = this.#settings;
      const looked = most === undefined ? share : Math.min(share, MOST_VALUES / evaluation.elements);
      return sampledJob(job, evaluation, { share: looked, seed });
    });
    return { inputs: resolver.inputs, outputs: [], jobs, evaluations };
  }

  /** The measurements that are needed. */
  get measurements(): Measurement[] {
    const { measurements } = this.opened.plan;
    return measurementsFor(
      this.#pairs.map(({ step }) => step.value),
      measurements,
    );
  }

  /** Bytes of weights that are fetched from the hub, where nothing differs. */
  bytesToFetch(): number {
    const assumed = placeholders(this.opened.plan.measurements);
    const { sources } = this.opened;
    const measuring = measuringPrograms(this.measurements, sources, assumed).map(
      ({ program, times }) => times * countFetched(program),
    );
    return measuring.reduce((sum, bytes) => sum + bytes, countFetched(this.#program(assumed)));
  }

  async run(stream: StreamOptions): Promise<RecipeCheck> {
    const measured = await measureAll(this.measurements, this.opened.sources, stream);
    const program = this.#program(measured);
    const outcome = await runProgram(program, { ...stream, phase: "comparing" });
    const results = resultsByJob(outcome, program.jobs.length);
    const tensors: TensorCheck[] = [...this.#forms];
    const differing: Differing[] = [];
    for (const [i, pair] of this.#pairs.entries()) {
      const { elements } = program.evaluations[i] as Evaluation;
      const { differing: count } = totalDifferences(results[i] ?? []);
      const found: TensorCheck = {
        ...{ tensor: pair.step.tensor, layer: pair.step.layer, verdict: count === 0 ? "identical" : "differs" },
        elements: Math.round(elements * shareOf(program.jobs[i] as Job, elements)),
        differing: count,
      };
      if (count === 0 || !isFloatDType(pair.against.dtype)) tensors.push(found);
      else {
        const firsts = (results[i] ?? []).flatMap(([, first = -1]) => (first >= 0 ? [first] : []));
        differing.push({ ...pair, found, firsts });
      }
    }
    for (let at = 0; at < differing.length; at += BATCH) {
      tensors.push(...(await this.#measureDeviation(differing.slice(at, at + BATCH), measured, stream)));
    }
    const { certainty } = this;
    return { tensors, missing: this.#missing, extra: this.#extra, certainty, bytesRead: outcome.bytesRead };
  }

  /** How far tensors are off, by some of their rows. */
  async #measureDeviation(
    pairs: readonly Differing[],
    measured: Measured,
    stream: StreamOptions,
  ): Promise<TensorCheck[]> {
    const sources = new Map([...this.opened.sources, [PUBLISHED, this.#published]]);
    const reader = new ValueReader(sources);
    const values = pairs.map(({ step }) => step.value);
    const unit = Math.max(...pairs.map(({ against }) => roundingOf(against.dtype).unit));
    const cuts = nearCuts(measured, this.measurements, values, unit);
    const read = pairs.map(({ step, against, firsts }) => {
      const leaves = distinct(leavesOf(step.value));
      const reference = this.#reference(step) ?? leaves[0];
      const { dtype } = against;
      const rows = { ...this.#settings, tensor: step.tensor, firsts };
      return {
        published: reader.add({ source: PUBLISHED, tensor: step.tensor }, measured, rows),
        own: reader.add(step.value, measured, rows, dtype),
        atCuts: cuts.map((near) => reader.add(near.value(step.value), near.measured, rows, dtype)),
        leaves: leaves.map((leaf) => reader.add(leaf, measured, rows)),
        reference: reference && reader.add(reference, measured, rows),
      };
    });
    await reader.run(stream);
    return pairs.map(({ found, against }, i) => {
      const { published, own, atCuts, leaves, reference } = read[i] as (typeof read)[number];
      const values = (place: number) => reader.values(place);
      return judged(found, against.dtype, {
        published: values(published),
        own: values(own),
        atCuts: atCuts.map(values),
        addends: leaves.map(values),
        reference: reference === undefined ? undefined : values(reference),
      });
    });
  }

  /** What the change of a tensor is counted from. */
  #reference({ tensor }: Step): Value | undefined {
    const base = this.opened.sources.get("base")?.tensors.get(tensor);
    return base ? { source: "base", tensor } : undefined;
  }

  /** What is compared, tensor by tensor. */
  get pairs(): readonly Pair[] {
    return this.#pairs;
  }

  get published(): Checkpoint {
    return this.#published;
  }
}

const isMeasured = ({ step }: Pair) => measurementsOf(step.value).length > 0;

function shareOf({ sampled, ...job }: Job, elements: number): number {
  if (!sampled) return 1;
  const length = job.kind === "compare-copy" ? job.bytes : elements;
  return sampled.reduce((sum, { begin, end }) => sum + end - begin, 0) / length;
}

function distinct(values: readonly Value[]): Value[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

/** Elements of a tensor of which the values are looked at. */
const MOST_VALUES = 2 ** 16;
/** Tensors whose values are in memory together. */
const BATCH = 16;

/** Which rows of a tensor are looked at. */
export interface LookedAt extends SampleSettings {
  readonly tensor: string;
  /** Elements whose rows are looked at in any case. */
  readonly firsts?: readonly number[];
}

/** Reads values of some rows of tensors into memory. */
export class ValueReader {
  readonly #resolvers = new Map<Measured, Resolver>();
  readonly #sources: ReadonlyMap<string, Checkpoint>;
  readonly #jobs: { readonly measured: Measured; readonly job: Job }[] = [];
  readonly #memory: SharedArrayBuffer[] = [];

  constructor(sources: ReadonlyMap<string, Checkpoint>) {
    this.#sources = sources;
  }

  /**
   * @param dtype that the values are rounded to first. Default: they are not
   * @returns place of the values
   */
  add(value: Value, measured: Measured, { tensor, seed, firsts = [], ...settings }: LookedAt, dtype?: DType): number {
    const resolver = this.#resolvers.get(measured) ?? new Resolver(this.#sources, measured);
    this.#resolvers.set(measured, resolver);
    const evaluation = resolver.evaluation(value);
    const { elements, columns } = evaluation;
    const file = this.#memory.length;
    const share = Math.min(settings.share, MOST_VALUES / elements);
    const rounded = dtype === "BF16" || dtype === "F16" ? { rounded: dtype as KernelDType } : {};
    const to = { file, offset: 0, dtype: "F32" as const };
    const whole: Job = { kind: "write", name: tensor, value: evaluation, to, ...rounded };
    const sampled = sampledJob(whole, evaluation, { share, seed });
    const own = firsts.slice(0, MOST_FIRSTS).map((at) => at - (at % columns));
    const job = sampled.sampled ? { ...sampled, sampled: withRows(sampled.sampled, own, columns) } : sampled;
    const read = job.sampled?.reduce((sum, { begin, end }) => sum + end - begin, 0) ?? elements;
    this.#memory.push(new SharedArrayBuffer(4 * read));
    this.#jobs.push({ measured, job });
    return file;
  }

  async run(stream: StreamOptions): Promise<void> {
    for (const [measured, { inputs }] of this.#resolvers) {
      const jobs = this.#jobs.filter((one) => one.measured === measured).map(({ job }) => job);
      await runProgram({ inputs, outputs: [], memory: this.#memory, jobs }, { ...stream, phase: "comparing" });
    }
  }

  values(place: number): Float32Array {
    return new Float32Array(this.#memory[place] as SharedArrayBuffer);
  }
}

const MOST_FIRSTS = 32;

/** Ranges with the rows that begin at these elements, ascending and without overlaps. */
function withRows(ranges: readonly ElementRange[], begins: readonly number[], columns: number): ElementRange[] {
  const isIn = (at: number) => ranges.some(({ begin, end }) => at >= begin && at < end);
  const others = [...new Set(begins)].filter((at) => !isIn(at)).map((begin) => ({ begin, end: begin + columns }));
  return [...ranges, ...others].toSorted((a, b) => a.begin - b.begin);
}

interface Values {
  readonly published: Float32Array;
  readonly own: Float32Array;
  /** What a cut among equal values may give besides. */
  readonly atCuts: readonly Float32Array[];
  /** All values that the recipe reads. */
  readonly addends: readonly Float32Array[];
  readonly reference: Float32Array | undefined;
}

/** Unit roundoff, and the smallest normal number. */
const ROUNDINGS = {
  F32: { unit: 2 ** -24, smallest: 2 ** -126 },
  F16: { unit: 2 ** -11, smallest: 2 ** -14 },
  BF16: { unit: 2 ** -8, smallest: 2 ** -126 },
} as const;

const roundingOf = (dtype: string) => ROUNDINGS[dtype as keyof typeof ROUNDINGS] ?? ROUNDINGS.F32;

/** By root mean square, in units of the sizes of all that is added up: one rounding adds a third of a unit of one of these. */
const MOST_ON_AVERAGE = 0.5;

function judged(found: TensorCheck, stored: DType, values: Values): TensorCheck {
  const { published, own, atCuts, addends, reference } = values;
  let [largest, squares, off, change, tied, isKnown] = [0, 0, 0, 0, 0, false];
  const { unit: least, smallest } = roundingOf(stored);
  const most = addends.length + 2;
  for (let i = 0; i < own.length; i++) {
    const [theirs, ours] = [published[i] as number, own[i] as number];
    const moved = ours - ((reference?.[i] as number | undefined) ?? 0);
    change += moved * moved;
    if (Object.is(theirs, ours)) continue;
    isKnown = true;
    let size: number = smallest;
    for (const one of addends) size += Math.abs(one[i] as number);
    let deviation = Math.abs(theirs - ours);
    // What is not near a cut is the same in all, but for rounding.
    if (deviation > least * size) {
      const nearest = Math.min(...atCuts.map((one) => Math.abs(theirs - (one[i] as number))), deviation);
      if (nearest < deviation / 2) {
        tied++;
        deviation = nearest;
      }
    }
    off += deviation * deviation;
    const relative = deviation / size;
    squares += relative * relative;
    largest = Number.isNaN(relative) ? Number.POSITIVE_INFINITY : Math.max(largest, relative);
  }
  const left = change > 0 && Number.isFinite(off) ? Math.sqrt(off / change) : null;
  // Where what differs was not looked at.
  if (!isKnown) return { ...found, verdict: "differs", roundings: null, left: null };
  const mean = Math.sqrt(squares / own.length);
  const dtype = (Object.keys(ROUNDINGS) as (keyof typeof ROUNDINGS)[]).find((one) => {
    const { unit } = ROUNDINGS[one];
    const isWithin = unit >= least && largest <= most * unit && mean <= MOST_ON_AVERAGE * unit;
    // What was computed in a smaller type has no other values.
    return isWithin && (unit === least || isOfType(published, one));
  });
  // Few elements are near a cut; if many were, it would not be the same one.
  if (!dtype || tied > Math.max(MOST_TIED * own.length, 2))
    return { ...found, verdict: "differs", roundings: null, left };
  const roundings = Math.ceil((largest / ROUNDINGS[dtype].unit) * (1 - 1e-6));
  return { ...found, verdict: tied > 0 ? "ties" : "rounding", dtype, roundings, left };
}

const MOST_TIED = 0.05;

function isOfType(values: Float32Array, dtype: keyof typeof ROUNDINGS): boolean {
  const converter = new Converter();
  const rounded = converter.decode(dtype, converter.encode(dtype, values).bytes);
  return rounded.every((value, i) => Object.is(value, values[i]));
}
