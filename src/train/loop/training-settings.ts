// What the loop needs to know of a run: everything settled, nothing left to defaults.
import type { LoraSettings } from "./lora.js";
import type { OptimizerSettings } from "./optimizer.js";
import type { Schedule } from "./schedule.js";

export interface RunSettings {
  /** Full learning rate. */
  readonly learningRate: number;
  /** T, positions of a sequence. */
  readonly sequenceLength: number;
  /** Optimizer steps of the whole run. */
  readonly steps: number;
  /** Sequences of a step: batch times accumulation. */
  readonly sequencesPerStep: number;
  readonly optimizer: OptimizerSettings;
  readonly schedule: Schedule;
  /** Of method lora. */
  readonly lora: LoraSettings | undefined;
  /** Samples between measurements on the holdout. */
  readonly evaluateEvery: number;
  /** What a person should know; usually empty. */
  readonly notes: readonly string[];
}
