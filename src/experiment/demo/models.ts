// The miniature's models: a base trained from nothing, experts trained from the base. How long and how fast each learns is
// here; what it learns from is tasks.ts.
import { join } from "node:path";
import { exists } from "../../core/files.js";
import { loadSourceTokenizer, openModelSource } from "../../engine/index.js";
import { planSoup } from "../../merge/index.js";
import { type Schedule, type TrainProgress, train } from "../../train/index.js";
import { corpus } from "./corpus.js";
import { writeInitialModel } from "./model.js";
import { MIXES, type Mix } from "./tasks.js";

/** How a model of the miniature is trained. */
export interface Recipe {
  /** What it starts from; the base from nothing. */
  readonly mixes: readonly Mix[];
  readonly learningRate: number;
  readonly steps: number;
  readonly warmup: number;
  readonly decay: number;
}

/** The trainings of the miniature, with what was found to work at this size. */
export const RECIPES = {
  base: { mixes: [MIXES.base], learningRate: 3e-3, steps: 2400, warmup: 30, decay: 0.1 },
  math: { mixes: [MIXES.math], learningRate: 7e-4, steps: 100, warmup: 15, decay: 0 },
  language: { mixes: [MIXES.language], learningRate: 5e-4, steps: 300, warmup: 15, decay: 0 },
  /** The control: both data sets in one run, as many steps as both experts together. */
  joint: { mixes: [MIXES.math, MIXES.language], learningRate: 5e-4, steps: 400, warmup: 15, decay: 0 },
} as const satisfies Record<string, Recipe>;

export type ModelKind = keyof typeof RECIPES;

/** Cosine to 5% of the rate. */
const schedule = (warmup: number): Schedule => ({
  kind: "cosine",
  warmup,
  floor: 0.05,
  decayShare: 0,
  decayShape: "cosine",
});

export interface TrainModelOptions {
  readonly kind: ModelKind;
  /** Folder to make. */
  readonly out: string;
  /** The base's checkpoint; of the base itself nothing. */
  readonly base?: string;
  /** Decides first weights and data. */
  readonly seed: number;
  /** Default: those of the recipe. */
  readonly steps?: number;
  readonly threads?: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: TrainProgress) => void) | undefined;
}

/**
 * Trains a model of the miniature, or goes on where an earlier call was stopped, to the same bytes.
 * @returns the folder of its checkpoint
 */
export async function trainModel(options: TrainModelOptions): Promise<string> {
  const { kind, out, seed, threads = 1, signal, onProgress } = options;
  const recipe: Recipe = RECIPES[kind];
  const { mixes, learningRate, warmup, decay } = recipe;
  const { steps = recipe.steps } = options;
  const start = options.base ?? `${out}-untrained`;
  if (!options.base && !(await exists(join(start, "config.json")))) await writeInitialModel(start, seed);
  const base = await planSoup({ models: [start] });
  const source = await openModelSource(base);
  const tokenizer = await loadSourceTokenizer(source);
  const { batches, digest } = corpus(tokenizer, mixes, { seed, label: kind, steps });
  const result = await train({
    ...{ base, source, out, seed, threads, signal, onProgress, baseName: start, accumulation: 1 },
    streams: [{ batches }],
    trained: new Set(source.tensors.keys()),
    settings: {
      ...{ learningRate, steps, schedule: schedule(warmup), evaluateEvery: Number.MAX_SAFE_INTEGER },
      optimizer: { betas: [0.9, 0.98], epsilon: 1e-8, decay, decayAll: false, clip: 1 },
    },
    checkpointEvery: Number.MAX_SAFE_INTEGER,
    keep: "last",
    saveDType: "keep",
    configuration: { kind, seed, learningRate, steps, warmup, decay },
    inputs: { data: digest, base: base.plan.sources.map((one) => one.digest).join() },
    resume: true,
  });
  return result.last;
}
