// Which tensors of two checkpoints differ, and by how much, in one streaming pass.

import type { Checkpoint, CheckpointTensor, Part } from "../../formats/checkpoint/index.js";
import { elementCount, isFloatDType, sameShape } from "../../kit/index.js";
import { Resolver } from "../expressions/resolve.js";
import type { Job } from "../streaming/program.js";
import { resultsByJob, totalDifferences, totalStatistics } from "../streaming/results.js";
import { type RunOptions, runProgram } from "../streaming/run-program.js";

/** How one tensor differs between two checkpoints. Differences are taken in float32 from the stored values. */
export interface TensorComparison {
  readonly tensor: string;
  readonly layer: number | null;
  readonly part: Part;
  readonly elements: number;
  /** Elements that differ. */
  readonly differing: number;
  /** Mean of |b - a|; null for dtypes compared byte by byte. */
  readonly meanAbsolute: number | null;
  /** Largest |b - a|. */
  readonly largest: number | null;
  /** ||b - a|| / ||a||, Frobenius; null as above, or where a is zero. */
  readonly relative: number | null;
  /** Differences that are infinite or NaN; left out of the mean. */
  readonly nonFinite: number;
}

export interface CheckpointComparison {
  readonly tensors: readonly TensorComparison[];
  readonly onlyInA: readonly string[];
  readonly onlyInB: readonly string[];
  /** Tensors with the same name but different shapes. */
  readonly reshaped: readonly string[];
  /** Whether both have the same tensors with the same values. */
  readonly identical: boolean;
}

/**
 * Compares all tensors that two checkpoints have in common, b against a.
 * @param options threads, memory, signal, progress
 */
export async function compareCheckpoints(
  a: Checkpoint,
  b: Checkpoint,
  options: Omit<RunOptions, "phase">,
): Promise<CheckpointComparison> {
  const onlyInA = [...a.tensors.keys()].filter((name) => !b.tensors.has(name));
  const onlyInB = [...b.tensors.keys()].filter((name) => !a.tensors.has(name));
  const reshaped: string[] = [];
  const common: CheckpointTensor[] = [];
  for (const tensor of a.tensors.values()) {
    const twin = b.tensors.get(tensor.name);
    if (!twin) continue;
    if (sameShape(tensor.shape, twin.shape)) common.push(tensor);
    else reshaped.push(tensor.name);
  }

  const resolver = new Resolver(
    new Map([
      ["a", a],
      ["b", b],
    ]),
  );
  const leaf = (source: string, tensor: CheckpointTensor) => ({ source, tensor: tensor.name });
  const jobs: Job[] = [];
  // A tensor whose dtypes differ and cannot be subtracted has no job: it differs as a whole.
  const jobOf = common.map((tensor) => {
    const { name } = tensor;
    const other = b.tensors.get(name) as CheckpointTensor;
    if (isFloatDType(tensor.dtype) && isFloatDType(other.dtype)) {
      const [value, minus] = [resolver.evaluation(leaf("b", other)), resolver.evaluation(leaf("a", tensor))];
      return jobs.push({ kind: "delta", name, value, minus }) - 1;
    }
    if (tensor.dtype !== other.dtype) return undefined;
    const [from, against] = [resolver.place(other), resolver.place(tensor)];
    return jobs.push({ kind: "compare-copy", name, bytes: tensor.bytes, from, against }) - 1;
  });
  const program = { inputs: resolver.inputs, outputs: [], jobs };
  const results = resultsByJob(await runProgram(program, { ...options, phase: "comparing" }), jobs.length);

  const tensors = common.map((tensor, i): TensorComparison => {
    const elements = elementCount(tensor.shape);
    const place = { tensor: tensor.name, layer: tensor.layer, part: tensor.part, elements };
    const job = jobOf[i];
    const pieces = job === undefined ? [] : (results[job] ?? []);
    if (job === undefined || jobs[job]?.kind !== "delta") {
      const differing = job === undefined ? elements : totalDifferences(pieces).differing;
      return { ...place, differing, meanAbsolute: null, largest: null, relative: null, nonFinite: 0 };
    }
    const s = totalStatistics(pieces);
    const finite = elements - s.nonFinite;
    return {
      ...place,
      differing: s.differing,
      meanAbsolute: finite > 0 ? s.sumAbsolute / finite : 0,
      largest: s.largest,
      relative: s.sumSquaresOfB > 0 ? Math.sqrt(s.sumSquares / s.sumSquaresOfB) : null,
      nonFinite: s.nonFinite,
    };
  });
  const hasOthers = onlyInA.length + onlyInB.length + reshaped.length > 0;
  const identical = !hasOthers && tensors.every(({ differing }) => differing === 0);
  return { identical, tensors, onlyInA, onlyInB, reshaped };
}
