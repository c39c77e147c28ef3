// What an extraction would do, from headers alone.

import type { Shape } from "../../kit/index.js";
import { type ExtractOptions, moduleOf, openModels } from "./open-models.js";

/** Rank of the adapter if neither rank nor energy is given. */
export const DEFAULT_RANK = 64;

export interface ExtractionPlan {
  readonly base: string;
  readonly model: string;
  /** Linear weights that can get factors; the rank is null if it follows from `energy`. */
  readonly linear: readonly { readonly module: string; readonly shape: Shape; readonly rank: number | null }[];
  /** Tensors that factors cannot hold. */
  readonly others: readonly string[];
  /** Bytes of the factors if all linear weights changed; null if the ranks follow from `energy`. */
  readonly bytes: number | null;
}

/** The largest rank of a weight of this shape. */
export function mostRank({ rank, energy }: ExtractOptions, shape: Shape): number {
  return Math.min(rank ?? (energy === undefined ? DEFAULT_RANK : Number.POSITIVE_INFINITY), ...shape);
}

/**
 * Plans an extraction from headers.
 * @throws RecipeError if rank or energy is out of range, or the base has an adapter
 * @throws MismatchError if the models do not fit together
 */
export async function planExtraction(options: ExtractOptions): Promise<ExtractionPlan> {
  const { base, model, linear, others } = await openModels(options);
  const planned = linear.map(({ tensor, shape }) => ({
    module: moduleOf(tensor),
    shape,
    rank: options.energy === undefined ? mostRank(options, shape) : null,
  }));
  const bytes = planned.map(({ shape: [out = 0, input = 0], rank }) =>
    rank === null ? null : 4 * rank * (out + input),
  );
  return {
    base: base.lead.checkpoint.name,
    model,
    linear: planned,
    others: others.map(({ tensor }) => tensor),
    bytes: bytes.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0),
  };
}
