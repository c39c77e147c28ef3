// Makes the measurements that a plan's weights wait for, in their order: a later one may need an earlier one's value.
import { measureMagnitude } from "../delta/magnitude.js";
import type { Sources } from "../source/resolve.js";
import type { RunOptions } from "../streaming/run.js";
import type { Measurement } from "./plan.js";

/** @param known values that an earlier run has found */
export async function measureAll(
  measurements: readonly Measurement[],
  sources: Sources,
  options: Omit<RunOptions, "phase">,
  known: ReadonlyMap<string, number> = new Map(),
): Promise<Map<string, number>> {
  const measured = new Map(known);
  for (const { id, expert, tensors } of measurements) {
    if (measured.has(id)) continue;
    const phase = `measuring ${expert}`;
    measured.set(id, await measureMagnitude(expert, tensors, sources, measured, { ...options, phase }));
  }
  return measured;
}
