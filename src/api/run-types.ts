// What to train, as code writes it. Written by npm run docs from the schemas. Change the schemas, not this file.

import type { DataInput } from "../data/index.js";

/** What to train, from which base, on which data. Fields of a run file, in camelCase. */
export interface TrainRun {
  /** Checkpoint to start from: a folder, FOLDER+ADAPTER, or a name on the hub, downloaded first. */
  readonly base: string;
  /** Output folder: checkpoints, state, log. */
  readonly out: string;
  /** Named defaults for the other fields; see the table of presets. */
  readonly preset?: string | undefined;
  /** Train the weights, or low-rank factors (LoRA). Default: `"full"`. */
  readonly method?: "full" | "lora" | undefined;
  /** Options of method lora. */
  readonly lora?: {
    /** Width of the factors. Default: `64`. */
    readonly rank?: number | undefined;
    /** Scale of the factors' product: alpha / rank, or alpha / sqrt(rank). Default: `16`. */
    readonly alpha?: number | undefined;
    /** Scale by alpha / sqrt(rank) (arXiv 2312.03732) instead of alpha / rank. Default: `true`. */
    readonly rankStabilised?: boolean | undefined;
    /** Dropout probability of the first factor's input. Default: `0`. */
    readonly dropout?: number | undefined;
    /** Write the base with the factors merged in too. Default: `false`. */
    readonly merge?: boolean | undefined;
  } | undefined;
  /** Sparse fine-tuning: two runs of the given length. */
  readonly sparse?: {
    /** Share of the trained weights to keep: those that change most in a first run, which a second run from the base trains alone (arXiv 2110.07560). Default: `0.05`. */
    readonly keep?: number | undefined;
  } | undefined;
  /** Part to train, such as `layers 0-4, 30-31`, `layers bottom 5, top 2`, `all but layers 0-4` or `attention`; the rest is frozen (default: `all`, with lora `layers`). */
  readonly train?: string | undefined;
  /** Training data; or give `partition`. */
  readonly data?: DataInput | undefined;
  /** Data streams that alternate step by step; each updates only its own part of the model. */
  readonly partition?: readonly ({
    /** Name of the stream in logs. */
    readonly name: string;
    /** The part of the model that this stream's batches update. */
    readonly train: string;
    /** Data of this stream; same fields as `data`. */
    readonly data: DataInput;
  })[] | undefined;
  /** Tokens per sequence; longer samples are cut and counted (default: 1024, or the model's positions if fewer). */
  readonly sequenceLength?: number | undefined;
  /** Pack several samples into a sequence; samples do not attend to each other; otherwise one per sequence, padded. Default: `false`. */
  readonly packing?: boolean | undefined;
  /** Learn responses only, or prompts too. Default: `"responses"`. */
  readonly lossOn?: "responses" | "all" | undefined;
  /** Sequences per batch. Default: `8`. */
  readonly batch?: number | undefined;
  /** Batches per optimizer step; the loss is the mean over the tokens of all of them. Default: `1`. */
  readonly accumulation?: number | undefined;
  /** Length in optimizer steps; or give `epochs` or `samples`. */
  readonly steps?: number | undefined;
  /** Length in passes over the data (of a partition: over its longest stream; default: 1). */
  readonly epochs?: number | undefined;
  /** Length in samples. */
  readonly samples?: number | undefined;
  /** AdamW. */
  readonly optimizer?: {
    /** Peak learning rate (default at 8B parameters: 4e-8, with lora 5e-6; more for smaller models, up to 7e-4 and 2e-4). */
    readonly lr?: number | undefined;
    /** AdamW decay rates of the averages of gradients and of their squares. Default: `[0.9,0.99]`. */
    readonly betas?: readonly [number, number] | undefined;
    /** AdamW epsilon. Default: `1e-8`. */
    readonly eps?: number | undefined;
    /** Decoupled weight decay. Default: `0.1`. */
    readonly decay?: number | undefined;
    /** Decay norms and biases (1-D tensors) too. Default: `false`. */
    readonly decayAll?: boolean | undefined;
    /** Clip gradients to this global norm; `false` for no clipping. Default: `1`. */
    readonly clip?: number | false | undefined;
  } | undefined;
  /** Learning rate schedule. */
  readonly schedule?: {
    /** Shape of the learning rate after the warmup. Default: `"linear"`. */
    readonly kind?: "linear" | "wsd" | "cosine" | "constant" | undefined;
    /** Optimizer steps of warmup, or their share of all steps, such as `10%`. Default: `0`. */
    readonly warmup?: number | string | undefined;
    /** Wsd: share of all steps, at the end, in which the rate decays. Default: `0.2`. */
    readonly decayShare?: number | undefined;
    /** Wsd: shape of the decay. Default: `"1-sqrt"`. */
    readonly decayShape?: "1-sqrt" | "linear" | "cosine" | undefined;
    /** Share of the peak rate at which linear, wsd and cosine end. Default: `0`. */
    readonly floor?: number | undefined;
  } | undefined;
  /** When to write checkpoints, and which to keep. */
  readonly checkpoints?: {
    /** Samples between checkpoints; the last step writes one too. Default: `5000`. */
    readonly everySamples?: number | undefined;
    /** Checkpoints to keep: the last and the one with the lowest held-out loss, only the last, or all. Default: `"best_and_last"`. */
    readonly keep?: "best_and_last" | "last" | "all" | undefined;
  } | undefined;
  /** Element type of checkpoints; `keep`: that of the base; adapters: float32. Default: `"keep"`. */
  readonly saveDtype?: "keep" | "bfloat16" | "float16" | "float32" | undefined;
  /** Held-out data that no step trains on. */
  readonly holdout?: {
    /** Number of held-out samples; or give `share`. */
    readonly samples?: number | undefined;
    /** Held-out share of the data; or give `samples`. */
    readonly share?: number | undefined;
    /** Samples between measurements of the held-out loss (default: as for checkpoints). */
    readonly everySamples?: number | undefined;
  } | undefined;
  /** End the run when the held-out loss stops improving. */
  readonly earlyStopping?: {
    /** End the run after this many measurements without a better held-out loss. Default: `3`. */
    readonly patience?: number | undefined;
    /** Decrease of the loss that counts as better. Default: `0`. */
    readonly least?: number | undefined;
  } | undefined;
  /** Part to reset to the base after training, in a separate checkpoint. */
  readonly revert?: string | undefined;
  /** Random seed of data order, initial factors and dropout. Default: `0`. */
  readonly seed?: number | undefined;
  /** Threads to compute with; another number may round sums differently (default: one per core). */
  readonly threads?: number | undefined;
}
