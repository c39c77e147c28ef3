import type { ModelSource } from "../../engine/index.js";
import type { KeptChange } from "../../kernels/index.js";
import type { OpenedPlan } from "../../merge/index.js";
import type { Run } from "../run/run-schema.js";
import type { RunSettings } from "../run/run-settings.js";
import type { LoraPlan } from "./lora.js";
import type { Masks } from "./masks.js";
import type { Progress } from "./state.js";
import type { TokenBatch } from "./trainable.js";

export interface TrainingBatch extends TokenBatch {
  /** Samples that end in it. */
  readonly samples: number;
  /** Tokens, padding not counted. */
  readonly tokens: number;
  /** For messages: its number and how its samples begin. */
  readonly name: string;
}

export type JsonValue = Progress["position"][number];

/** Endless batches, in an order that depends on the seed alone. */
export interface BatchSource {
  readonly name: string;
  next(): TrainingBatch;
  /** JSON, for `seek`. */
  position(): JsonValue;
  seek(position: JsonValue): void;
}

/** A stream of batches, and the names of the tensors that it trains; undefined for all. */
export interface TrainingStream {
  readonly batches: BatchSource;
  readonly trained?: ReadonlySet<string> | undefined;
}

export interface TrainOptions {
  /** Its data and what it selects are in the fields below. */
  readonly run: Run;
  readonly settings: RunSettings;
  readonly base: OpenedPlan;
  readonly source: ModelSource;
  /** What adapters name as their base. */
  readonly baseName: string;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
  readonly out: string;
  /** They take turns, step by step. */
  readonly streams: readonly TrainingStream[];
  /** Names of all tensors that are trained. */
  readonly trained: ReadonlySet<string>;
  readonly lora?: LoraPlan | undefined;
  /** Measures which elements of the tensors are trained; called once nothing else refuses the run. Default: all. */
  readonly masks?: (() => Promise<Masks>) | undefined;
  readonly holdout: readonly TokenBatch[];
  /** Names of the tensors to reset to the base in a checkpoint of their own. */
  readonly revert?: ReadonlySet<string> | undefined;
  /** Digests of what a run reads, by names for messages. */
  readonly inputs: {
    readonly data: Readonly<Record<string, string>>;
    /** Reads the whole base, so it is called once nothing else refuses the run. */
    readonly base: () => Promise<Readonly<Record<string, string>>>;
  };
  /** When the run began, which chat templates may write. Default: now. */
  readonly started?: Date | undefined;
  /** Resume an interrupted run in `out`, to the same weights. Default: false. */
  readonly resume?: boolean | undefined;
  /** Replace an earlier run in `out`. Default: false. */
  readonly force?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called where `resume` is set: the steps made before, of all; 0 if no state was saved. */
  readonly onResume?: ((at: Pick<TrainProgress, "step" | "steps">) => void) | undefined;
  readonly onProgress?: ((progress: TrainProgress) => void) | undefined;
  readonly onCheckpoint?: OnCheckpoint | undefined;
}

/** Takes the folder of each checkpoint that is due, and how far the run is. Training waits for it. */
export type OnCheckpoint = (folder: string, at: Pick<TrainProgress, "step" | "steps">) => void | Promise<void>;

export interface Rates {
  /** Tokens per second. */
  readonly tokensPerSecond: number;
  readonly secondsLeft: number;
  /** Latest loss on the held-out data, in nats. */
  readonly holdoutLoss?: number;
}

/** After a step, and after the measurement that followed it. */
export interface TrainProgress extends Rates {
  readonly step: number;
  readonly steps: number;
  /** Samples so far. */
  readonly samples: number;
  /** Mean loss over the step's labels, in nats. */
  readonly loss: number;
  /** Learning rate of the step. */
  readonly learningRate: number;
  /** Global norm of the gradients before clipping. */
  readonly gradientNorm: number;
}

export interface TrainResult {
  readonly steps: number;
  readonly samples: number;
  readonly tokens: number;
  /** Folders of the checkpoints that were kept. */
  readonly last: string;
  readonly best: string | null;
  readonly reverted: string | null;
  readonly loss: number | null;
  readonly bestLoss: number | null;
  /** How much of the change the element type of the last checkpoint keeps; null where float32 keeps all of it. */
  readonly kept: KeptChange | null;
  readonly stoppedEarly: boolean;
  readonly resumed: boolean;
  readonly log: string;
  readonly seconds: number;
}
