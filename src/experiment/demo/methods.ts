// What the miniature compares: models as they are, merges of a pair of experts, and controls. Merges are recipes, answered
// from without being written.
import type { RecipeInput } from "../../merge/index.js";

/** Folders of a base, a pair of experts, and the run on both data sets. */
export interface Pair {
  readonly base: string;
  readonly math: string;
  readonly language: string;
  readonly joint: string;
}

export interface Contestant {
  readonly name: string;
  /** How a table groups it. */
  readonly kind: "model" | "average" | "task vectors" | "layer swap" | "control";
  readonly source: string | RecipeInput;
  /** One of several configurations of which the best on the development problems is told as well. */
  readonly family?: string;
}

/** b and u of Algorithm 1: layers from the language expert at the bottom and at the top. */
const SWAPS: readonly (readonly [bottom: number, top: number])[] = [
  [1, 0],
  [1, 1],
  [2, 0],
  [3, 0],
  [2, 1],
];

/** All that is compared, of one pair. */
export function contestants({ base, math, language, joint }: Pair): Contestant[] {
  const models = [math, language];
  const swap = (bottom: number, top: number, from: { task: string; language: string }): RecipeInput => ({
    ...{ method: "swap", bottom, top, bottom_transition: 0, top_transition: 0 },
    ...from,
  });
  return [
    { name: "base", kind: "model", source: base },
    { name: "math expert", kind: "model", source: math },
    { name: "language expert", kind: "model", source: language },
    { name: "soup", kind: "average", source: { method: "soup", models } },
    { name: "soup by magnitude", kind: "average", source: { method: "soup", models, base, weights: "magnitude" } },
    { name: "TIES", kind: "task vectors", source: { method: "ties", models, base, density: 0.5 } },
    { name: "task arithmetic", kind: "task vectors", source: { method: "task_arithmetic", models, base, lambda: 1 } },
    ...SWAPS.map(
      ([bottom, top]): Contestant => ({
        name: `swap ${bottom}+${top}`,
        kind: "layer swap",
        source: swap(bottom, top, { task: math, language }),
        family: "swap",
      }),
    ),
    { name: "reverse swap", kind: "control", source: swap(2, 0, { task: language, language: math }) },
    { name: "swap into the base", kind: "control", source: swap(2, 0, { task: base, language }) },
    { name: "joint training", kind: "control", source: joint },
  ];
}

/** The configuration that is named before anything is measured: what was found to work at this size. */
export const NAMED_SWAP = "swap 2+0";
/** The paper's 5 and 2 of 32 layers in proportion to eight: what `layergraft swap` takes by default. */
export const PAPER_SWAP = "swap 1+1";
