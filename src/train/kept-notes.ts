// What saving loses of a change: of a run that has ended, and of one to come.
import type { Checkpoint } from "../formats/checkpoint/index.js";
import { describeKept, type KeptChange, losesChange } from "../kernels/index.js";
import { groupBy } from "../kit/index.js";
import { asField, type SayField } from "../kit/printing/index.js";
import { expectedKept } from "./run/outlook.js";
import type { Run } from "./run/run-schema.js";
import type { RunSettings } from "./run/run-settings.js";
import { sampleWeights } from "./run/sample-weights.js";
import { learningRateFactor } from "./run/schedule.js";

/**
 * What to know of a saved model whose element type loses much of what was trained.
 * @param set how advice sets a field; default as in a file
 */
export function keptNotes(kept: KeptChange | null | undefined, set: SayField = asField): string[] {
  if (!kept || !losesChange(kept)) return [];
  return [`saving as ${describeKept(kept)}. ${set("save_dtype", "float32")} to keep all of it`];
}

/** The same of a run that has not begun, by an estimate. */
export function expectedNotes(kept: KeptChange | undefined, set: SayField = asField): string[] {
  if (!kept || !losesChange(kept)) return [];
  const lost = Math.round(100 * (1 - kept.elements));
  return [
    `saving as ${kept.dtype} may lose ${lost < 100 ? `about ${lost}%` : "nearly all"} of the changed elements, an estimate. ${set("save_dtype", "float32")} to keep all of it`,
  ];
}

/** What saving may keep, by some of the weights that are trained. */
export async function keptBySample(
  run: Run,
  { tensors }: Checkpoint,
  trained: ReadonlySet<string>,
  settings: RunSettings,
) {
  const all = [...tensors.values()].filter(({ name }) => trained.has(name));
  const dtypes = [...groupBy(all, ({ dtype }) => dtype)].sort(([, a], [, b]) => b.length - a.length);
  const { learningRate, schedule, steps } = settings;
  const factors = Array.from({ length: steps }, (_, step) => learningRateFactor(schedule, step, steps));
  return expectedKept(run, { dtype: dtypes[0]?.[0], weights: await sampleWeights(all) }, learningRate, factors);
}
