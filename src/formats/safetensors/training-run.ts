// The folder of a training run, which is not a model: its checkpoints are.
import { existsSync } from "node:fs";
import { join } from "node:path";

/** The checkpoint that a run's folder leads to: the best one where the run chose it, else the last. */
export interface RunCheckpoint {
  readonly path: string;
  readonly isAdapter: boolean;
}

/** @param names those in the folder @returns undefined where it is not a run, or has no checkpoint yet */
export function checkpointOfRun(folder: string, names: readonly string[]): RunCheckpoint | undefined {
  const name = ["best", "last"].find((one) => names.includes(one));
  if (name === undefined) return undefined;
  const path = join(folder, name);
  return { path, isAdapter: existsSync(join(path, "adapter_config.json")) };
}
