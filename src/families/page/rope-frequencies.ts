// What a type of rotation is made from, and the frequencies that all types begin with.
import type { ConfigFields } from "./config-fields.js";
import type { RopeScaling, RopeSpec } from "./spec.js";

export interface Frequencies extends Pick<RopeSpec, "long" | "dynamic"> {
  readonly frequencies: readonly number[];
  /** Default 1. */
  readonly attentionFactor?: number;
  /** Default none. */
  readonly scaling?: RopeScaling;
}

export interface TypeInput {
  readonly fields: ConfigFields;
  readonly theta: number;
  /** Rotated dimensions. */
  readonly dimensions: number;
  /** Share of them that turn, where the others keep their place (proportional). */
  readonly part: number;
  readonly contextLength: number;
  /** Positions of the original training, before the context was stretched. */
  readonly original: () => number;
}

/** theta^(-2 i / dimensions): Su et al. 2021, arXiv 2104.09864, section 3.2.2. */
export function plain({ theta, dimensions }: Pick<TypeInput, "theta" | "dimensions">): number[] {
  return Array.from({ length: dimensions / 2 }, (_, i) => theta ** ((-2 * i) / dimensions));
}
