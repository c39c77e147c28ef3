// The gates of a mixture of experts, which a running model computes from prompts.

import type { Sources } from "../expressions/resolve.js";
import type { RunOptions } from "../streaming/run-program.js";
import type { Labelled } from "./measurement.js";

/** How rows of a router are made. */
export const GATE_MODES = ["hidden", "hidden_avg", "cheap_embed", "random", "uniform_random"] as const;
export type GateMode = (typeof GATE_MODES)[number];

/** Rows of a router, [layers, experts, width]: of norm 1, but for random ones. */
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

export type MeasureGates = (
  gates: GatesMeasurement,
  sources: Sources,
  options: Pick<RunOptions, "threads" | "signal" | "onProgress">,
) => Promise<Float32Array>;
