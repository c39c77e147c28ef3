import { basename, join } from "node:path";
import { plural } from "../../core/index.js";
import { EventFile, eventFileName, RUN_FILES, readTrainingLog } from "../../train/index.js";
import type { Step, TrainStep } from "../steps/step.js";
import type { Store } from "./store.js";

/** An event file of a training run, in the folder `tensorboard/` of the experiment. */
export function eventFileOf(out: string, { name }: TrainStep, part: "train" | "scores"): string {
  return join(out, "tensorboard", name.replace(/[/\\]/g, "-"), eventFileName(part));
}

/** Scores of experts' checkpoints, at their steps, beside the curves of their training. Written again by each run. */
export class ScoreEvents {
  readonly #store: Store;
  /** By the key of the training step. */
  readonly #files = new Map<string, EventFile>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Adds the score of a step, if it is done and evaluates a checkpoint that a step of the experiment trained. */
  async add(step: Step, steps: readonly Step[]): Promise<void> {
    const score = this.#store.evaluated(step.key)?.score;
    if (step.kind !== "evaluate" || score === undefined || typeof step.model !== "string") return;
    const { step: key, path } = { step: "", path: "", ...step.locations[step.model] };
    const training = steps.find((one) => one.key === key);
    const samples = this.#store.trained(key)?.find((checkpoint) => checkpoint.path === path)?.samples;
    if (training?.kind !== "train" || samples === undefined) return;
    const log = join(this.#store.stepFolder(key), "run", RUN_FILES.log);
    const entries = await readTrainingLog(log);
    const at = entries.filter(({ loss }) => loss !== undefined).findLastIndex((entry) => entry.samples === samples);
    const file = this.#files.get(key) ?? new EventFile(eventFileOf(this.#store.folder, training, "scores"), 0);
    this.#files.set(key, file);
    const part = step.items === null ? "" : ` (${plural(step.items.length, "item")})`;
    if (at >= 0) file.scalars(at + 1, { [`eval/${basename(step.request.task)}${part}`]: score });
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
  }
}
