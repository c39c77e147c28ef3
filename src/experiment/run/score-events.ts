import { mkdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { plural, readLog } from "../../core/index.js";
import { EventFile, eventFileName, RUN_FILES } from "../../train/index.js";
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
    if (step.kind !== "evaluate" || score === undefined) return;
    const location = typeof step.model === "string" ? step.locations[step.model] : undefined;
    if (location === undefined || !("step" in location)) return;
    const training = steps.find((one) => one.kind === "train" && one.key === location.step);
    const samples = this.#store.trained(location.step)?.find(({ path }) => path === location.path)?.samples;
    if (training?.kind !== "train" || samples === undefined) return;
    const { entries } = await readLog(
      join(this.#store.stepFolder(location.step), "run", RUN_FILES.log),
      (entry) => entry as { samples: number; loss?: number },
    );
    const made = entries.filter(({ loss }) => loss !== undefined);
    const at = made.findLastIndex((entry) => entry.samples === samples);
    const file = this.#files.get(training.key) ?? (await this.#open(training));
    const part = step.items === null ? "" : ` (${plural(step.items.length, "item")})`;
    if (at >= 0) file.scalars(at + 1, { [`eval/${basename(step.request.task)}${part}`]: score });
  }

  async #open(training: TrainStep): Promise<EventFile> {
    const path = eventFileOf(this.#store.folder, training, "scores");
    await mkdir(dirname(path), { recursive: true });
    const file = new EventFile(path, 0);
    this.#files.set(training.key, file);
    return file;
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
  }
}
