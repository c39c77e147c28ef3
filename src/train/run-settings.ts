// From what was written to what a trainer does: rates, lengths and steps, once the base and the data are known. Pure
// arithmetic; opens nothing.

import type { LoraSettings } from "./loop/lora.js";
import type { Schedule } from "./loop/schedule.js";
import type { RunSettings } from "./loop/training-settings.js";
import { scaledPreset } from "./presets.js";
import type { Run } from "./run-file.js";
import { LORA_DEFAULTS, warmupShare } from "./run-schema.js";

/** Positions of a sequence where nothing is written: what the paper's language experts have. */
const DEFAULT_LENGTH = 1024;

/** What of the base a run depends on. */
export interface RunModel {
  /** Number of parameters, for the presets that scale the rate. */
  readonly parameters: number;
  /** Positions that the model is made for. */
  readonly contextLength: number;
}

/**
 * What of the data a run depends on. Of a partition, whose streams take turns: of its longest stream, times the number of
 * streams; the shorter ones begin again.
 */
export interface RunData {
  /** Samples of one pass, holdout not counted. */
  readonly samples: number;
  /** Sequences that they make: as many, or fewer when packed. */
  readonly sequences: number;
}

/** What is trained, as text: of the whole run, or undefined for a partition, whose streams say it. */
export function trainedSelection(run: Run): string | undefined {
  if (run.partition) return undefined;
  return run.train ?? (run.method === "lora" ? "layers" : "all");
}

/** Settles what depends on the base and on the data. */
export function settleRun(run: Run, model: RunModel, data: RunData): RunSettings {
  const scaled = scaledPreset(run.preset, model);
  const notes: string[] = [];
  const learningRate = run.optimizer.lr ?? scaled?.lr ?? 0;
  const written = run.sequence_length ?? scaled?.sequenceLength ?? Math.min(DEFAULT_LENGTH, model.contextLength);
  if (written > model.contextLength) {
    notes.push(
      `sequence_length is ${written}, and the model was made for ${model.contextLength} positions; it never saw the others`,
    );
  }
  const sequencesPerStep = run.batch * run.accumulation;
  const steps = stepsOf(run, data, sequencesPerStep);
  const schedule = scheduleOf(run, steps);
  if (schedule.warmup >= steps && steps > 0 && schedule.kind !== "constant") {
    notes.push(
      `the warmup of ${schedule.warmup} steps is as long as the run, which has ${steps}: the rate never falls`,
    );
  }
  const { betas, eps, decay, decay_all: decayAll, clip } = run.optimizer;
  return {
    ...{ learningRate, sequenceLength: written, steps, sequencesPerStep, schedule, lora: loraOf(run), notes },
    optimizer: { betas, epsilon: eps, decay, decayAll, clip: clip === false ? undefined : clip },
    evaluateEvery: run.holdout?.every_samples ?? run.checkpoints.every_samples,
  };
}

function stepsOf({ steps, epochs, samples }: Run, data: RunData, perStep: number): number {
  if (steps !== undefined) return steps;
  const passes = samples === undefined ? (epochs ?? 1) : samples / data.samples;
  return Math.max(1, Math.ceil((passes * data.sequences) / perStep));
}

function scheduleOf({ schedule }: Run, steps: number): Schedule {
  const { kind, warmup, decay_share: decayShare, decay_shape: decayShape, floor } = schedule;
  const rise = warmupShare(warmup);
  return {
    ...{ kind, decayShare, decayShape, floor },
    warmup: rise === undefined ? Number(warmup) : Math.round(rise * steps),
  };
}

function loraOf({ method, lora = LORA_DEFAULTS }: Run): LoraSettings | undefined {
  if (method !== "lora") return undefined;
  const { rank, alpha, rank_stabilised: rankStabilised, dropout } = lora;
  return { rank, alpha, rankStabilised, dropout };
}
