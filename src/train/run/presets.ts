// The hyperparameters of the fifteen experts of the paper, and defaults for models of other sizes.
import { didYouMean } from "../../kit/printing/index.js";
import PAPER from "./paper-experts.json" with { type: "json" };
import type { RunModel } from "./run-settings.js";

/** Bandarkar et al., arXiv 2410.01335, table 4: the experts that were kept, all of Llama 3.1 8B. */
type PaperExpert = (typeof PAPER)[keyof typeof PAPER];

// "30-40k labelled samples per run" and "a checkpoint every 5,000 samples": section 3.1. The upper end, as the best of the
// checkpoints is chosen afterwards.
const PAPER_SAMPLES = 40_000;
const PAPER_CHECKPOINT = 5_000;

/** A learning rate that depends on the size of the model. */
interface ScaledRate {
  /** At the size of Llama 3.1 8B. */
  readonly rate: number;
  /** The most that is taken, by small models. */
  readonly most: number;
}

const LLAMA_8B = 8_030_261_248;

/**
 * How a kind of expert's defaults depend on the model. The rate is the paper's median, the most what worked at 0.46 million
 * parameters; positions are as many as the model has, if these are fewer.
 */
const SCALED: Readonly<Record<"math" | "language", ScaledRate & { readonly length: number }>> = {
  math: { rate: 4e-8, most: 7e-4, length: 2048 },
  language: { rate: 1e-7, most: 5e-4, length: 1024 },
};

/** Fields of a run as a person would write them. */
export type PresetFields = Readonly<Record<string, unknown>>;

const BETA1 = 0.9; // the paper is silent; PyTorch's default

function fieldsOf({ lr, batch, length, decay, clip, schedule: kind, warmup, beta2 }: PaperExpert): PresetFields {
  return {
    method: "full",
    sequence_length: length,
    batch,
    samples: PAPER_SAMPLES,
    optimizer: { lr, betas: [BETA1, beta2], decay, clip },
    schedule: { kind, warmup },
    checkpoints: { every_samples: PAPER_CHECKPOINT, keep: "all" },
  };
}

const SCALED_FIELDS: Readonly<Record<keyof typeof SCALED, PresetFields>> = {
  // Of about 9,000 and 4,500 steps of the paper, 1,000 are warmup: about a tenth and a fifth.
  math: {
    batch: 4,
    optimizer: { betas: [BETA1, 0.99], decay: 0.1, clip: 1 },
    schedule: { kind: "linear", warmup: "10%" },
  },
  language: {
    batch: 8,
    optimizer: { betas: [BETA1, 0.99], decay: 0.1, clip: 0.5 },
    schedule: { kind: "wsd", warmup: "20%" },
  },
};

const PRESETS: ReadonlyMap<string, PresetFields> = new Map([
  ...Object.entries(SCALED_FIELDS),
  ...Object.entries(PAPER).map(([name, row]) => [`paper/${name}`, fieldsOf(row)] as const),
]);

/** `math`, `language`, `paper/math-1` and so on. */
export const PRESET_NAMES: readonly string[] = [...PRESETS.keys()];

/** What a preset puts in fields that a run does not have; undefined if there is no such preset. */
export function presetFields(name: string): PresetFields | undefined {
  return PRESETS.get(name);
}

/** What to say of a preset that is not there. */
export function unknownPreset(name: string): string {
  const hint = didYouMean(name, PRESET_NAMES) || didYouMean(`paper/${name}`, PRESET_NAMES);
  return `must be one of ${PRESET_NAMES.join(", ")}${hint}`;
}

/**
 * The rate and length of the presets `math` and `language` for a model.
 *
 * The rate is the paper's median of the kind (4e-8 for math, 1e-7 for languages), times 8.03e9 / parameters, and at most
 * what worked for a model of 0.46 million parameters, trained from nothing on two cores: 7e-4 and 5e-4. Between these two
 * ends nothing was measured: for other models it is where to begin a search, and it is as gentle as the paper is. So 8B: 4e-8
 * and 1e-7; 1.2B: 2.7e-7 and 6.7e-7; 125M: 2.6e-6 and 6.4e-6; 30M: 1.1e-5 and 2.7e-5.
 * @returns undefined for presets that do not depend on the model
 */
export function scaledPreset(name: string | undefined, model: RunModel) {
  if (name !== "math" && name !== "language") return undefined;
  const sequenceLength = Math.min(SCALED[name].length, model.contextLength);
  return { lr: rateFor(SCALED[name], model.parameters), sequenceLength };
}

function rateFor({ rate, most }: ScaledRate, parameters: number): number {
  return Math.min(most, Number(((rate * LLAMA_8B) / parameters).toPrecision(2)));
}

/**
 * Rates of runs that have none, by method. full: that of the preset `math`. lora: 5e-6 at 8B, as the other defaults of LoRA
 * from a public reproduction of arXiv 2505.18356, and at most that of QLoRA for 7B (arXiv 2305.14314, table 9).
 */
const DEFAULT_RATES: Readonly<Record<"full" | "lora", ScaledRate & { readonly source: string }>> = {
  full: { ...SCALED.math, source: "arXiv 2410.01335, table 4" },
  lora: { rate: 5e-6, most: 2e-4, source: "arXiv 2505.18356 and 2305.14314" },
};

/** The learning rate of a run that has none, and where it comes from. */
export function defaultRate(method: "full" | "lora", { parameters }: RunModel) {
  return { lr: rateFor(DEFAULT_RATES[method], parameters), source: DEFAULT_RATES[method].source };
}
