// Compares experts with their base row by row in one streaming pass (Bandarkar et al., arXiv 2410.01335, section 3.2).
// A row is an input feature (a column of the stored [out, in] matrix) by default, as in the paper, or an output
// feature; a vector is one row.

import { isMatrix, type Part } from "../../formats/checkpoint/index.js";
import { elementCount, isFloatDType, type Shape } from "../../kit/index.js";
import type { Leaf, Measured, Value } from "../expressions/expression.js";
import { Resolver, type Sources } from "../expressions/resolve.js";
import { Collector } from "../streaming/job-kinds.js";
import { type AnalyzeJob, type Evaluation, partOf } from "../streaming/program.js";
import { concatenate } from "../streaming/results.js";
import { type AnalyzedPiece, pairsOf } from "../streaming/row-statistics.js";
import { type RunOptions, runProgram } from "../streaming/run-program.js";

/** Feature that makes a row: input (as in the paper) or output. */
export type RowAxis = "input" | "output";

/** A tensor of the base and of every expert. */
export interface TensorToAnalyze {
  readonly tensor: string;
  readonly shape: Shape;
  readonly layer: number | null;
  readonly part: Part;
  readonly base: Leaf;
  /** One value per expert, in the order of the experts. */
  readonly experts: readonly Value[];
}

/** How one tensor of one expert differs from the base. */
export interface ExpertDelta {
  /** Mean absolute value of each row's change, float32; NaN for a row with a non-finite difference. */
  readonly rows: Float32Array;
  /** Mean of the finite rows' mean absolute change. */
  readonly mean: number;
  /** Largest row. */
  readonly maximum: number;
  /** Largest absolute difference of a single element. */
  readonly largest: number;
  /** Share of elements that equal the base's exactly; often most elements of a bfloat16 expert. */
  readonly exactZeroShare: number;
  /** Frobenius norm of the change. */
  readonly norm: number;
  /** Frobenius norm of the base, over the elements that are counted. */
  readonly baseNorm: number;
  /** Elements whose change is infinite or NaN. They are left out of all figures, and their rows out of row figures. */
  readonly nonFinite: number;
  /** Row-major index of the first of them, or -1. */
  readonly firstNonFinite: number;
  /** Sum of the squares of the change by block of rows. */
  readonly blocks: readonly number[];
}

/** How the changes of two experts relate in one tensor. */
export interface PairDelta {
  /** Sum of the products of their changes. */
  readonly dot: number;
  /** Share of elements that both changed, in opposite directions. */
  readonly conflictShare: number;
}

export interface TensorDelta extends Pick<TensorToAnalyze, "tensor" | "shape" | "layer" | "part"> {
  readonly experts: readonly ExpertDelta[];
  /** In the order of `pairsOf`. */
  readonly pairs: readonly PairDelta[];
}

/**
 * Analyses tensors of several experts against their base.
 *
 * Differences are float32, taken from the stored values; sums are float64 (in part float32 over at most eight
 * elements), formed in a fixed order: the same on any number of threads. Memory: one value per row plus the buffers of
 * the pass.
 * @param tensors floating-point tensors with at least one element
 */
export async function analyzeTensors(
  tensors: readonly TensorToAnalyze[],
  sources: Sources,
  measured: Measured,
  axis: RowAxis,
  options: Omit<RunOptions, "phase" | "onPiece">,
): Promise<TensorDelta[]> {
  const resolver = new Resolver(sources, measured);
  const jobs: AnalyzeJob[] = [];
  /** Jobs of each tensor: one, or one per matrix of a stack (the experts of a mixture in one tensor). */
  const jobsOf = tensors.map((tensor) => {
    const experts = tensor.experts.map((value) => resolver.evaluation(value));
    const transposed = resolver.tensor(tensor.base).transposed === true;
    const made = analyzeJobs(
      { ...tensor, shape: matricesOf(tensor.shape), transposed },
      resolver.evaluation(tensor.base),
      experts,
      axis,
    );
    jobs.push(...made);
    return made;
  });

  const totals: AnalyzedPiece[] = [];
  const collector = new Collector<AnalyzedPiece>(jobs, (index, total) => {
    totals[index] = total;
  });
  await runProgram(
    { inputs: resolver.inputs, outputs: [], jobs },
    { ...options, phase: "analysing", onPiece: (index, piece) => collector.add(index, piece as AnalyzedPiece) },
  );
  let job = 0;
  return tensors.map((tensor, i): TensorDelta => {
    const parts = (jobsOf[i] ?? []).map((analyzed) => ({
      job: analyzed,
      sums: totals[job++] ?? { experts: [], pairs: [] },
    }));
    const { tensor: name, shape, layer, part } = tensor;
    const experts = tensor.experts.map((_, expert) => expertDelta(parts, expert));
    const pairs = pairsOf(experts.length).map((_, pair): PairDelta => {
      const sums = parts.map(({ sums }) => sums.pairs[pair] ?? { dot: 0, opposed: 0 });
      const opposed = sums.reduce((sum, { opposed }) => sum + opposed, 0);
      return { dot: sums.reduce((sum, { dot }) => sum + dot, 0), conflictShare: opposed / elementCount(shape) };
    });
    return { tensor: name, shape, layer, part, experts, pairs };
  });
}

/** A convolution over two axes or more as one matrix: its kernels are as many as its channels squared. */
function matricesOf(shape: Shape): Shape {
  const width = shape.at(-1) ?? 1;
  return shape.length > 3 ? [elementCount(shape) / width, width] : shape;
}

/** The jobs that analyse one tensor: one, or one per matrix of a stack. */
export function analyzeJobs(
  tensor: RowTensor,
  base: Evaluation,
  experts: readonly Evaluation[],
  rows: RowAxis,
): AnalyzeJob[] {
  const { matrices, axis } = rowLayout(tensor, rows);
  return Array.from({ length: matrices }, (_, i) => ({
    kind: "analyze",
    name: tensor.tensor,
    base: partOf(base, i, matrices),
    experts: experts.map((evaluation) => partOf(evaluation, i, matrices)),
    axis,
  }));
}

/** What says which elements of a tensor are a row. */
export interface RowTensor {
  readonly tensor: string;
  readonly shape: Shape;
  readonly part: Part;
  /** Whether it is stored [in, out] instead of [out, in]. */
  readonly transposed?: boolean | undefined;
}

/** Rows of a tensor: how many matrices it is cut into, and along which axis of each a row lies. */
export interface RowLayout {
  readonly matrices: number;
  readonly axis: AnalyzeJob["axis"];
}

/**
 * Which elements of a tensor are a row. A vector is one, and so is each of several in one tensor, such as the biases of
 * all experts. A convolution of each channel by itself, [channels, 1, taps], has a row for each channel, on either axis.
 */
export function rowLayout({ tensor, shape, part, transposed = false }: RowTensor, rows: RowAxis): RowLayout {
  if (shape.length < 2) return { matrices: 1, axis: "vector" };
  const isByChannel = shape.length === 3 && shape[1] === 1;
  if (isByChannel || !isMatrix(tensor, { part, shape })) return { matrices: 1, axis: "rows" };
  const matrices = elementCount(shape.slice(0, -2));
  return { matrices, axis: (rows === "input") === transposed ? "rows" : "columns" };
}

/** Mean absolute change of every row of a tensor, from the totals of its jobs. */
export function rowMeans(jobs: readonly AnalyzeJob[], totals: readonly AnalyzedPiece[], expert: number): Float32Array {
  const lists = totals.map((total, i) => {
    const sums = total.experts[expert]?.rows ?? new Float64Array();
    const length = (jobs[i]?.base.elements ?? 0) / sums.length;
    return Float32Array.from(sums, (sum) => sum / length);
  });
  return concatenate(lists, Float32Array);
}

/** Whether a tensor can be analysed: floating point, in all of its sources, and not empty. */
export function isAnalyzable(tensor: TensorToAnalyze, leaves: readonly Leaf[], sources: Sources): boolean {
  const dtypes = leaves.map((leaf) => sources.get(leaf.source)?.tensors.get(leaf.tensor)?.dtype);
  return elementCount(tensor.shape) > 0 && dtypes.every((dtype) => dtype !== undefined && isFloatDType(dtype));
}

/** The figures of one expert from the sums of a tensor's matrices. */
function expertDelta(parts: readonly { job: AnalyzeJob; sums: AnalyzedPiece }[], expert: number): ExpertDelta {
  const sums = parts.map(({ sums }) => sums.experts[expert]);
  const add = (pick: (one: NonNullable<(typeof sums)[number]>) => number) =>
    sums.reduce((total, one) => total + (one ? pick(one) : 0), 0);
  const elements = parts.reduce((total, { job }) => total + job.base.elements, 0);
  const rows = rowMeans(
    parts.map(({ job }) => job),
    parts.map((part) => part.sums),
    expert,
  );
  const broken = sums.findIndex((one) => (one?.firstNonFinite ?? -1) >= 0);
  const firstNonFinite =
    broken < 0 ? -1 : broken * (parts[0]?.job.base.elements ?? 0) + (sums[broken]?.firstNonFinite ?? 0);
  const finite = rows.filter((row) => !Number.isNaN(row));
  return {
    rows,
    mean: finite.length > 0 ? finite.reduce((sum, row) => sum + row, 0) / finite.length : Number.NaN,
    maximum: finite.reduce((most, row) => Math.max(most, row), 0),
    largest: sums.reduce((most, one) => Math.max(most, one?.largest ?? 0), 0),
    exactZeroShare: add((one) => one.equal) / elements,
    norm: Math.sqrt(add((one) => one.squares)),
    baseNorm: Math.sqrt(add((one) => one.own)),
    nonFinite: add((one) => one.nonFinite),
    firstNonFinite,
    blocks: sums.flatMap((one) => one?.blocks ?? []),
  };
}
