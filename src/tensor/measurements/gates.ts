// Routers of a mixture of experts, which a running model computes from texts.

import type { DType, Shape } from "../../kit/index.js";
import type { Measured, Value } from "../expressions/expression.js";
import type { Sources } from "../expressions/resolve.js";
import type { RunOptions } from "../streaming/run-program.js";
import type { Labelled } from "./measurement.js";

/** How rows of a router are made. */
export const GATE_MODES = ["hidden", "hidden_avg", "cheap_embed", "calibrated", "random", "uniform_random"] as const;
export type GateMode = (typeof GATE_MODES)[number];

/** Rows of a router, [layers, experts, width]: of norm 1, but for calibrated and random ones. */
export interface GatesMeasurement extends Labelled {
  readonly kind: "gates";
  readonly mode: GateMode;
  /** Id of the model that reads the prompts. */
  readonly source: string;
  readonly experts: readonly { readonly positive: readonly string[]; readonly negative: readonly string[] }[];
  readonly layers: number;
  /** Size of a hidden state. */
  readonly width: number;
  readonly seed: number;
}

/** A tensor of a model that is run before it is written. */
export interface MeasuredTensor {
  readonly tensor: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly value: Value;
}

/** Routers [experts, width] of a merge, one after another, such that they route each expert's texts as the expert's own routers would. */
export interface RoutersMeasurement extends Labelled {
  readonly kind: "routers";
  /** Id of the source whose configuration and tokenizer the merge has. */
  readonly source: string;
  /** The merge. */
  readonly mixture: readonly MeasuredTensor[];
  /** Tensors of it that are calibrated, in the order of the result. */
  readonly routers: readonly string[];
  /** Texts of each expert, and its own routers, with their biases. */
  readonly experts: readonly { readonly texts: readonly string[]; readonly routers: readonly MeasuredTensor[] }[];
  /** Factor of the Hessian off its diagonal. */
  readonly scale: number;
  /** Tokens that are read of a text. */
  readonly length: number;
}

/** What a model must run for. */
export type RunMeasurement = GatesMeasurement | RoutersMeasurement;

export function isRun(measurement: { readonly kind: string }): measurement is RunMeasurement {
  return measurement.kind === "gates" || measurement.kind === "routers";
}

/** How many numbers are measured. */
export function runResults(measurement: RunMeasurement): number {
  if (measurement.kind === "gates") return measurement.layers * measurement.experts.length * measurement.width;
  const { mixture, routers } = measurement;
  const sizes = new Map(
    mixture.map(({ tensor, shape }) => [tensor, shape.reduce((product, size) => product * size, 1)]),
  );
  return routers.reduce((sum, router) => sum + (sizes.get(router) ?? 0), 0);
}

export type MeasureGates = (
  measurement: RunMeasurement,
  sources: Sources,
  options: Pick<RunOptions, "threads" | "signal" | "onProgress"> & {
    /** Results of earlier measurements. */
    readonly measured?: Measured | undefined;
  },
) => Promise<Float32Array>;
