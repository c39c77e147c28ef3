import { isAbsolute, join } from "node:path";
import type { CallOptions, Progress } from "../kit/index.js";
import {
  checkRun,
  type RunOptions,
  type RunResult,
  readRun,
  type TrainProgress as StepProgress,
  trainRun,
} from "../train/index.js";
import type { RunInput } from "./inputs.js";
import type { FolderOptions } from "./options.js";

/** Progress of a training run; `done` and `total` are optimizer steps. */
export interface TrainProgress extends Progress, Omit<StepProgress, "step" | "steps" | "secondsLeft"> {}

/** Options of `train`. */
export interface TrainOptions
  extends CallOptions<TrainProgress>,
    Pick<FolderOptions, "folder">,
    Pick<RunOptions, "resume" | "force"> {}

/** Result of `train`. */
export type TrainResult = RunResult;

/**
 * Trains a model: all weights, some layers, or a LoRA adapter.
 * @param run what to train, with the fields of a run file; or the path of one, whose relative paths start from its folder
 * @returns the folders of the last and the best checkpoint, each a model that all other calls take
 * @throws RecipeError if the run is not valid, with every problem
 * @throws DataError or CheckpointError if the data or the base cannot be read
 * @throws OutputError if `out` holds another run
 * @throws CancelledError if the signal fires; the state is saved, and `resume` continues
 * @throws LayergraftError with code `diverged` if a loss or gradient is not finite
 */
export async function train(run: RunInput | string, options: TrainOptions = {}): Promise<TrainResult> {
  const { signal, onProgress, resume, force } = options;
  const { run: checked, folder = "." } =
    typeof run === "string" ? await readRun(run) : { run: checkRun(run), folder: options.folder };
  const out = isAbsolute(checked.out) ? checked.out : join(folder, checked.out);
  return trainRun({
    run: { ...checked, out },
    folder,
    signal,
    resume,
    force,
    hub: { fetch: "files", signal },
    onProgress:
      onProgress &&
      (({ step, steps, secondsLeft: _, ...progress }) =>
        onProgress({ phase: "training", done: step, total: steps, unit: "steps", ...progress })),
  });
}
