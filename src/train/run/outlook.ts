// What a run will do, before its base is loaded and its data are read whole.
import { Converter, type KeptChange, Rounding } from "../../kernels/index.js";
import { DTYPE_BY_TORCH_NAME } from "../../kit/index.js";
import type { Run } from "./run-schema.js";
import { type RunModel, settleRun } from "./run-settings.js";
import { learningRateFactor } from "./schedule.js";

/** What is known of a run's data. */
export interface DataSample {
  /** Samples of a pass; of a partition, of its longest stream times the streams. */
  readonly rows: number;
  /** Whether there may be more rows, as only the first of a large set were read. */
  readonly isLeast: boolean;
  /** Mean of the rows that were read, after cutting. */
  readonly tokensPerRow: number;
  /** Sequences of a row; below 1 if rows are packed. */
  readonly sequencesPerRow: number;
}

/** Numbers of a run. Those that depend on data that is not here are undefined. */
export interface RunOutlook {
  readonly rows?: number | undefined;
  readonly isLeast: boolean;
  /** Tokens that it trains on. */
  readonly tokens: number;
  /** Whether the tokens are an upper bound, of full sequences. */
  readonly isMost: boolean;
  readonly sequences?: number | undefined;
  readonly steps?: number | undefined;
  /** Steps of warmup. */
  readonly warmup?: number | undefined;
  /** Learning rate after the warmup, or at most that is reached, and at the last step. */
  readonly peak: number;
  readonly last?: number | undefined;
  /** Passes over the data. */
  readonly epochs?: number | undefined;
  /** What the element type of the checkpoints may keep of the change: an estimate. Undefined where it keeps all. */
  readonly kept?: KeptChange | undefined;
  /** Whether `kept` is of weights of the base, not of usual ones. */
  readonly isSampled: boolean;
  /** Why the warmup does not fit the run. */
  readonly problem?: string | undefined;
  /** What the run will note before its first step, as far as it is known. */
  readonly notes: readonly string[];
}

/** Samples of a run without a length, which is one pass over its data; the paper's smallest runs have this many. */
export const TYPICAL_SAMPLES = 30_000;

/**
 * @param model sizes of the base; `dtype`: element type of its weights; `weights`: some of them, by default such as are usual
 * @param data undefined if not all of it is here
 */
export function runOutlook(
  run: Run,
  model: RunModel & { readonly dtype?: string | undefined; readonly weights?: Float32Array | undefined },
  data?: DataSample,
): RunOutlook {
  const rows = data?.rows ?? run.samples ?? TYPICAL_SAMPLES;
  const perRow = data?.sequencesPerRow ?? 1;
  const settings = settleRun(run, model, { samples: rows, sequences: Math.ceil(rows * perRow) });
  const { learningRate, schedule, steps, sequencesPerStep, sequenceLength } = settings;
  const samples = (steps * sequencesPerStep) / perRow;
  const isKnown = data !== undefined || run.steps !== undefined || (!run.packing && run.samples !== undefined);
  const factors = Array.from({ length: steps }, (_, step) => learningRateFactor(schedule, step, steps));
  const kept = expectedKept(run, model, learningRate, factors);
  const of = {
    ...(data ? { rows: data.rows, epochs: samples / data.rows } : {}),
    isLeast: data?.isLeast ?? false,
    tokens: Math.round(data ? samples * data.tokensPerRow : samples * sequenceLength),
    isMost: data === undefined,
    notes: settings.notes.filter((note) => note !== settings.warmupProblem),
    ...(kept ? { kept } : {}),
    isSampled: kept !== undefined && model.weights !== undefined,
  };
  if (!isKnown) return { ...of, peak: learningRate };
  return {
    ...of,
    sequences: steps * sequencesPerStep,
    steps,
    warmup: schedule.warmup,
    peak: learningRate * factors.reduce((most, factor) => Math.max(most, factor), 0),
    last: learningRate * (factors.at(-1) ?? 1),
    problem: settings.warmupProblem,
  };
}

/** Root mean square of the weights of models of billions of parameters, about. */
const USUAL_WEIGHT = 0.02;
/** Weights, and changes of each, of the estimate. */
const [WEIGHTS, CHANGES] = [512, 32];

/**
 * What rounding keeps of a change as large as a walk of steps in random directions makes it, each as long as the rate: the root of
 * the sum of the squared rates. With the paper's 1e-7 over 5,000 steps that is 6e-6; its experts changed by about 1e-5. Changes, and
 * weights that are not given, are normal, by their quantiles.
 */
export function expectedKept(
  { method, save_dtype: saved }: Run,
  { dtype, weights: sampled }: { readonly dtype?: string | undefined; readonly weights?: Float32Array | undefined },
  rate: number,
  factors: readonly number[],
): KeptChange | undefined {
  const to = saved === "keep" ? dtype : DTYPE_BY_TORCH_NAME[saved];
  if (method === "lora" || (to !== "BF16" && to !== "F16")) return undefined;
  const change = rate * Math.sqrt(factors.reduce((sum, factor) => sum + factor * factor, 0));
  const normal = (count: number) => Array.from({ length: count }, (_, i) => normalQuantile((i + 0.5) / count));
  const changes = normal(CHANGES);
  const converter = new Converter();
  const usual = sampled ?? normal(WEIGHTS).map((weight) => USUAL_WEIGHT * weight);
  const weights = Float32Array.from([...usual].flatMap((weight) => changes.map(() => weight)));
  const base = converter.decode(to, converter.encode(to, weights).bytes);
  const exact = base.map((weight, i) => weight + change * (changes[i % CHANGES] ?? 0));
  const rounding = new Rounding(converter);
  rounding.add(to, exact, converter.encode(to, exact).bytes, base);
  return rounding.result();
}

/** Quantile of the normal distribution. @param p from 0 to 1, the ends excluded */
function normalQuantile(p: number): number {
  // Abramowitz and Stegun, 26.2.23: off by less than 4.5e-4.
  const t = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p)));
  const found =
    t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t ** 3);
  return p < 0.5 ? -found : found;
}
