import { formatCount, plural } from "../../kit/printing/index.js";
import { defaultRate, scaledPreset } from "./presets.js";
import { type Run, type Schedule, warmupSteps } from "./run-schema.js";
import { decaySteps, warmupProblem } from "./schedule.js";

/** What of a run depends on the base and on the data. */
export interface RunSettings {
  /** Full learning rate. */
  readonly learningRate: number;
  readonly sequenceLength: number;
  readonly steps: number;
  /** Batch times accumulation. */
  readonly sequencesPerStep: number;
  readonly schedule: Schedule;
  /** Samples between measurements of the held-out loss. */
  readonly evaluateEvery: number;
  /** Why the warmup does not fit the run, which a plan refuses; also among the notes. */
  readonly warmupProblem?: string | undefined;
  /** For people; usually empty. */
  readonly notes: readonly string[];
}

/** As for the language experts of the paper. */
const DEFAULT_LENGTH = 1024;

/** What a run depends on of the base. */
export interface RunModel {
  /** Number of parameters, by which default rates are scaled. */
  readonly parameters: number;
  readonly contextLength: number;
}

/** What a run depends on of the data. Of a partition: its longest stream, times the number of streams. */
export interface RunData {
  /** Samples of a pass, without those held out. */
  readonly samples: number;
  /** Sequences of these samples; fewer if packed. */
  readonly sequences: number;
}

/** The selection of the whole run; undefined for a partition, whose streams have their own. */
export function trainedSelection(run: Run): string | undefined {
  if (run.partition) return undefined;
  return run.train ?? (run.method === "lora" ? "layers" : "all");
}

/** Settles what depends on the base and on the data. */
export function settleRun(run: Run, model: RunModel, data: RunData): RunSettings {
  const scaled = scaledPreset(run.preset, model);
  const notes: string[] = [];
  const usual = defaultRate(run.method, model);
  const learningRate = run.optimizer.lr ?? scaled?.lr ?? usual.lr;
  if (run.optimizer.lr === undefined && !scaled) {
    const what = `${run.method === "lora" ? "LoRA" : "full fine-tuning"} of ${formatCount(model.parameters)} parameters`;
    notes.push(`learning rate ${usual.lr} is the default for ${what} (${usual.source}); set optimizer.lr to change it`);
  }
  const sequenceLength = run.sequence_length ?? scaled?.sequenceLength ?? Math.min(DEFAULT_LENGTH, model.contextLength);
  if (sequenceLength > model.contextLength) {
    notes.push(
      `sequence_length is ${sequenceLength}, but the model was trained on at most ${model.contextLength} positions`,
    );
  }
  const sequencesPerStep = run.batch * run.accumulation;
  const steps = stepsOf(run, data, sequencesPerStep);
  const schedule = { ...run.schedule, warmup: warmupSteps(run.schedule.warmup, steps) };
  const isShare = typeof run.schedule.warmup === "string";
  const found = warmupProblem(schedule, { steps, peak: learningRate, isShare });
  const problem = found === undefined ? undefined : `${found}. ${warmupAdvice(run)}`;
  if (problem !== undefined) notes.push(problem);
  if (schedule.kind === "wsd" && decaySteps(schedule, steps) === 1) {
    notes.push(
      `the decay of wsd is 1 of ${plural(steps, "step")}, at the full rate, so the rate never falls; raise schedule.decay_share or train longer`,
    );
  }
  const evaluateEvery = run.holdout?.every_samples ?? run.checkpoints.every_samples;
  return {
    learningRate,
    sequenceLength,
    steps,
    sequencesPerStep,
    schedule,
    evaluateEvery,
    warmupProblem: problem,
    notes,
  };
}

/** What to change in a run that is short for its warmup. */
function warmupAdvice({ packing, steps }: Run): string {
  return packing && steps === undefined
    ? "Packing makes few steps of many samples: set packing: false, or schedule.warmup to a share such as 10%"
    : "Set schedule.warmup to a share such as 10%, or train longer";
}

function stepsOf({ steps, epochs, samples }: Run, data: RunData, perStep: number): number {
  if (steps !== undefined) return steps;
  const passes = samples === undefined ? (epochs ?? 1) : samples / data.samples;
  return Math.max(1, Math.ceil((passes * data.sequences) / perStep));
}
