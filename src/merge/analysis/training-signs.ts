// What an expert's changes show of how it was trained and stored.

import { elementCount } from "../../kit/index.js";
import { formatPercent } from "../../kit/printing/index.js";
import type { TensorAnalysis } from "./analysis.js";
import { isCounted } from "./counted.js";

/**
 * `mostly-unchanged`: of the matrices in the layers that it changed, most weights are exactly the base's. `matrices-only`: nothing
 * but matrices in the layers changed.
 */
export type TrainingSign = "mostly-unchanged" | "matrices-only";

/** Signs of one expert, and what they rest on. */
export interface TrainingSigns {
  readonly expert: string;
  readonly signs: readonly TrainingSign[];
  /** Share of weights that are exactly the base's, in the matrices of layers that changed at all; null where none did. */
  readonly unchangedShare: number | null;
  /** Tensors that changed, and of these the matrices in the layers. */
  readonly changed: { readonly tensors: number; readonly matrices: number };
}

/**
 * Least `unchangedShare` of `mostly-unchanged`. In three seeds, every threshold from 36% to 89% parts updates at a rate of 1e-6,
 * trained or stored in bfloat16, from all others; a half makes no error in the 36 experts of three other seeds
 * (test/reference/training_signs.py).
 */
const MOSTLY_UNCHANGED = 0.5;

export function trainingSigns(
  tensors: readonly Pick<TensorAnalysis, "tensor" | "shape" | "layer" | "part" | "experts">[],
  experts: readonly string[],
): TrainingSigns[] {
  return experts.map((expert, i) => {
    const changed = tensors.filter((tensor) => (tensor.experts[i]?.exactZeroShare ?? 1) < 1);
    const matrices = changed.filter(isCounted);
    const elements = matrices.reduce((sum, { shape }) => sum + elementCount(shape), 0);
    const equal = matrices.reduce(
      (sum, { shape, experts: all }) => sum + (all[i]?.exactZeroShare ?? 1) * elementCount(shape),
      0,
    );
    const unchangedShare = matrices.length > 0 ? equal / elements : null;
    const signs: TrainingSign[] = [];
    if (unchangedShare !== null && unchangedShare >= MOSTLY_UNCHANGED) signs.push("mostly-unchanged");
    if (matrices.length > 0 && matrices.length === changed.length) signs.push("matrices-only");
    return { expert, signs, unchangedShare, changed: { tensors: changed.length, matrices: matrices.length } };
  });
}

/** The signs of experts in sentences; empty where there are none. */
export function trainingSentences(found: readonly TrainingSigns[]): string[] {
  return found.flatMap(({ expert, signs, unchangedShare }) => [
    ...(signs.includes("mostly-unchanged")
      ? [
          `${expert}: ${formatPercent(unchangedShare ?? 0)} of the weights in its matrices are exactly the base's. GRPO and ` +
            "fine-tuning at a low rate look like this, as small updates round away in 16 bits; so does sparse fine-tuning. GRPO " +
            "experts are reported to merge badly (arXiv 2606.18521): evaluate what you merge.",
        ]
      : []),
    ...(signs.includes("matrices-only")
      ? [
          `${expert}: only matrices in the layers changed, as after merging a LoRA adapter, or training with the rest frozen.`,
        ]
      : []),
  ]);
}
