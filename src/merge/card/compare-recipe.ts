// Compares what a recipe gives with published weights: bits first, then how far those are off that differ.
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { elementCount, formatShape, isFloatDType, sameShape } from "../../kit/index.js";
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
import { judged, roundingOf, type TensorCheck } from "./judge-tensor.js";
import { nearCuts } from "./near-cuts.js";
import { type Certainty, certaintyOf, drawn, type SampleSettings, sampledJob } from "./sample.js";
import { MOST_VALUES, ValueReader } from "./value-reader.js";

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
        tensor: step.tensor,
        layer: step.layer,
        verdict: "form" as const,
        elements: 0,
        differing: 0,
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
        tensor: pair.step.tensor,
        layer: pair.step.layer,
        verdict: count === 0 ? "identical" : "differs",
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

/** Tensors whose values are in memory together. */
const BATCH = 16;
