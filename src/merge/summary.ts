// What a plan comes to, as numbers: tensors copied and computed, bytes to read and write, and who owns each layer.
import { DTYPE_BITS } from "../core/dtype.js";
import { groupBy } from "../core/group.js";
import { elementCount } from "../core/shape.js";
import { countsInMagnitude, magnitudeProgram } from "../delta/magnitude.js";
import { flatten } from "../source/expression.js";
import type { Sources } from "../source/resolve.js";
import { countBytes } from "../streaming/program.js";
import type { Plan } from "./plan.js";
import type { OpenedPlan } from "./planner.js";

/** Where the tensors of one layer, or those outside all layers, come from. */
export interface Ownership {
  /** Layer number; null for the tensors outside the layers. */
  readonly layer: number | null;
  /**
   * The distinct origins of its tensors. One: all of it is that source's, or an average of those. Several: its tensors
   * come from different sources.
   */
  readonly origins: readonly (readonly string[])[];
}

export interface PlanSummary {
  readonly tensors: number;
  readonly parameters: number;
  /** Tensors copied byte for byte. */
  readonly copied: number;
  /** Tensors computed: averaged, converted, or with an adapter's product added. */
  readonly computed: number;
  /** Bytes read while writing the output, plus those of the measurements. */
  readonly bytesToRead: number;
  /** Of these, bytes read to measure magnitudes. */
  readonly bytesToMeasure: number;
  /** Bytes of the output's tensors. */
  readonly bytesToWrite: number;
  /** One entry per layer, from the input, and last the one of the tensors outside. */
  readonly ownership: readonly Ownership[];
}

/** Sums a plan up; reads nothing. */
export function summarizePlan({ plan, sources }: OpenedPlan): PlanSummary {
  const placeholder = placeholders(plan);
  let copied = 0;
  let bytesToRead = 0;
  let bytesToWrite = 0;
  for (const step of plan.steps) {
    const leaves = flatten(step.value, placeholder).terms;
    const stored = leaves.map(({ source, tensor }) => sources.get(source)?.tensors.get(tensor));
    const [only] = stored;
    if (only && stored.length === 1 && !only.lowRank && only.dtype === step.dtype) copied++;
    for (const tensor of stored) {
      bytesToRead += tensor?.bytes ?? 0;
      if (tensor?.lowRank) bytesToRead += tensor.lowRank.a.bytes + tensor.lowRank.b.bytes;
    }
    bytesToWrite += (elementCount(step.shape) * DTYPE_BITS[step.dtype]) / 8;
  }
  const bytesToMeasure = measuringBytes(plan, sources);
  return {
    tensors: plan.steps.length,
    parameters: plan.steps.reduce((sum, step) => sum + elementCount(step.shape), 0),
    copied,
    computed: plan.steps.length - copied,
    bytesToRead: bytesToRead + bytesToMeasure,
    bytesToMeasure,
    bytesToWrite,
    ownership: ownershipOf(plan),
  };
}

/** Values for measurements not made yet; which leaves are read does not depend on them. */
function placeholders(plan: Plan): Map<string, number> {
  return new Map(plan.measurements.map(({ id }) => [id, 1]));
}

function measuringBytes(plan: Plan, sources: Sources): number {
  return plan.measurements.reduce((sum, { tensors }) => {
    const counted = tensors.filter((tensor) => countsInMagnitude(sources, tensor));
    return sum + countBytes(magnitudeProgram(counted, sources, placeholders(plan)).jobs).read;
  }, 0);
}

function ownershipOf(plan: Plan): Ownership[] {
  const byLayer = groupBy(plan.steps, ({ layer }) => layer);
  const layers: (number | null)[] = Array.from({ length: plan.layers }, (_, layer) => layer);
  return [...layers, null].map((layer) => {
    const distinct = new Map((byLayer.get(layer) ?? []).map(({ origin }) => [origin.join(" "), origin] as const));
    return { layer, origins: [...distinct.values()].sort((a, b) => a.length - b.length || compare(a[0], b[0])) };
  });
}

function compare(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
