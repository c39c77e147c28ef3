// Runs the measurements of a plan; independent measurements share passes.

import { largestOf } from "../../kit/arrays/index.js";
import { elementCount, groupBy, LayergraftError, usageError } from "../../kit/index.js";
import {
  leavesOf,
  type Measured,
  type MeasuredResult,
  measurementsOf,
  sourcesRead,
  type Value,
} from "../expressions/expression.js";
import { Resolver, type Sources } from "../expressions/resolve.js";
import { Collector, isReporting } from "../streaming/job-kinds.js";
import { countBytes, isDivisible } from "../streaming/pieces.js";
import {
  type Job,
  type JointJob,
  type Payload,
  type Program,
  rangeOf,
  remembered,
  storedTerms,
} from "../streaming/program.js";
import { resultsByJob } from "../streaming/results.js";
import { type RunOptions, runProgram } from "../streaming/run-program.js";
import { arithmeticOf } from "../streaming/value-operation.js";
import {
  type GramMeasurement,
  type LinesMeasurement,
  measureGram,
  measureLines,
  measureSigns,
  measureTotals,
  type SignsMeasurement,
  type TotalsMeasurement,
} from "./combined.js";
import { CUT, type CutMeasurement, measureCut } from "./cut.js";
import { EarlyMeasurements } from "./early.js";
import { isRun, type MeasureGates, type RunMeasurement, runResults } from "./gates.js";
import type { Binding, Combination, Combine, JobTotal, Measuring, MeasuringJob, Pass } from "./measurement.js";
import { measureOrder, type OrderMeasurement } from "./order-statistics.js";
import { measureRowCut, measureRows, type RowCutMeasurement, type RowsMeasurement } from "./rows.js";
import { measureScales, type ScalesMeasurement } from "./scales.js";

/** Numbers computed from the weights before the steps of a plan can be executed. */
export type Measurement =
  | OrderMeasurement
  | CutMeasurement
  | GramMeasurement
  | TotalsMeasurement
  | SignsMeasurement
  | RowsMeasurement
  | RowCutMeasurement
  | LinesMeasurement
  | ScalesMeasurement
  | RunMeasurement;

type Streamed = Exclude<Measurement, RunMeasurement>;

/** How each kind of measurement is made. */
const MEASURE: { readonly [Kind in Streamed["kind"]]: unknown } = {
  order: measureOrder,
  cut: measureCut,
  gram: measureGram,
  totals: measureTotals,
  magnitude: measureTotals,
  ownership: measureTotals,
  signs: measureSigns,
  rows: measureRows,
  "row-cut": measureRowCut,
  lines: measureLines,
  scales: measureScales,
};

/** Kinds that begin where samples promise what they need, which saves a pass over the weights. */
const EARLY: readonly Measurement["kind"][] = ["signs"];

/** Kinds whose result is as measured; what the others measure is combined. */
const PLAIN: readonly Measurement["kind"][] = ["cut", "rows", "row-cut", "scales", "gates", "routers"];

/**
 * Checks that measurements that were read from JSON can be made.
 * @throws LayergraftError if another version of layergraft made them
 */
export function requireKnown(measurements: readonly Measurement[]): void {
  for (const { kind, label, ...rest } of measurements) {
    if (PLAIN.includes(kind)) continue;
    const { combine } = rest as { readonly combine?: Combine<unknown, unknown> };
    if (!combine) {
      const what = `The plan does not say how it combines ${label}, as an older version of layergraft saved it. Plan again.`;
      throw new LayergraftError("changed", what);
    }
    arithmeticOf<Combination<unknown, unknown, unknown>>(combine.by, "combine");
  }
}

function valuesOf(measurement: Measurement): readonly Value[] {
  switch (measurement.kind) {
    case "row-cut":
      return measurement.tensors.flatMap(({ value, base }) => [value, base]);
    case "gates":
      return [];
    case "routers":
      return [...measurement.mixture, ...measurement.experts.flatMap(({ routers }) => routers)].map(
        ({ value }) => value,
      );
    case "rows":
      return [measurement.value, measurement.base];
    default:
      return [...measurement.values, ...("minus" in measurement ? (measurement.minus ?? []) : [])];
  }
}

/** Ids of the measurements that must be made before. */
function needsOf(measurement: Measurement): readonly string[] {
  const cut = measurement.kind === "rows" && typeof measurement.threshold === "string" ? [measurement.threshold] : [];
  return [...cut, ...valuesOf(measurement).flatMap(measurementsOf)];
}

/** The measurements that values need, with those that these need, in their order. */
export function measurementsFor(values: readonly Value[], measurements: readonly Measurement[]): Measurement[] {
  const byId = new Map(measurements.map((one) => [one.id, one]));
  const needed = new Set<string>();
  const add = (id: string) => {
    if (needed.has(id)) return;
    needed.add(id);
    const one = byId.get(id);
    if (one) for (const before of needsOf(one)) add(before);
  };
  for (const value of values) for (const id of measurementsOf(value)) add(id);
  return measurements.filter(({ id }) => needed.has(id));
}

export interface MeasureOptions extends Omit<RunOptions, "phase"> {
  /** Results of an interrupted run. */
  readonly known?: Measured | undefined;
  /** Computes routers of a mixture of experts, for which a model must run; an error without it. */
  readonly gates?: MeasureGates | undefined;
  /** Called with all results so far after each new one. */
  readonly onMeasured?: ((values: Measured) => Promise<void>) | undefined;
}

/**
 * Runs measurements.
 * @returns results by measurement id
 * @throws CheckpointError if a quantity is undefined, such as the magnitude of a zero change
 */
export async function measureAll(
  measurements: readonly Measurement[],
  sources: Sources,
  options: MeasureOptions,
): Promise<Map<string, MeasuredResult>> {
  const { known = [], onMeasured, gates, ...run } = options;
  const measured = new Map(known);
  for (;;) {
    const waiting = measurements.filter(({ id }) => !measured.has(id));
    // In the order of the plan, not of completion.
    if (waiting.length === 0) {
      return new Map(measurements.map(({ id }) => [id, measured.get(id) as MeasuredResult]));
    }
    const ready = waiting.filter((one) => needsOf(one).every((id) => measured.has(id)));
    if (ready.length === 0) throw new Error("measurements wait for each other");
    for (const one of ready) {
      if (!isRun(one)) continue;
      if (!gates)
        throw usageError("Routers of a mixture must be written before they are used. Write it with layergraft merge.");
      measured.set(one.id, await gates(one, sources, { ...run, measured }));
    }
    const others = ready.filter((one) => !isRun(one));
    const later = waiting.filter((one) => !isRun(one) && !ready.includes(one) && EARLY.includes(one.kind));
    for (const [id, result] of await measureTogether(others, later as Streamed[], sources, measured, run)) {
      measured.set(id, result);
    }
    await onMeasured?.(measured);
  }
}

/**
 * Runs independent measurements, one program per round of passes.
 * @param later need results of others: made in the pass that promises all of these, and missing in the result otherwise
 */
async function measureTogether(
  measurements: readonly Streamed[],
  later: readonly Streamed[],
  sources: Sources,
  measured: Measured,
  run: Omit<RunOptions, "phase">,
): Promise<Map<string, MeasuredResult>> {
  const early = new EarlyMeasurements(
    later.map((one) => ({ id: one.id, needs: needsOf(one), one })),
    measured,
  );
  const resolver = new Resolver(sources, early.results);
  const binding: Binding = {
    evaluation: remembered((value: Value) => resolver.evaluation(value)),
    tensor: (leaf) => resolver.tensor(leaf),
    numbers: (id) => (measured.get(id) ?? []) as readonly number[],
  };
  const begin = (measurement: Streamed) => {
    const measure = MEASURE[measurement.kind] as (one: Streamed, binding: Binding) => Measuring<MeasuredResult>;
    return { id: measurement.id, steps: measure(measurement, binding), totals: [] as JobTotal[] };
  };
  let active = measurements.map(begin);
  const results = new Map<string, MeasuredResult>();
  const phase = `measuring ${nameOf(measurements)}`;
  while (active.length > 0) {
    const passes: RunningPass[] = [];
    const advance = (one: (typeof active)[number]) => {
      const step = one.steps.next(one.totals.splice(0));
      if (step.done) results.set(one.id, step.value);
      else {
        const { jobs, promised, onTotal } = step.value;
        const keep = (job: number, total: JobTotal) => {
          one.totals[job] = total;
        };
        if (promised) early.promise(one.id, promised);
        passes.push({ jobs, onTotal: onTotal ?? keep });
      }
      return !step.done;
    };
    active = active.filter(advance);
    active.push(...early.begin().flatMap(({ one }) => [begin(one)].filter(advance)));
    await runPasses(passes, resolver, { ...run, phase });
  }
  for (const id of early.misled(results)) results.delete(id);
  return results;
}

function nameOf(measurements: readonly Measurement[]): string {
  const labels = new Set(measurements.map(({ label }) => label));
  return labels.size <= 2 ? [...labels].join(", ") : `${measurements.length} quantities`;
}

/** A job of a pass. */
interface Owned {
  readonly job: MeasuringJob;
  readonly take: (total: JobTotal) => void;
}

/** Jobs that share a reading at most, as each takes memory of every thread. */
const MOST_JOINT = 4;

type RunningPass = Required<Pick<Pass, "jobs" | "onTotal">>;

/** The jobs of passes, where those of values that end in the same stored range are together. */
function groupJobs(owned: readonly Owned[]): Owned[][] {
  const groups = groupBy(owned, ({ job }) => {
    const last = "value" in job ? storedTerms(job.value).at(-1) : undefined;
    if (!last || !isJoint(job)) return job;
    const { elements, columns, first } = job.value;
    return JSON.stringify([everyOf(job), elements, columns, first, rangeOf(last)]);
  });
  return [...groups.values()].flatMap((group) => {
    const count = Math.ceil(group.length / MOST_JOINT);
    return Array.from({ length: count }, (_, i) => group.slice(i * MOST_JOINT, (i + 1) * MOST_JOINT));
  });
}

const isJoint = (job: MeasuringJob): job is JointJob["jobs"][number] =>
  job.kind === "count" || job.kind === "signs" || (job.kind === "delta" && !job.minus && isDivisible(job));
const everyOf = (job: JointJob["jobs"][number]) => (job.kind === "count" ? job.every : undefined);

async function runPasses(passes: readonly RunningPass[], resolver: Resolver, options: RunOptions): Promise<void> {
  const groups = groupJobs(
    passes.flatMap(({ jobs, onTotal }) =>
      jobs.map((job, index): Owned => ({ job, take: (total) => onTotal(index, total) })),
    ),
  );
  const jobs = groups.map((group): Job => {
    const [{ job }] = group as [Owned];
    if (!isJoint(job) || (job.kind === "delta" && group.length === 1)) return job;
    return { kind: "joint", name: job.name, jobs: group.map((one) => one.job).filter(isJoint), every: everyOf(job) };
  });
  const take = (index: number, total: readonly Float64Array[] | Payload) => {
    const group = groups[index] as Owned[];
    if (!("reports" in total)) return group[0]?.take(total);
    for (const [i, report] of total.reports.entries()) {
      // What a job that is alone has of each piece.
      group[i]?.take(group[i]?.job.kind === "delta" ? [report as Float64Array] : report);
    }
  };
  const collector = new Collector<Payload>(jobs, take);
  const program = { inputs: resolver.inputs, outputs: [], jobs };
  const outcome = await runProgram(program, { ...options, onPiece: (index, payload) => collector.add(index, payload) });
  resultsByJob(outcome, jobs.length).forEach((pieces, index) => {
    if (!isReporting(jobs[index] as Job)) take(index, pieces);
  });
}

/** A program that reads what a pass of a measurement reads. */
export interface MeasuringProgram {
  readonly program: Program;
  readonly times: number;
}

/** A program for each measurement, to count bytes before measuring. */
export function measuringPrograms(
  measurements: readonly Measurement[],
  sources: Sources,
  placeholders: Measured,
): MeasuringProgram[] {
  return measurements.map((measurement) => {
    const resolver = new Resolver(sources, placeholders);
    const jobs = readValues(measurement, resolver).map((value) => measuringJob(value, resolver));
    return { program: { inputs: resolver.inputs, outputs: [], jobs }, times: timesOf(measurement) };
  });
}

/** The values of a measurement that have elements. */
function readValues(measurement: Measurement, resolver: Resolver): Value[] {
  const hasElements = (value: Value) =>
    leavesOf(value).every((leaf) => resolver.tensor(leaf).shape.every((extent) => extent > 0));
  return valuesOf(measurement).filter(hasElements);
}

function measuringJob(value: Value, resolver: Resolver): Job {
  return { kind: "delta", name: "", value: resolver.evaluation(value) };
}

/** How often a measurement reads its values. */
function timesOf(measurement: Measurement): number {
  return measurement.kind === "cut" && measurement.isExact ? 2 : 1;
}

export function measuringBytes(measurements: readonly Measurement[], sources: Sources, placeholders: Measured): number {
  const resolver = new Resolver(sources, placeholders);
  // One job at a time: a model of many experts has half a million of them.
  const bytesOf = (value: Value) => countBytes([measuringJob(value, resolver)]).read;
  const read = (measurement: Measurement) =>
    readValues(measurement, resolver).reduce((sum, value) => sum + bytesOf(value), 0);
  return measurements.reduce((sum, measurement) => sum + timesOf(measurement) * read(measurement), 0);
}

/** Ids of the sources that measurements read. */
export function measuredSources(measurements: readonly Measurement[]): Set<string> {
  return sourcesRead(measurements.flatMap(valuesOf));
}

/** How many numbers a measurement finds, at most or nearly. */
function resultsOf(measurement: Measurement): number {
  if (measurement.kind === "cut") return CUT.places + 2 * measurement.values.length;
  return measurement.kind === "ownership" ? measurement.values.length : 0;
}

/** Factors that a measurement finds at most: one for each line of each value, or for each block; or numbers of routers. */
export function factorsOf(measurement: Measurement): number {
  if (isRun(measurement)) return runResults(measurement);
  if (measurement.kind !== "lines" && measurement.kind !== "scales") return 0;
  const { shape, values } = measurement;
  const [columns = 1, rows = 1] = shape.toReversed();
  const matrices = elementCount(shape.slice(0, -2));
  if (measurement.kind === "lines") return matrices * values.length * (measurement.axis === "rows" ? rows : columns);
  const [height, width] = measurement.block;
  return matrices * Math.ceil(rows / height) * Math.ceil(columns / width);
}

/** Placeholder results, to count bytes before measuring; the count does not depend on their values. */
export function placeholders(measurements: readonly Measurement[]): Map<string, MeasuredResult> {
  const most = largestOf(measurements.map(resultsOf), 64);
  const numbers = Array.from({ length: most }, () => 1);
  return new Map(
    measurements.map((one): [string, MeasuredResult] => {
      const { id, kind } = one;
      if (isRun(one)) return [id, new Float32Array(runResults(one))];
      return [
        id,
        kind === "rows" ? new Uint8Array() : kind === "lines" || kind === "scales" ? new Float32Array() : numbers,
      ];
    }),
  );
}
