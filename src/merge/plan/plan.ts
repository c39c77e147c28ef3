// The plan: a merge as a value. One step per output tensor: a copy, an average, or what a method composes of operations.
// Made from recipes and headers alone; can be printed, counted, saved as JSON, executed, verified.

import type { DType, Shape } from "../../core/index.js";
import type { AddedToken, Part } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import type { Measurement } from "../measurements/measure-all.js";
import type { Recipe } from "./recipe.js";

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
  /** For people. */
  readonly name: string;
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
  /** Which of the recipe's own sources it comes from: one name for a copy, several for an average. */
  readonly origin: readonly string[];
  readonly value: Value;
}

/** A merge as plain data: what it reads and what each output tensor is made of. */
export interface Plan {
  readonly format: typeof PLAN_FORMAT;
  /** The recipe with every default filled in. */
  readonly recipe: Recipe;
  /** Number of transformer layers. */
  readonly layers: number;
  /** Which layer of the sources is at each place, where layers were repeated or left out. */
  readonly layerOrder?: readonly number[];
  /** Family of the models, for people. */
  readonly architecture: string;
  readonly sources: readonly PlanSource[];
  /** What must be read from the weights before the steps can be executed. */
  readonly measurements: readonly Measurement[];
  /** In the order of the output's files. */
  readonly steps: readonly Step[];
  /** The vocabulary that all sources were brought to, where they differ. */
  readonly vocabulary?: {
    readonly rows: number;
    /** Changes when a token moves. */
    readonly digest: string;
    /** Tokens to add to the tokenizer. */
    readonly added: readonly AddedToken[];
  };
  /** Source whose config.json the output has. */
  readonly configFrom: string;
  /** Source whose tokenizer, template and generation configuration the output has. */
  readonly tokenizerFrom: string;
  /** What a person should know before it is executed. */
  readonly notes: readonly string[];
  /** Why sources look unrelated, where they do; executing the plan then needs `force`. */
  readonly unrelated?: readonly string[];
}
