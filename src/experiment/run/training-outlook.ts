// What the training runs of a plan will do, for its dry run: rows, steps, rates, hours, and what saving may lose.
import { readSpec } from "../../engine/model/index.js";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { canonicalJson } from "../../kit/files/index.js";
import { groupBy } from "../../kit/index.js";
import { type DataSample, type Run, type RunOutlook, runOutlook } from "../../train/index.js";
import type { PlannedTrainStep } from "../expand/plan-models.js";

/** Sizes of a base: of one on this machine, or those that the plan assumes. */
export type BaseSizes = { readonly parameters: number; readonly checkpoint?: Checkpoint };

/** What was measured of data and bases that are here. */
export interface Measured {
  /** Of a run's data. */
  readonly rowsOf?: (run: Run) => DataSample | undefined;
  /** Some weights of a base. */
  readonly weightsOf?: (base: Checkpoint) => Float32Array | undefined;
}

/** The outlook of a training run, and its hours on an NVIDIA H100 if TRL trains it. */
export interface TrainingOutlook extends RunOutlook {
  readonly name: string;
  readonly gpuHours?: number | undefined;
}

/** Operations per second of an NVIDIA H100 in bfloat16, at the 40% of 989 TFLOP/s that training reaches. */
const H100_OPERATIONS = 0.4 * 989e12;
/** Operations per parameter and token: forward, backward, and activations computed again. With LoRA, frozen weights have no gradient. */
const [FULL_OPERATIONS, LORA_OPERATIONS] = [8, 6];
/** Positions of a base that is not here; no run has as many. */
const MANY_POSITIONS = 2 ** 20;

export function trainingOutlook(
  { step, settings }: PlannedTrainStep,
  base: BaseSizes,
  { rowsOf, weightsOf }: Measured,
): TrainingOutlook {
  const weights = base.checkpoint && weightsOf?.(base.checkpoint);
  const outlook = runOutlook(settings, { ...runModel(base), weights }, rowsOf?.(settings));
  if (!step.trl) return { name: step.name, ...outlook };
  const operations = settings.method === "lora" ? LORA_OPERATIONS : FULL_OPERATIONS;
  const gpuHours = (outlook.tokens * operations * base.parameters) / H100_OPERATIONS / 3600;
  return { name: step.name, ...outlook, gpuHours };
}

export function runModel({ parameters, checkpoint }: BaseSizes) {
  if (!checkpoint) return { parameters, contextLength: MANY_POSITIONS, dtype: "BF16" };
  const dtypes = groupBy(checkpoint.tensors.values(), ({ dtype }) => dtype);
  const [[dtype] = ["BF16"]] = [...dtypes].sort(([, a], [, b]) => b.length - a.length);
  return { parameters, contextLength: positionsOf(checkpoint), dtype };
}

function positionsOf({ config, tensors }: Checkpoint): number {
  try {
    return readSpec(config, tensors.keys()).contextLength;
  } catch {
    // A family that only TRL trains.
    return MANY_POSITIONS;
  }
}

/** Of a run, what the measurement of its data depends on. */
export const dataKey = ({ data, partition, packing, sequence_length, batch, loss_on, seed, holdout }: Run): string =>
  canonicalJson(JSON.parse(JSON.stringify([data, partition, packing, sequence_length, batch, loss_on, seed, holdout])));
