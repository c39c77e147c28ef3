// Makes the measurements that a plan's weights wait for, in their order: a later one may need an earlier one's value.
import { measureMagnitude } from "../delta/magnitude.js";
import type { Sources } from "../source/resolve.js";
import type { RunOptions } from "../streaming/run.js";
import type { Measurement } from "./plan.js";

export interface MeasureOptions extends Omit<RunOptions, "phase"> {
  /** Values that an earlier run has found. */
  readonly known?: ReadonlyMap<string, number> | undefined;
  /** Takes all values found so far, after each measurement. */
  readonly onMeasured?: ((values: ReadonlyMap<string, number>) => Promise<void>) | undefined;
}

/** @returns values by measurement id */
export async function measureAll(
  measurements: readonly Measurement[],
  sources: Sources,
  options: MeasureOptions,
): Promise<Map<string, number>> {
  const { known = [], onMeasured, ...run } = options;
  const measured = new Map(known);
  for (const { id, expert, tensors } of measurements) {
    if (measured.has(id)) continue;
    measured.set(
      id,
      await measureMagnitude(expert, tensors, sources, measured, { ...run, phase: `measuring ${expert}` }),
    );
    await onMeasured?.(measured);
  }
  return measured;
}
