// What a person writes to train an expert: every field with its default and its meaning. Reading files of it, presets
// and what holds across fields: run-file.ts.

import { z } from "zod";
import { RecipeError } from "../core/index.js";
import { dataSchema } from "../data/index.js";
import { DECAY_SHAPES, SCHEDULES } from "./loop/schedule.js";
import { parseSelection } from "./loop/selection.js";

export const METHODS = ["full", "lora"] as const;
export const KEEP_RULES = ["best_and_last", "last", "all"] as const;
export const SAVE_DTYPES = ["keep", "bfloat16", "float16", "float32"] as const;

const text = z.string("must be text").min(1, "must not be empty");
const count = z.int("must be a whole number").min(1, "must be at least 1");
const positive = z.number("must be a number").positive("must be positive");
/** From 0 to 1, the ends included. */
const share = z.number("must be a number").min(0, "must be from 0 to 1").max(1, "must be from 0 to 1");

/** Text of the language of selection.ts. */
const selection = z.string("must be a selection such as layers 0-4, 30-31").superRefine((written, context) => {
  try {
    parseSelection(written);
  } catch (error) {
    if (!(error instanceof RecipeError)) throw error;
    context.addIssue({ code: "custom", message: error.message.replace(/^train: /, "") });
  }
});

// A billion of anything is beyond every run, and products of two stay exact.
const MOST = 1e9;

const lora = z.strictObject({
  rank: count.max(4096, "must be at most 4096").default(64).describe("width of the factors"),
  alpha: positive.default(16).describe("what the factors' product counts: alpha / rank, or alpha / sqrt(rank)"),
  rank_stabilised: z
    .boolean("must be true or false")
    .default(true)
    .describe("whether the product is scaled by alpha / sqrt(rank) (arXiv 2312.03732) and not by alpha / rank"),
  dropout: share
    .refine((p) => p < 1, "must be below 1")
    .default(0)
    .describe("probability with which an element of what the first factor reads is dropped"),
  merge: z
    .boolean("must be true or false")
    .default(false)
    .describe("fold the factors into the base when the run ends, beside the adapter"),
});

/** The factors of a run of method lora that says nothing of them: those of a public reproduction of the sequel paper. */
export const LORA_DEFAULTS = lora.parse({});

const optimizer = z.strictObject({
  lr: positive
    .max(10, "must be at most 10")
    .optional()
    .describe(
      "full learning rate; required but for the presets math and language, which derive it from the model's size",
    ),
  betas: z
    .tuple([share.refine((b) => b < 1, "must be below 1"), share.refine((b) => b < 1, "must be below 1")], {
      error: "must be two numbers, such as [0.9, 0.99]",
    })
    .default([0.9, 0.99])
    .describe("AdamW's averages of gradients and of their squares"),
  eps: positive.default(1e-8).describe("what AdamW adds to the root of the squares"),
  decay: z.number("must be a number").min(0, "must not be negative").default(0.1).describe("decoupled weight decay"),
  decay_all: z
    .boolean("must be true or false")
    .default(false)
    .describe("whether norms and biases (1-D tensors) decay, too"),
  clip: z
    .union([positive, z.literal(false)], { error: "must be a positive number, or false for no clipping" })
    .default(1)
    .describe("largest global norm of the gradients of a step; `false` for none"),
});

const PERCENT = /^\s*(\d{1,2}(?:\.\d+)?|100)\s*%\s*$/;

const WARMUP = "must be a number of steps, or a share of all steps such as 10%";

const schedule = z.strictObject({
  kind: z
    .enum(SCHEDULES, `must be one of ${SCHEDULES.join(", ")}`)
    .default("linear")
    .describe("how the learning rate goes after the warmup"),
  warmup: z
    .union([z.int(WARMUP).min(0, WARMUP).max(MOST), z.string(WARMUP).regex(PERCENT, WARMUP)], { error: WARMUP })
    .default(0)
    .describe("optimizer steps in which the rate rises to its full value, or their share of all steps, such as `10%`"),
  decay_share: share.default(0.2).describe("wsd: the share of all steps in which the rate falls, at the end"),
  decay_shape: z
    .enum(DECAY_SHAPES, `must be one of ${DECAY_SHAPES.join(", ")}`)
    .default("1-sqrt")
    .describe("wsd: how it falls"),
  floor: share.default(0).describe("share of the full rate that linear, wsd and cosine fall to"),
});

const checkpoints = z.strictObject({
  every_samples: count
    .max(MOST)
    .default(5000)
    .describe("samples between checkpoints, which are written at the step that reaches them, and at the end"),
  keep: z
    .enum(KEEP_RULES, `must be one of ${KEEP_RULES.join(", ")}`)
    .default("best_and_last")
    .describe("which stay: the last and, where there is a holdout, the one of least loss on it; only the last; or all"),
});

const holdout = z.strictObject({
  samples: count.max(MOST).optional().describe("samples of the data that are kept out of training; or give `share`"),
  share: share
    .refine((s) => s > 0 && s < 1, "must be between 0 and 1")
    .optional()
    .describe("the share of the data that is; or give `samples`"),
  every_samples: count
    .max(MOST)
    .optional()
    .describe("samples between measurements of the loss on them; default: as the checkpoints"),
});

const earlyStopping = z.strictObject({
  patience: count.max(MOST).default(3).describe("measurements without a better loss on the holdout, then the run ends"),
  least: z
    .number("must be a number")
    .min(0, "must not be negative")
    .default(0)
    .describe("how much less the loss must be to count as better"),
});

const stream = z.strictObject({
  name: text.regex(/^[\w-]+$/, "must be of letters, digits, - and _").describe("what logs call the stream"),
  train: selection.describe("the part of the model that this stream's batches update"),
  data: dataSchema.describe("what this stream trains on; as `data`"),
});

export const runSchema = z.strictObject({
  base: text.describe("the checkpoint to start from: a folder, FOLDER+ADAPTER, or a name in the hub's local cache"),
  out: text.describe("folder of the run: checkpoints, state, log"),
  preset: text.optional().describe("defaults for fields that are not given; see the table of presets"),
  method: z
    .enum(METHODS, `must be one of ${METHODS.join(", ")}`)
    .default("full")
    .describe("train the weights themselves, or low-rank factors beside them"),
  lora: lora.optional().describe("of method lora"),
  train: selection
    .optional()
    .describe(
      "what is trained, the rest being frozen: such as `layers 0-4, 30-31`, `all but layers 0-4`, `attention`; default `all`, and for lora `layers`",
    ),
  data: dataSchema.optional().describe("what to train on; or give `partition`"),
  partition: z
    .array(stream)
    .min(2, "must have at least two streams")
    .optional()
    .describe("data streams whose batches alternate, step by step, each updating only its own part of the model"),
  sequence_length: count
    .max(2 ** 20, "must be at most 1048576")
    .optional()
    .describe(
      "tokens of a sequence; longer samples are cut and counted; default 1024, or as many as the model has positions",
    ),
  packing: z
    .boolean("must be true or false")
    .default(false)
    .describe("several samples in a sequence, which do not see each other; otherwise one each, padded"),
  loss_on: z
    .enum(["responses", "all"], "must be one of responses, all")
    .default("responses")
    .describe("whether the prompt counts, too"),
  batch: count.max(65_536).default(8).describe("sequences that go through the model at once"),
  accumulation: count
    .max(65_536)
    .default(1)
    .describe("batches whose gradients are added up to a step; the loss is the mean over the tokens of all of them"),
  steps: count.max(MOST).optional().describe("length of the run in optimizer steps; or give `epochs` or `samples`"),
  epochs: positive
    .max(MOST)
    .optional()
    .describe("length in passes over the data, of a partition over its longest stream; 1 where nothing is given"),
  samples: count.max(MOST).optional().describe("length in samples"),
  optimizer: optimizer.prefault({}).describe("AdamW"),
  schedule: schedule.prefault({}).describe("of the learning rate"),
  checkpoints: checkpoints.prefault({}).describe("when they are written, and which stay"),
  save_dtype: z
    .enum(SAVE_DTYPES, `must be one of ${SAVE_DTYPES.join(", ")}`)
    .default("keep")
    .describe("element type of checkpoints; `keep`: as the base has it; adapters: float32"),
  holdout: holdout.optional().describe("data to measure the loss on that no step sees"),
  early_stopping: earlyStopping.optional().describe("ends a run whose loss on the holdout gets no better"),
  revert: selection
    .optional()
    .describe("what goes back to the base when the run ends, in a checkpoint of its own: train, then revert"),
  seed: z
    .int("must be a whole number")
    .min(0)
    .max(2 ** 32 - 1)
    .default(0)
    .describe("of all chance: the order of the data, the factors' first values, dropout"),
  threads: count
    .max(1024)
    .optional()
    .describe("threads of the computation; default: one per core. Other numbers may round sums differently"),
});

/** The share of a warmup such as `10%`; undefined for a number of steps. */
export function warmupShare(warmup: number | string): number | undefined {
  const match = typeof warmup === "string" ? PERCENT.exec(warmup) : null;
  return match ? Number(match[1]) / 100 : undefined;
}
