import { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import type { AsWritten } from "../../kit/settings/index.js";
import { dataSchema } from "../data/declaration.js";
import { DECAY_SHAPES, SCHEDULES } from "./schedule.js";
import { parseSelection } from "./selection.js";

const text = z.string().min(1);
const count = z.int().min(1);
const positive = z.number().positive();
/** From 0 to 1, the ends included. */
const share = z.number().min(0).max(1);
const belowOne = z.number().min(0).lt(1);

const selection = z.string().superRefine((written, context) => {
  try {
    parseSelection(written);
  } catch (error) {
    if (!(error instanceof RecipeError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
  }
});

// A billion of anything is beyond every run, and products of two stay exact.
const MAX = 1e9;

const lora = z.strictObject({
  rank: count.max(4096).default(64).describe("width of the factors"),
  alpha: positive.default(16).describe("scale of the factors' product: alpha / rank, or alpha / sqrt(rank)"),
  rank_stabilised: z
    .boolean("must be true or false")
    .default(true)
    .describe("scale by alpha / sqrt(rank) (arXiv 2312.03732) instead of alpha / rank"),
  dropout: belowOne.default(0).describe("dropout probability of the first factor's input"),
  merge: z.boolean().default(false).describe("write the base with the factors merged in too"),
});

/** The defaults of method lora, from a public reproduction of the sequel paper. */
export const LORA_DEFAULTS = lora.parse({});

/** Width and scale of LoRA factors. */
export type LoraSettings = Omit<z.output<typeof lora>, "merge">;

const mask = z.strictObject({
  from: text.describe("checkpoint of the first run: a folder, or a name on the hub"),
  share: positive
    .max(1)
    .default(0.05)
    .describe("share of the weights of `train` to train: those that the first run changed most, counted together"),
});

const optimizer = z.strictObject({
  lr: positive
    .max(10)
    .optional()
    .describe(
      "peak learning rate (default at 8B parameters: 4e-8, with lora 5e-6; more for smaller models, up to 7e-4 and 2e-4)",
    ),
  betas: z
    .tuple([belowOne, belowOne], {
      error: "must be two numbers, such as [0.9, 0.99]",
    })
    .default([0.9, 0.99])
    .describe("AdamW decay rates of the averages of gradients and of their squares"),
  eps: positive.default(1e-8).describe("AdamW epsilon"),
  decay: z.number().min(0).default(0.1).describe("decoupled weight decay"),
  decay_all: z.boolean().default(false).describe("decay norms and biases (1-D tensors) too"),
  clip: z
    .union([positive, z.literal(false)], { error: "must be a positive number, or false for no clipping" })
    .default(1)
    .describe("clip gradients to this global norm; `false` for no clipping"),
});

/** AdamW, apart from the learning rate, which changes from step to step. */
export interface OptimizerSettings extends Omit<z.output<typeof optimizer>, "lr" | "betas"> {
  readonly betas: readonly [number, number];
}

const PERCENT = /^\s*(\d{1,2}(?:\.\d+)?|100)\s*%\s*$/;

const WARMUP = "must be a number of steps, or a share of all steps such as 10%";

const schedule = z.strictObject({
  kind: z.enum(SCHEDULES).default("linear").describe("shape of the learning rate after the warmup"),
  warmup: z
    .union([z.int(WARMUP).min(0, WARMUP).max(MAX), z.string(WARMUP).regex(PERCENT, WARMUP)], { error: WARMUP })
    .default(0)
    .describe("optimizer steps of warmup, or their share of all steps, such as `10%`"),
  decay_share: share.default(0.2).describe("wsd: share of all steps, at the end, in which the rate decays"),
  decay_shape: z.enum(DECAY_SHAPES).default("1-sqrt").describe("wsd: shape of the decay"),
  floor: share.default(0).describe("share of the peak rate at which linear, wsd and cosine end"),
});

/** A schedule whose warmup is a number of optimizer steps. */
export interface Schedule extends Omit<z.output<typeof schedule>, "warmup"> {
  readonly warmup: number;
}

const checkpoints = z.strictObject({
  every_samples: count.max(MAX).default(5000).describe("samples between checkpoints; the last step writes one too"),
  keep: z
    .enum(["best_and_last", "last", "all"])
    .default("best_and_last")
    .describe("checkpoints to keep: the last and the one with the lowest held-out loss, only the last, or all"),
});

const holdout = z.strictObject({
  samples: count.max(MAX).optional().describe("number of held-out samples; or give `share`"),
  share: positive.lt(1).optional().describe("held-out share of the data; or give `samples`"),
  every_samples: count
    .max(MAX)
    .optional()
    .describe("samples between measurements of the held-out loss (default: as for checkpoints)"),
});

const earlyStopping = z.strictObject({
  patience: count
    .max(MAX)
    .default(3)
    .describe("end the run after this many measurements without a better held-out loss"),
  least: z.number().min(0).default(0).describe("decrease of the loss that counts as better"),
});

const stream = z.strictObject({
  name: text.regex(/^[\w-]+$/, "must be of letters, digits, - and _").describe("name of the stream in logs"),
  train: selection.describe("the part of the model that this stream's batches update"),
  data: dataSchema.describe("data of this stream; same fields as `data`"),
});

export const runSchema = z.strictObject({
  base: text.describe("checkpoint to start from: a folder, FOLDER+ADAPTER, or a name on the hub, downloaded first"),
  out: text.describe("output folder: checkpoints, state, log"),
  preset: text.optional().describe("named defaults for the other fields; see the table of presets"),
  method: z.enum(["full", "lora"]).default("full").describe("train the weights, or low-rank factors (LoRA)"),
  lora: lora.optional().describe("options of method lora"),
  train: selection
    .optional()
    .describe(
      "part to train, such as `layers 0-4, 30-31`, `layers bottom 5, top 2`, `all but layers 0-4` or `attention`; the rest is frozen (default: `all`, with lora `layers`)",
    ),
  mask: mask
    .optional()
    .describe("sparse fine-tuning: train only the weights that an earlier run changed most (arXiv 2110.07560)"),
  data: dataSchema.optional().describe("training data; or give `partition`"),
  partition: z
    .array(stream)
    .min(2)
    .optional()
    .describe("data streams that alternate step by step; each updates only its own part of the model"),
  sequence_length: count
    .max(2 ** 20)
    .optional()
    .describe(
      "tokens per sequence; longer samples are cut and counted (default: 1024, or the model's positions if fewer)",
    ),
  packing: z
    .boolean("must be true or false")
    .default(false)
    .describe(
      "pack several samples into a sequence; samples do not attend to each other; otherwise one per sequence, padded",
    ),
  loss_on: z.enum(["responses", "all"]).default("responses").describe("learn responses only, or prompts too"),
  batch: count.max(65_536).default(8).describe("sequences per batch"),
  accumulation: count
    .max(65_536)
    .default(1)
    .describe("batches per optimizer step; the loss is the mean over the tokens of all of them"),
  steps: count.max(MAX).optional().describe("length in optimizer steps; or give `epochs` or `samples`"),
  epochs: positive
    .max(MAX)
    .optional()
    .describe("length in passes over the data (of a partition: over its longest stream; default: 1)"),
  samples: count.max(MAX).optional().describe("length in samples"),
  optimizer: optimizer.prefault({}).describe("AdamW"),
  schedule: schedule.prefault({}).describe("learning rate schedule"),
  checkpoints: checkpoints.prefault({}).describe("when to write checkpoints, and which to keep"),
  save_dtype: z
    .enum(["keep", "bfloat16", "float16", "float32"])
    .default("keep")
    .describe("element type of checkpoints; `keep`: that of the base; adapters: float32"),
  holdout: holdout.optional().describe("held-out data that no step trains on"),
  early_stopping: earlyStopping.optional().describe("end the run when the held-out loss stops improving"),
  revert: selection.optional().describe("part to reset to the base after training, in a separate checkpoint"),
  seed: z
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .default(0)
    .describe("random seed of data order, initial factors and dropout"),
  threads: count
    .max(1024)
    .optional()
    .describe("threads to compute with; another number may round sums differently (default: one per core)"),
});

/** What to train, defaults filled in. */
export type Run = z.output<typeof runSchema>;
/** The data of a run: of each stream, or of all of it. */
export const dataOf = ({ data, partition = [] }: Run) =>
  [data, ...partition.map((stream) => stream.data)].flatMap((one) => one ?? []);
/** The same, as written. */
export type RunInput = AsWritten<z.input<typeof runSchema>>;

/** A warmup in optimizer steps. @param steps of the run */
export function warmupSteps(warmup: number | string, steps: number): number {
  const share = PERCENT.exec(String(warmup))?.[1];
  return share === undefined ? Number(warmup) : Math.round((Number(share) / 100) * steps);
}
