// The plan of a merge as plain data, with one step per output tensor.

import type { Part } from "../formats/checkpoint/index.js";
import type { AddedToken } from "../formats/vocabulary/index.js";
import type { DType, Shape } from "../kit/index.js";
import type { Value } from "../tensor/expressions/index.js";
import type { Measurement } from "../tensor/measurements/index.js";

/** The file that marks a folder as made by layergraft and records how. */
export const PROVENANCE_FILE = "layergraft.json";

/** Version of the plan's layout; raised when an older reader would misunderstand a newer plan. */
export const PLAN_FORMAT = 2;

/** A checkpoint that a plan reads from. */
export interface PlanSource {
  /** Name that steps use, such as `task` or `language.models[0]`. */
  readonly id: string;
  /** Absolute path of the folder. */
  readonly folder: string;
  /** Absolute path of the adapter's folder. */
  readonly adapter?: string;
  /** Branch, tag or commit, if the model was given by its name on the hub; `folder` is then a commit in the cache. */
  readonly revision?: string;
  /** The same of the adapter. */
  readonly adapterRevision?: string;
  /** Displayed name. */
  readonly name: string;
  /** Whether codes and scales of a quantised model are copied as tensors. */
  readonly asStored?: boolean;
  /** See `Checkpoint.digest`: changes when the files' layout does. */
  readonly digest: string;
  /** Weight files by name, with what identifies them. */
  readonly files: readonly { readonly name: string; readonly bytes: number; readonly headerDigest: string }[];
}

/** One tensor of the output. */
export interface Step {
  readonly tensor: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly layer: number | null;
  readonly part: Part;
  /** Sources of the recipe it comes from: one for a copy, several for an average. */
  readonly origin: readonly string[];
  readonly value: Value;
}

/** What a plan is made from: a recipe, of which only the dtype and the chat template of the result matter here. */
export interface Planned {
  readonly dtype: "keep" | "bfloat16" | "float16" | "float32" | "fp8";
  /** Jinja. */
  readonly chat_template?: string | undefined;
}

/** A model as plain data: its inputs and the value of each output tensor. */
export interface TensorPlan<R extends Planned = Planned> {
  readonly format: typeof PLAN_FORMAT;
  /** The recipe with every default filled in. */
  readonly recipe: R;
  /** Number of transformer layers. */
  readonly layers: number;
  /** Source layer at each position, if layers were repeated or left out. */
  readonly layerOrder?: readonly number[];
  /** Family of the models. */
  readonly architecture: string;
  readonly sources: readonly PlanSource[];
  /** Measurements needed before the steps can be executed. */
  readonly measurements: readonly Measurement[];
  /** In the order of the output's files. */
  readonly steps: readonly Step[];
  /** The common vocabulary, if the sources' vocabularies differ. */
  readonly vocabulary?: {
    readonly rows: number;
    /** Changes when a token moves. */
    readonly digest: string;
    /** Tokens to add to the tokenizer. */
    readonly added: readonly AddedToken[];
  };
  /** What is read of the sources under a budget: see `ReadBlocks`. */
  readonly blocks?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Source of the output's config.json. */
  readonly configFrom: string;
  /** Fields that replace those of that file; those of its text tower one by one. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Source of the output's tokenizer, template and generation configuration. */
  readonly tokenizerFrom: string;
  /** Notes to read before executing. */
  readonly notes: readonly string[];
  /** Set if the experts of a swap look swapped: of the layers taken from `task`, those that `language` changed more. */
  readonly suspicion?: { readonly byLanguage: number; readonly layers: number };
  /** Why sources look unrelated; if set, executing the plan needs `allowUnrelated`. */
  readonly unrelated?: readonly string[];
}
