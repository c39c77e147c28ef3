// Differences between a family's graph in llama.cpp and its models that several pages name.
import type { DecoderSpec } from "./spec.js";

/** What a model has that the graph computes otherwise, as the end of a sentence about the model; undefined if nothing. */
export type Difference = (spec: DecoderSpec) => string | false | undefined;

/** For graphs in which heads times their width are the hidden width. */
export const otherHeads: Difference = ({ heads, headDim, hidden }) =>
  heads * headDim !== hidden && `its ${heads} heads of width ${headDim} do not have the hidden width, ${hidden}`;

/** For graphs whose head is the embedding. */
export const ownHead: Difference = ({ head }) => head !== null && "its head is not the embedding";

/** For graphs in which layers have windows, but for every n-th. */
export const otherWindows =
  (n: number): Difference =>
  ({ layers }) =>
    layers.some(({ window }) => window !== null) &&
    layers.some(({ window }, index) => (window === null) !== ((index + 1) % n === 0)) &&
    `other layers than every ${n}th have no window`;

/** For graphs that divide shares of experts by their sum, do not scale them, and correct scores. */
export const otherShares: readonly Difference[] = [
  ({ routing }) =>
    routing !== null &&
    (routing.normaliser === null || routing.scale !== 1) &&
    "its shares of experts are not divided by their sum, or multiplied by a number",
  ({ layers }) =>
    layers.some(({ experts }) => experts && !experts.correction) && "nothing is added to scores of experts",
];
